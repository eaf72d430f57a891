//! Messages that come together, of which subscriptions are told once.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::message::Message;

use super::core::Hub;
use super::storing::{NotTaken, Storing};
use crate::buffer::Published;
use crate::matching::{Found, Subscription};

/// The most messages that are taken before those who want them are woken.
const MOST_TAKEN: usize = 256;
/// The most topics of which it is remembered that all who want them are to be woken.
const MOST_TOPICS: usize = 16;
/// The most subscriptions that are collected before they are woken.
const MOST_WOKEN: usize = 4_096;

/// Reusable memory for finding subscriptions.
#[derive(Debug, Default)]
pub struct Finding {
    found: Found,
    taken: Vec<Message>,
    topics: Vec<Bytes>,
    woken: Vec<Subscription>,
    /// Whether some of the messages were published here, and not at another broker.
    is_published: bool,
}

impl Hub {
    /// Takes a message that a publisher sent, and wakes who wants it.
    ///
    /// # Errors
    /// No channel has the topic, or the channel does not take the message.
    pub fn publish(&self, message: Message, finding: &mut Finding) -> Result<Published, Refusal> {
        let published = self.take(message, finding);
        self.wake_for_taken(finding);
        published
    }

    /// Takes a message that a publisher sent. Have [`Hub::wake_for_taken`] called soon: until then nobody is told of it. Nobody waits until it
    /// is on disk.
    ///
    /// # Errors
    /// No channel has the topic, or the channel does not take the message.
    pub fn take(&self, message: Message, finding: &mut Finding) -> Result<Published, Refusal> {
        let (published, storing) = self.take_safely(message, finding)?;
        drop(storing);
        Ok(published)
    }

    /// Takes a message as [`Hub::take`] does. It is to be acknowledged once the second part says so.
    ///
    /// # Errors
    /// No channel has the topic, or the channel does not take the message.
    pub fn take_safely(
        &self,
        message: Message,
        finding: &mut Finding,
    ) -> Result<(Published, Storing), NotTaken> {
        let room = self.room_of(message.topic()).map_err(NotTaken::Refused)?;
        // A clone shares the bytes.
        let (published, storing) = room.publish(message.clone(), self.clock.now())?;
        if matches!(published, Published::Taken(_)) {
            finding.is_published = true;
            finding.note(message);
            if finding.taken.len() >= MOST_TAKEN {
                self.wake_for_taken(finding);
            }
        }
        Ok((published, storing))
    }

    /// How long a message of this topic may wait until the channel takes it.
    pub(crate) fn patience(&self, topic: &str) -> Duration {
        self.room_of(topic).map(|room| room.copying().within()).unwrap_or_default()
    }

    /// Wakes the subscriptions to which the messages that were taken may go. Messages are in their buffers by now, so that whoever comes
    /// meanwhile reads them without being woken.
    pub fn wake_for_taken(&self, finding: &mut Finding) {
        let Finding { found, taken, topics, woken, is_published } = finding;
        if taken.is_empty() {
            return;
        }
        if std::mem::take(is_published) {
            self.links().wake();
        }
        let mut messages = taken.drain(..);
        loop {
            let is_done = self.find_wanting(&mut messages, found, topics, woken);
            self.wake(woken);
            if is_done {
                break;
            }
        }
        topics.clear();
    }

    /// Collects the subscriptions that want messages, until there are many. Returns whether that was for all messages.
    fn find_wanting(
        &self,
        messages: &mut impl Iterator<Item = Message>,
        found: &mut Found,
        topics: &mut Vec<Bytes>,
        woken: &mut Vec<Subscription>,
    ) -> bool {
        // Nobody is woken while the table is locked.
        let table = self.table();
        for message in messages {
            let topic = message.topic_bytes();
            if topics.contains(&topic) {
                continue;
            }
            table.matches(&message.to_topic(), &message, found);
            if found.is_by_topic && topics.len() < MOST_TOPICS {
                topics.push(topic);
            }
            woken.append(&mut found.subscriptions);
            if woken.len() > MOST_WOKEN {
                return false;
            }
        }
        true
    }

    fn wake(&self, woken: &mut Vec<Subscription>) {
        if !woken.is_empty() {
            let attached = self.attached();
            woken.drain(..).for_each(|subscription| attached.wake(subscription));
        }
        // Others read on before what they have not looked at is overwritten.
        if self.rooms.iter().filter(|room| room.turn_over()).count() > 0 {
            self.attached().wake_all();
        }
    }
}

impl Finding {
    /// Notes a message that was taken.
    pub(super) fn note(&mut self, message: Message) {
        self.taken.push(message);
    }
}
