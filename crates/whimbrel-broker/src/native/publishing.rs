//! The messages that a client publishes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use whimbrel::PublicKey;
use whimbrel_pubsub::frame::{ClientFrame, Credit, Refusal, RefusalCode};
use whimbrel_pubsub::message::Message;

use super::access::{Access, Permissions};
use super::answers::Answers;
use crate::buffer::Published;
use crate::hub::{self, Client, Finding, Hub, NotTaken};
use crate::quota::Pace;

/// The most that a client may publish before an answer has come.
/// Repeated publications are recognised within a window that is not smaller.
pub(super) const CREDIT: Credit = Credit { messages: 1_000, bytes: 4 << 20 };
/// The time between two tries to append to a log that is busy, or to reach enough brokers.
pub(super) const AGAIN: Duration = Duration::from_millis(2);

/// A message that waits until earlier ones are stored.
struct Held {
    number: u64,
    message: Result<Message, Refusal>,
    since: Instant,
}

/// A client's messages on their way in.
pub(super) struct Publishing {
    hub: Arc<Hub>,
    access: Arc<Access>,
    key: Option<PublicKey>,
    finding: Finding,
    /// The number of the next message that is published.
    next: u64,
    held: VecDeque<Held>,
    held_bytes: usize,
    pub(super) answers: Answers,
    pub(super) pace: Arc<Pace>,
    /// Its counts, for reports.
    counts: hub::Publishing,
}

impl Publishing {
    pub(super) fn new(
        hub: Arc<Hub>,
        access: Arc<Access>,
        key: Option<PublicKey>,
        known: Arc<Client>,
    ) -> Self {
        Self {
            pace: access.pace(key),
            counts: hub::Publishing::new(Arc::clone(&hub), known),
            hub,
            access,
            key,
            finding: Finding::default(),
            next: 1,
            held: VecDeque::new(),
            held_bytes: 0,
            answers: Answers::default(),
        }
    }

    /// Whether messages wait until earlier ones are stored. Nothing more is read then.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes what was published. Fails if the client does what no client should.
    pub(super) fn take(&mut self, received: Vec<Bytes>) -> Result<(), String> {
        let permissions = self.access.of(self.key.as_ref());
        for payload in received {
            let (number, message) = match ClientFrame::parse(&payload) {
                Ok(ClientFrame::Publish(number, message)) => (number, Ok(message)),
                Ok(ClientFrame::Hello(_)) => return Err("the client said hello twice".to_owned()),
                Err(error) => match ClientFrame::number_of(&payload) {
                    Some(number) => (number, Err(Refusal::new(RefusalCode::Mistake, error))),
                    None => return Err(error.to_string()),
                },
            };
            if number != self.next {
                return Err(format!("message {number} was published, but {} was expected", self.next));
            }
            self.next += 1;
            let message = message.and_then(|message| may_publish(&permissions, self.key.as_ref(), message));
            let message = message.and_then(|message| {
                let spent = self.pace.spend(&permissions.quota, payload.len(), Instant::now());
                spent.map(|()| message).map_err(|error| Refusal::new(RefusalCode::Limit, error))
            });
            self.held_bytes += length(&message);
            self.held.push_back(Held { number, message, since: Instant::now() });
        }
        self.go_on();
        Ok(())
    }

    /// Whether the client has published more than it may.
    pub(super) fn exceeds_credit(&self) -> bool {
        self.answers.exceed(CREDIT, self.held.len(), self.held_bytes)
    }

    /// Goes on with messages that wait.
    pub(super) fn go_on(&mut self) {
        self.publish_held();
        self.hub.wake_for_taken(&mut self.finding);
    }

    fn publish_held(&mut self) {
        while let Some(Held { number, message, since }) = self.held.pop_front() {
            let bytes = length(&message);
            match message.map(|message| self.try_publish(number, message)) {
                Ok(Ok(())) => {}
                Ok(Err((message, refusal))) if since.elapsed() >= self.hub.patience(message.topic()) => {
                    self.refuse(number, refusal);
                }
                Ok(Err((message, _))) => {
                    self.held.push_front(Held { number, message: Ok(message), since });
                    return;
                }
                Err(refusal) => self.refuse(number, refusal),
            }
            self.held_bytes -= bytes;
        }
    }

    fn refuse(&mut self, number: u64, refusal: Refusal) {
        self.counts.on_published(0, 1);
        self.answers.refused(number, refusal);
    }

    /// Publishes a message, unless it has to wait. Then it comes back.
    fn try_publish(&mut self, number: u64, message: Message) -> Result<(), (Message, Refusal)> {
        let bytes = message.encoded().len();
        if self.pace.share().is_full() {
            let slow = "the disk is slow, and earlier messages are not stored yet: publish it again later";
            return Err((message, Refusal::new(RefusalCode::Unavailable, slow)));
        }
        match self.hub.take_safely(message.clone(), &mut self.finding) {
            Ok((Published::Taken(stamp) | Published::Repeated(stamp), storing)) => {
                self.counts.on_published(1, 0);
                // What needs no disk is answered at once.
                let charge = (!storing.is_safe()).then(|| self.pace.share().charge(bytes));
                let bytes = if charge.is_some() { bytes } else { 0 };
                self.answers.taken(number, (bytes, charge), storing, stamp.published);
            }
            Err(NotTaken::Refused(refusal)) => self.refuse(number, refusal),
            Err(NotTaken::Busy(refusal)) => return Err((message, refusal)),
        }
        Ok(())
    }
}

fn length(message: &Result<Message, Refusal>) -> usize {
    message.as_ref().map_or(0, |message| message.encoded().len())
}

fn may_publish(
    permissions: &Permissions,
    key: Option<&PublicKey>,
    message: Message,
) -> Result<Message, Refusal> {
    if !permissions.may_publish(message.topic()) {
        let topic = message.topic();
        return Err(Refusal::new(
            RefusalCode::NotPermitted,
            format_args!("you may not publish to `{topic}`"),
        ));
    }
    let publisher = message.publication().map(|publication| publication.publisher);
    if publisher.is_some_and(|publisher| !key.is_some_and(|key| publisher.is_of_client(key.as_bytes()))) {
        return Err(Refusal::new(
            RefusalCode::NotPermitted,
            "the publisher's id is another client's: begin it with the first 8 bytes of your key",
        ));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::{Draft, Publication, PublisherId};

    use super::*;

    #[test]
    fn regression_a_client_cannot_publish_as_another() {
        let key = PublicKey::new([7; 32]).unwrap();
        let publish = |publisher| {
            let publication = Some(Publication { publisher, number: 9 });
            let message = Draft { topic: "t", publication, ..Draft::default() }.finish().unwrap();
            may_publish(&Permissions::everything(), Some(&key), message)
        };
        assert!(publish(PublisherId::of_client(&[7; 32], 5)).is_ok());
        for of_another in [PublisherId::of_client(&[8; 32], 5), PublisherId(5)] {
            assert_eq!(publish(of_another).unwrap_err().code, RefusalCode::NotPermitted);
        }
    }
}
