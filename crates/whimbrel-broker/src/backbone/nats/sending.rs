//! Sends what other brokers are to get over NATS.

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::super::frame::{FRAME, MeshFrame};
use super::Nats;
use super::envelope::seal;
use super::receiving::Directed;
use crate::hub::Outgoing;

/// How often brokers are asked for what is missing, if anything is.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// In so many turns, new own messages are told of, even if none of them got through.
const HEADS: u32 = 10;
/// In so many turns, this broker introduces itself, and tells of its own messages even if there are no new ones.
const HELLO: u32 = 40;
/// In so many turns, it tells of all messages that it knows.
const ALL_HEADS: u32 = 100;
/// How often a broker without a connection looks whether there is one, if nothing tells it so.
const LOOK: Duration = Duration::from_secs(1);

/// Publishes what is published here, in turn, as long as there is a connection. While there is none, messages wait in the buffer.
/// Ends when `stopping` says so, and everything has gone.
pub(super) async fn publish(nats: Arc<Nats>, mut outgoing: Outgoing, mut stopping: watch::Receiver<bool>) {
    nats.sent.on_sent(0, outgoing.next_sequences());
    loop {
        nats.until_connected().await;
        if let Some((channel, messages)) = outgoing.next(FRAME) {
            nats.sent.on_sent(messages.len(), outgoing.next_sequences());
            let subject = nats.subjects.messages(channel);
            nats.post(subject, &MeshFrame::Messages(channel, messages).encode()).await;
            continue;
        }
        if *stopping.borrow() {
            return;
        }
        tokio::select! {
            () = outgoing.woken() => {}
            _ = stopping.changed() => {}
        }
    }
}

/// Sends answers and greetings to the brokers that they are for.
pub(super) async fn direct(nats: Arc<Nats>, mut directed: mpsc::Receiver<Directed>) {
    while let Some((broker, frames, answered)) = directed.recv().await {
        for frame in frames {
            nats.post(nats.subjects.to(broker), &frame).await;
        }
        if let Some(member) = answered {
            member.end_answer();
        }
    }
}

/// Introduces this broker, tells what it knows, asks for what is missing, and forgets who is silent.
pub(super) async fn look_after(nats: Arc<Nats>) {
    let mut interval = interval(ASK_EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut told, mut was_connected) = (Vec::new(), false);
    for turn in 0_u32.. {
        interval.tick().await;
        if !nats.is_connected() {
            was_connected = false;
            continue;
        }
        let is_back = !std::mem::replace(&mut was_connected, true);
        if is_back || turn % HELLO == 0 {
            nats.post(nats.subjects.hello(), &nats.introduction()).await;
        }
        for (channel, request) in nats.hub.poll_requests() {
            let frame = MeshFrame::Request(channel, request.origin, request.ranges);
            nats.post(nats.subjects.to(request.to), &frame.encode()).await;
        }
        if is_back || turn % ALL_HEADS == 0 {
            for channel in nats.hub.channels() {
                tell(&nats, channel, nats.heads(channel)).await;
            }
        } else if turn % HEADS == 0 {
            let own = nats.own_heads();
            for (channel, head) in &own {
                if turn % HELLO == 0 || !told.contains(&(*channel, *head)) {
                    tell(&nats, *channel, vec![*head]).await;
                }
            }
            told = own;
        }
        if turn % HELLO == 0 {
            nats.forget_the_silent();
        }
    }
}

async fn tell(nats: &Nats, channel: ChannelId, heads: Vec<(Origin, u64)>) {
    if !heads.is_empty() {
        nats.post(nats.subjects.heads(channel), &MeshFrame::Heads(channel, heads).encode()).await;
    }
}

impl Nats {
    /// Publishes a frame, in parts if it is longer than the server takes. It waits for room in the connection's queue.
    async fn post(&self, subject: String, frame: &Bytes) {
        let number = self.next_number();
        for message in seal(self.own, frame, number, self.client.max_payload()) {
            // What cannot go is missed by others, who ask for it.
            if self.client.publish(subject.clone(), message).await.is_err() {
                self.connection.on_refused();
            }
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    async fn until_connected(&self) {
        while !self.is_connected() {
            let told = self.connection.changed();
            drop(tokio::time::timeout(LOOK, told).await);
        }
    }
}
