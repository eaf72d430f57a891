//! Takes what other brokers send over NATS.

use std::sync::Arc;

use async_nats::{Client, Message, SubscribeError, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{SelectAll, select_all};
use whimbrel_pubsub::message::Origin;

use super::super::frame::{Introduction, MeshFrame};
use super::super::taking::take;
use super::Nats;
use super::assembly::Assembly;
use super::envelope::Envelope;
use super::members::{MOST_MEMBERS, Member};
use crate::hub::Finding;
use crate::ids::broker_id;

/// The most messages that are taken before other tasks get their turn.
const BATCH: usize = 64;

/// Asks the server for everything that is for this broker.
pub(super) async fn subscribe(nats: &Nats, client: &Client) -> Result<SelectAll<Subscriber>, SubscribeError> {
    let mut all = vec![
        client.subscribe(nats.subjects.to(nats.own.broker)).await?,
        client.subscribe(nats.subjects.hello()).await?,
    ];
    for channel in nats.hub.channels() {
        all.push(client.subscribe(nats.subjects.messages(channel)).await?);
        all.push(client.subscribe(nats.subjects.heads(channel)).await?);
    }
    Ok(select_all(all))
}

/// Takes what comes, as long as the client lives.
pub(super) async fn run(nats: Arc<Nats>, mut incoming: SelectAll<Subscriber>) {
    let mut receiving = Receiving { nats: &nats, assembly: Assembly::default(), finding: Finding::default() };
    let mut taken = 0;
    while let Some(message) = incoming.next().await {
        receiving.take(&message);
        taken += 1;
        if taken % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
}

struct Receiving<'a> {
    nats: &'a Nats,
    assembly: Assembly,
    finding: Finding,
}

impl Receiving<'_> {
    fn take(&mut self, message: &Message) {
        let Some(envelope) = Envelope::open(&message.payload) else {
            self.nats.connection.on_malformed();
            return;
        };
        let (from, version) = (envelope.from, envelope.version);
        if from == self.nats.own {
            return;
        }
        let member = self.nats.members.find(from.broker);
        let Some(frame) = self.assembly.take(from, envelope.content) else { return };
        match (MeshFrame::parse(&frame), member) {
            (Some(MeshFrame::Introduction(introduction)), _) => self.meet(from, introduction),
            // Whoever is not known yet introduces itself within seconds, and what was missed is asked for.
            (Some(_), None) => self.assembly.forget(from.broker),
            (Some(frame), Some(member)) => self.take_frame(from, &member, frame),
            // A later version may have frames that this one does not know.
            (None, _) if version > super::super::frame::VERSION => {}
            (None, _) => self.nats.connection.on_malformed(),
        }
    }

    fn take_frame(&mut self, from: Origin, member: &Arc<Member>, frame: MeshFrame) {
        let nats = self.nats;
        member.hear(nats.hub.clock().time());
        let is_request = matches!(frame, MeshFrame::Request(..));
        // One answer at a time for each broker, so that none keeps others from getting theirs.
        let has_room = is_request && member.begin_answer();
        if let MeshFrame::Messages(_, messages) = &frame {
            nats.connection.on_received(messages.len() as u64);
        }
        match take(&nats.hub, (from, &member.traffic), frame, has_room, &mut self.finding) {
            Ok(frames) if has_room => nats.answer(from, member, frames),
            Ok(_) => {}
            Err(why) => {
                if has_room {
                    member.end_answer();
                }
                nats.connection.on_refused();
                nats.tell_once(
                    from.broker,
                    &format!("the broker {} sent an invalid message: {why}", member.name),
                );
            }
        }
    }

    /// A broker says who it is, and what it has.
    fn meet(&mut self, from: Origin, introduction: Introduction) {
        let nats = self.nats;
        let Introduction { key, name, channels, .. } = introduction;
        if broker_id(&key) != from.broker {
            nats.connection.on_malformed();
            return;
        }
        if from.broker == nats.own.broker {
            nats.tell_once(
                from.broker,
                "another broker of the cluster has the key of this one: give each its own",
            );
            return;
        }
        let called = format!("the broker {name}");
        if !nats.members.has_room(from.broker) {
            let why = format!("{called} is refused: there are {MOST_MEMBERS} others");
            nats.tell_once(from.broker, &why);
            return;
        }
        let shared = match nats.hub.meet(from.broker, called.clone(), &nats.map, (channels, None)) {
            Ok(shared) => shared,
            Err(why) => {
                let why = format!("{called} is refused: {why}");
                if nats.members.refuse(from.broker, &why) {
                    nats.tell(&why);
                }
                nats.hub.part(from.broker);
                return;
            }
        };
        let now = nats.hub.clock().time();
        let is_new = nats.members.enter(from, key, &name, shared, now);
        if let Some(member) = nats.members.find(from.broker) {
            member.hear(now);
            if is_new {
                nats.greet(from, &member);
            }
        }
    }
}

/// A frame for one broker.
pub(super) type Directed = (whimbrel_pubsub::message::BrokerId, Vec<Bytes>, Option<Arc<Member>>);
