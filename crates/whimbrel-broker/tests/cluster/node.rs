//! A broker of the cluster, with what the checker keeps beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_broker::buffer::{Channel, GapAnswer, Published, Received};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::message::{BrokerId, Message, Origin, Stamp};

use super::bus::Frame;
use super::scenario::Scenario;
use super::truth::Name;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: usize,
    pub(crate) channel: Channel,
    /// The messages that really came here in this run, each with the end of its lifetime by this broker's clock.
    pub(crate) came: BTreeMap<Name, Option<Time>>,
    /// How far the wall clock is off, ms.
    pub(crate) off_ms: i64,
    pub(crate) alive: bool,
    /// The monotonic clock began then.
    started: Duration,
}

impl Node {
    pub(crate) fn start(id: usize, scenario: &Scenario, epoch: u64, now: Duration) -> Self {
        let own = Origin { broker: BrokerId(id as u64), epoch };
        let channel = Channel::new(scenario.settings(id), own, Time::ZERO);
        Self { id, channel, came: BTreeMap::new(), off_ms: 0, alive: true, started: now }
    }

    pub(crate) fn time(&self, now: Duration) -> Time {
        Time::at(now - self.started)
    }

    pub(crate) fn now(&self, now: Duration) -> Now {
        let wall = 1_700_000_000_000 + now.as_millis() as i64 + self.off_ms;
        Now { time: self.time(now), wall_ms: wall as u64 }
    }

    pub(crate) fn publish(&mut self, message: &Message, now: Duration) -> Published {
        let clocks = self.now(now);
        let published = self.channel.publish(message.clone(), clocks).unwrap();
        if let Published::Taken(stamp) = published {
            let ends = message.lifetime().map(|lifetime| clocks.time + lifetime);
            self.came.insert((stamp.origin, stamp.sequence), ends);
        }
        published
    }

    /// Takes a frame. Returns what to send back.
    pub(crate) fn handle(&mut self, frame: Frame, now: Duration) -> Result<Option<Frame>, String> {
        let time = self.time(now);
        match frame {
            Frame::Message(stamp, message, age) => self.receive(stamp, message, age, now)?,
            Frame::Heads(by, heads) => self.channel.handle_heads(by, &heads, time),
            Frame::Request(request) => {
                return Ok(Some(Frame::Answer(request.origin, self.channel.answer(&request, time))));
            }
            Frame::Answer(origin, answer) => self.fill(origin, answer, now)?,
        }
        Ok(None)
    }

    fn fill(&mut self, origin: Origin, answer: GapAnswer, now: Duration) -> Result<(), String> {
        for (stamp, message, age) in &answer.messages {
            self.receive(*stamp, message.clone(), *age, now)?;
        }
        self.channel.handle_denials(origin, &answer, self.time(now));
        Ok(())
    }

    fn receive(
        &mut self,
        stamp: Stamp,
        message: Message,
        age: Duration,
        now: Duration,
    ) -> Result<(), String> {
        let clocks = self.now(now);
        let ends = message.lifetime().map(|lifetime| clocks.time + lifetime.saturating_sub(age));
        let received = self.channel.receive(stamp, message, age, clocks);
        if received.map_err(|refusal| format!("{stamp:?} at {}: {refusal}", self.id))? == Received::Taken {
            self.came.insert((stamp.origin, stamp.sequence), ends);
        }
        Ok(())
    }

    /// Whether this broker holds the message, in a slot.
    pub(crate) fn holds(&self, (origin, sequence): Name) -> bool {
        self.alive && self.channel.find(origin, sequence).is_some()
    }

    /// Whether its lifetime has ended here.
    pub(crate) fn is_expired(&self, name: Name, now: Duration) -> bool {
        self.came.get(&name).copied().flatten().is_some_and(|end| end <= self.time(now))
    }
}
