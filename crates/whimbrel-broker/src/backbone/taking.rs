//! The handling of frames of other brokers, whatever carried them.

use bytes::Bytes;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::frame::{FRAME, MeshFrame};
use super::traffic::Traffic;
use crate::buffer::{GapAnswer, GapRequest, Refusal};
use crate::hub::{Aged, Finding, Hub};

/// The trouble with a broker whose last values are not taken.
const FAR_AHEAD: &str = "its clock is more than ten years ahead: its retained messages are not accepted";

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
            take_messages(hub, (by, traffic), channel, messages, finding)?;
        }
        MeshFrame::Heads(channel, heads) => hub.handle_heads(channel, by, &heads),
        MeshFrame::Request(..) if !has_room => {}
        MeshFrame::Request(channel, origin, ranges) => {
            let request = GapRequest { to: hub.name().broker, origin, ranges };
            let Some(GapAnswer { messages, gone, absent, .. }) = hub.answer(channel, &request) else {
                return Err("it asked for a channel that this broker does not have".to_owned());
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
            return Err("it introduced itself twice".to_owned());
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
    (by, traffic): (Origin, &Traffic),
    channel: ChannelId,
    messages: Vec<Aged>,
    finding: &mut Finding,
) -> Result<(), String> {
    traffic.on_received(messages.len());
    for aged in messages {
        // Whether it is taken is up to the first brokers that get it. What one of them took, all take.
        if aged.0.origin == by && aged.1.is_retained() && hub.is_far_ahead(aged.0.published) {
            traffic.standing.on_refused(FAR_AHEAD);
            continue;
        }
        match hub.receive(channel, aged, finding) {
            // It is asked for again once another run of a broker is forgotten, or there is room for last values: that there is none is no
            // fault of who sends this.
            Some(Ok(_) | Err(Refusal::TooManyOrigins | Refusal::Retained)) => {}
            Some(Err(refusal)) => return Err(refusal.to_string()),
            None => return Err("it sent messages of a channel that this broker does not have".to_owned()),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, PartitionId, Stamp};

    use super::*;
    use crate::Time;
    use crate::buffer::LATEST;
    use crate::hub::{BrokerName, ChannelRules};

    #[test]
    fn regression_a_last_value_of_the_far_future_is_taken_of_others_than_its_own_broker_alone() {
        let (bad, good) =
            (Origin { broker: BrokerId(2), epoch: 1 }, Origin { broker: BrokerId(3), epoch: 1 });
        let mut rules = ChannelRules::all_topics();
        rules.settings.peers = vec![bad.broker, good.broker];
        let channel = rules.settings.id;
        let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(1), name: "here".into() };
        let hub = Hub::new(name, vec![rules], crate::matching::Limits::default());
        let traffic = Traffic::with(whimbrel::new_identity().public());
        let aged = |sequence, retain, published| {
            let stamp =
                Stamp { origin: bad, sequence, partition: PartitionId(0), ordinal: sequence, published };
            let message = Draft { topic: "t", payload: b"x", retain, ..Draft::default() }.finish().unwrap();
            vec![(stamp, message, Duration::ZERO)]
        };
        let take =
            |by, messages| take_messages(&hub, (by, &traffic), channel, messages, &mut Finding::default());
        let arrived = || hub.report()[0].arrived;
        take(bad, aged(1, true, LATEST)).unwrap();
        assert_eq!((arrived(), traffic.standing.look(Time::ZERO).trouble.as_deref()), (0, Some(FAR_AHEAD)));
        take(bad, aged(2, false, LATEST)).unwrap();
        assert_eq!(arrived(), 1, "what is no last value pins nothing");
        take(good, aged(1, true, LATEST)).unwrap();
        assert_eq!(arrived(), 2, "what another broker took, all take");
        assert!(take(good, aged(3, true, Hlc(u64::MAX))).unwrap_err().contains("year 9999"));
    }
}
