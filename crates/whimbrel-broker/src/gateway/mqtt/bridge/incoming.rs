//! Messages from the other side.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use whimbrel_pubsub::frame::RefusalCode;
use whimbrel_pubsub::message::Message;

use super::super::codec::{Fault, Publish, Qos, Version};
use super::super::message::Content;
use super::hops::HOPS;
use super::state::Bridge;
use crate::hub::{Finding, NotTaken, Storing};

/// The most messages of the other side that are not safe here yet. Beyond, nothing is read from it.
pub(super) const MOST_UNSAFE: usize = 64;
/// The most bytes of messages that no log can take now. Beyond, nothing is read, either.
const MOST_HELD_BYTES: usize = 1 << 20;
/// The pause before a message is offered to a log again that has too much to write.
const AGAIN: Duration = Duration::from_millis(5);

/// Takes messages of the other side, and remembers which have to be acknowledged once they are safe.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    bridge: &'a Bridge,
    version: Version,
    finding: Finding,
    waiting: VecDeque<(Storing, u16)>,
    /// The messages that nobody can take now, in order. What acknowledges ours is read behind them.
    held: VecDeque<Coming>,
    /// The bytes of those.
    held_bytes: usize,
    /// When the first of them is offered again.
    due: Instant,
}

/// A message that came, and how it came.
#[derive(Debug)]
struct Coming {
    /// `None`: it is not published here, and acknowledged when its turn comes.
    message: Option<Message>,
    qos: Qos,
    id: u16,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(bridge: &'a Bridge, version: Version) -> Self {
        Self {
            bridge,
            version,
            finding: Finding::default(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            due: Instant::now(),
        }
    }

    /// Takes a message. Whatever is wrong with it, it is acknowledged: it would be no better if it came again.
    ///
    /// # Errors
    /// It was sent in a way that this side did not ask for, or this broker can take none at present.
    pub(super) fn take(&mut self, publish: &Publish<'_>) -> Result<(), String> {
        if publish.qos == Qos::ExactlyOnce || publish.properties.topic_alias.is_some() {
            return Err("it sends at QoS 2, or topic aliases, which nobody asked for".to_owned());
        }
        let figures = &self.bridge.figures;
        figures.received.add(1);
        let message = self.message(publish).unwrap_or_else(|fault| {
            figures.refused.add(1);
            self.bridge.tell_once(&format!("a message of the other side is refused: {}", fault.why));
            None
        });
        let coming = Coming { message, qos: publish.qos, id: publish.id };
        self.held_bytes += coming.bytes();
        self.held.push_back(coming);
        if self.held.len() == 1 { self.offer() } else { Ok(()) }
    }

    /// When the messages that wait are offered again, if any do.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.held.is_empty()).then_some(self.due)
    }

    /// Wakes who wants the messages that were taken since.
    pub(super) fn wake(&mut self) {
        self.bridge.hub.wake_for_taken(&mut self.finding);
    }

    /// Whether more may be read from the other side.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() + self.waiting.len() < MOST_UNSAFE && self.held_bytes < MOST_HELD_BYTES
    }

    /// Waits until the next message may be acknowledged. Returns its packet identifier.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) async fn stored(&mut self) -> Result<u16, String> {
        let stored = std::future::poll_fn(|cx| self.poll_stored(cx)).await;
        let (_, id) = self.waiting.pop_front().unwrap_or_else(|| (Storing::safe(), 0));
        stored.map(|()| id)
    }

    fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        match self.waiting.front_mut() {
            Some((storing, _)) => Pin::new(storing).poll(cx).map_err(|refusal| refusal.to_string()),
            None => Poll::Pending,
        }
    }

    /// The message as it is published here. `None`: no rule carries it, or it has been here.
    fn message(&self, publish: &Publish<'_>) -> Result<Option<Message>, Fault> {
        let bridge = self.bridge;
        let mut renamed = bridge.plan.from.iter().filter_map(|rule| rule.rename(publish.topic));
        let Some(topic) = renamed.next() else { return Ok(None) };
        let is_echo = self.version == Version::V3
            && bridge.echoes().is_echo(publish.topic, publish.payload, bridge.hub.clock().time());
        let hops = publish.properties.user(HOPS).unwrap_or_default();
        let other = bridge.other();
        let was_here = is_echo || bridge.here.is_among(hops) || other.is_among(hops);
        let hops = if was_here { None } else { other.after(hops) };
        let Some(hops) = hops else {
            bridge.figures.loops.add(1);
            return Ok(None);
        };
        let mut properties = publish.properties.clone();
        properties.user.retain(|(name, _)| *name != HOPS);
        properties.user.push((HOPS, &hops));
        let content = Content {
            topic: &topic,
            qos: publish.qos,
            retain: publish.retain,
            is_repeated: publish.is_repeated,
            properties: &properties,
            payload: publish.payload,
            publication: None,
        };
        content.message().map(Some)
    }

    /// Offers the messages that wait, until one has to wait on.
    ///
    /// # Errors
    /// This broker can take none at present. It is no fault of the message: the other side keeps it.
    pub(super) fn offer(&mut self) -> Result<(), String> {
        while let Some(coming) = self.held.front() {
            let taken =
                coming.message.clone().map(|message| self.bridge.hub.take_safely(message, &mut self.finding));
            let storing = match taken.transpose() {
                Ok(taken) => taken.map_or_else(Storing::safe, |(_, storing)| storing),
                Err(NotTaken::Busy(_)) => {
                    self.due = Instant::now() + AGAIN;
                    return Ok(());
                }
                Err(NotTaken::Refused(refusal)) if refusal.code == RefusalCode::Unavailable => {
                    return Err(refusal.to_string());
                }
                Err(NotTaken::Refused(refusal)) => {
                    self.bridge.figures.refused.add(1);
                    self.bridge.tell_once(&format!("a message of the other side is refused: {refusal}"));
                    Storing::safe()
                }
            };
            self.held_bytes -= coming.bytes();
            if coming.qos == Qos::AtLeastOnce {
                self.waiting.push_back((storing, coming.id));
            }
            self.held.pop_front();
        }
        Ok(())
    }
}

impl Coming {
    fn bytes(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.encoded().len())
    }
}
