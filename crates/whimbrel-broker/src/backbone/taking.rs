//! The handling of frames of other brokers, whatever carried them.

use bytes::Bytes;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::frame::{FRAME, MeshFrame};
use super::traffic::Traffic;
use crate::buffer::{GapAnswer, GapRequest, Refusal};
use crate::hub::{Aged, Finding, Hub};

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
            take_messages(hub, traffic, channel, messages, finding)?;
        }
        MeshFrame::Heads(channel, heads) => hub.handle_heads(channel, by, &heads),
        MeshFrame::Request(..) if !has_room => {}
        MeshFrame::Request(channel, origin, ranges) => {
            let request = GapRequest { to: hub.name().broker, origin, ranges };
            let Some(GapAnswer { messages, gone, absent, .. }) = hub.answer(channel, &request) else {
                return Err("it asks for a channel that is not here".to_owned());
            };
            let mut answers = frames_of(channel, messages);
            // In order: what is denied is what did not come before.
            answers.push(MeshFrame::Denials(channel, origin, gone, absent));
            return Ok(answers);
        }
        MeshFrame::Denials(channel, origin, gone, absent) => {
            hub.handle_denials(channel, origin, &GapAnswer { by, messages: Vec::new(), gone, absent });
        }
        // Over NATS, each broker keeps what is durable by itself.
        MeshFrame::Stored(..) | MeshFrame::Confirm(..) | MeshFrame::Word(_) => {}
        MeshFrame::Hello(_) | MeshFrame::Introduction(_) => {
            return Err("it introduces itself a second time".to_owned());
        }
    }
    Ok(Vec::new())
}

/// Takes messages of a broker.
///
/// # Errors
/// No broker of the cluster sends these.
pub(super) fn take_messages(
    hub: &Hub,
    traffic: &Traffic,
    channel: ChannelId,
    messages: Vec<Aged>,
    finding: &mut Finding,
) -> Result<(), String> {
    traffic.on_received(messages.len());
    for aged in messages {
        match hub.receive(channel, aged, finding) {
            // It is asked for again once another run of a broker is forgotten: that one has many is no fault of who sends this.
            Some(Ok(_) | Err(Refusal::TooManyOrigins)) => {}
            Some(Err(refusal)) => return Err(refusal.to_string()),
            None => return Err("it sends messages of a channel that is not here".to_owned()),
        }
    }
    Ok(())
}

/// Puts messages into frames of a sensible length, as bytes.
pub(super) fn message_frames(channel: ChannelId, messages: Vec<Aged>) -> Vec<Bytes> {
    frames_of(channel, messages).iter().map(MeshFrame::encode).collect()
}

fn frames_of(channel: ChannelId, messages: Vec<Aged>) -> Vec<MeshFrame> {
    let mut frames = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for aged in messages {
        bytes += aged.1.encoded().len();
        batch.push(aged);
        if bytes >= FRAME {
            frames.push(MeshFrame::Messages(channel, std::mem::take(&mut batch)));
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        frames.push(MeshFrame::Messages(channel, batch));
    }
    frames
}
