//! What a broker does with the frames of another, whatever carried them.

use whimbrel_pubsub::message::Origin;

use super::frame::{FRAME, MeshFrame};
use super::traffic::Traffic;
use crate::buffer::{GapAnswer, GapRequest};
use crate::hub::{Finding, Hub};

/// Takes a frame of the run `by`. Returns the answer, unless there is none or no room for it.
///
/// # Errors
/// No broker of the cluster sends this.
pub(super) fn take(
    hub: &Hub,
    (by, traffic): (Origin, &Traffic),
    frame: MeshFrame,
    has_room: bool,
    finding: &mut Finding,
) -> Result<Vec<MeshFrame>, String> {
    match frame {
        MeshFrame::Messages(channel, messages) => {
            traffic.on_received(messages.len());
            for aged in messages {
                match hub.receive(channel, aged, finding) {
                    Some(Ok(_)) => {}
                    Some(Err(refusal)) => return Err(refusal.to_string()),
                    None => return Err("it sends messages of a channel that is not here".to_owned()),
                }
            }
        }
        MeshFrame::Heads(channel, heads) => hub.handle_heads(channel, by, &heads),
        MeshFrame::Request(..) if !has_room => {}
        MeshFrame::Request(channel, origin, ranges) => {
            let request = GapRequest { to: hub.name().broker, origin, ranges };
            let Some(GapAnswer { messages, gone, absent, .. }) = hub.answer(channel, &request) else {
                return Err("it asks for a channel that is not here".to_owned());
            };
            let mut answers = Vec::new();
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for aged in messages {
                bytes += aged.1.encoded().len();
                batch.push(aged);
                if bytes >= FRAME {
                    answers.push(MeshFrame::Messages(channel, std::mem::take(&mut batch)));
                    bytes = 0;
                }
            }
            if !batch.is_empty() {
                answers.push(MeshFrame::Messages(channel, batch));
            }
            // In order: what is denied is what did not come before.
            answers.push(MeshFrame::Denials(channel, origin, gone, absent));
            return Ok(answers);
        }
        MeshFrame::Denials(channel, origin, gone, absent) => {
            hub.handle_denials(channel, origin, &GapAnswer { by, messages: Vec::new(), gone, absent });
        }
        MeshFrame::Hello(_) | MeshFrame::Introduction(_) => {
            return Err("it introduces itself a second time".to_owned());
        }
    }
    Ok(Vec::new())
}
