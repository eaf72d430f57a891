//! Senders: options for sending, chosen once and used for many messages.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Service, StreamId, Tag};

use super::delivery::Delivery;
use super::handle::Mocket;
use super::sending::{PLAIN, translate, with};
use crate::error::SendError;

/// A builder for a [`Sender`], which chooses how messages travel (Mockets `getSender`).
pub struct SenderBuilder {
    mocket: Mocket,
    template: Outgoing,
    enqueue_limit: Option<Duration>,
}

impl SenderBuilder {
    pub(super) fn new(mocket: Mocket) -> Self {
        Self { mocket, template: PLAIN.clone(), enqueue_limit: None }
    }

    /// Sets the service: both reliability and order.
    pub fn service(mut self, service: Service) -> Self {
        self.template.service = service;
        self
    }

    /// Does not retransmit lost messages. Default: reliable.
    pub fn unreliable(mut self) -> Self {
        self.template.service = Service::new(false, self.template.service.is_sequenced());
        self
    }

    /// Delivers messages as they arrive. Default: sequenced.
    pub fn unsequenced(mut self) -> Self {
        self.template.service = Service::new(self.template.service.is_reliable(), false);
        self
    }

    /// Delivers messages in the order sent. This is the default.
    pub fn sequenced(mut self) -> Self {
        self.template.service = Service::new(self.template.service.is_reliable(), true);
        self
    }

    /// Sets the tag, which groups messages to cancel, replace or limit them. Default: none.
    pub fn tag(mut self, tag: Tag) -> Self {
        self.template.tag = Some(tag);
        self
    }

    /// Sets the priority, 0 to 255. Higher ones go first. Default 100.
    pub fn priority(mut self, priority: u8) -> Self {
        self.template.priority = priority;
        self
    }

    /// Gives up messages that are undelivered this long after the send call. Default: never.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.template.lifetime = Some(lifetime);
        self
    }

    /// Sets the payload protocol identifier (PPID), which the receiver sees (MMSP).
    pub fn ppid(mut self, ppid: u32) -> Self {
        self.template.ppid = Some(ppid);
        self
    }

    /// Asks the receiving application to confirm each message. The outcome of a tracked message is then Taken.
    pub fn confirm(mut self) -> Self {
        self.template.confirm = true;
        self
    }

    /// Sends on this message stream. Default: stream 0.
    pub fn stream(mut self, stream: StreamId) -> Self {
        self.template.stream = stream;
        self
    }

    /// Sets how long `send` waits for room in the queue before it fails. Default: without limit.
    pub fn enqueue_limit(mut self, limit: Duration) -> Self {
        self.enqueue_limit = Some(limit);
        self
    }

    /// Builds the sender.
    pub fn build(self) -> Sender {
        Sender { mocket: self.mocket, template: self.template, enqueue_limit: self.enqueue_limit }
    }
}

/// A sender with fixed options. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    mocket: Mocket,
    template: Outgoing,
    enqueue_limit: Option<Duration>,
}

impl Sender {
    /// Queues a message. Waits for room, for no longer than the enqueue limit. Cancel-safe: a dropped future has
    /// queued nothing.
    ///
    /// # Errors
    /// The message is too large, the mocket is closed, or there was no room in time.
    pub fn send(&self, payload: impl Into<Bytes>) -> impl Future<Output = Result<(), SendError>> + Send {
        self.mocket.send_as(&self.template, payload.into(), self.enqueue_limit)
    }

    /// Queues a message, or fails at once if there is no room.
    ///
    /// # Errors
    /// The message is too large, there is no room, or the mocket is closed.
    pub fn try_send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.mocket.try_send_as(&self.template, payload.into())
    }

    /// Queues many messages at little more than the cost of one. Waits for room, for no longer than the enqueue limit
    /// for each message. Not cancel-safe: a dropped future may have queued a first part of them.
    ///
    /// # Errors
    /// The same as for [`Sender::send`]. The messages before the error are queued.
    pub async fn send_many(&self, payloads: impl IntoIterator<Item = Bytes>) -> Result<(), SendError> {
        tokio::task::coop::consume_budget().await;
        let mut payloads = payloads.into_iter().peekable();
        while payloads.peek().is_some() {
            if let Some(refused) = self.queue_some(&mut payloads)? {
                // Waits for room for the first message that found none, then goes on. In a box, since a sender seldom
                // waits, and thousands have room for it.
                Box::pin(self.mocket.send_in_time(refused, self.enqueue_limit)).await?;
            }
        }
        Ok(())
    }

    /// Queues messages while there is room. Gives back the first one that found none.
    fn queue_some(&self, payloads: &mut impl Iterator<Item = Bytes>) -> Result<Option<Outgoing>, SendError> {
        let mut state = self.mocket.shared.lock();
        let now = self.mocket.shared.clock.now();
        let session = state.connection.session();
        let ended = loop {
            let Some(other) = session.send_copies(now, &self.template, payloads) else { break None };
            if let Err(error) = session.send(now, with(&self.template, other)) {
                break Some(error);
            }
        };
        let refused = ended.map(|error| translate(error, &state));
        // Sends the messages queued so far, even if the rest failed.
        self.mocket.shared.wake(state);
        match refused {
            Some((SendError::QueueFull, back)) => Ok(back.map(|back| *back)),
            Some((error, _)) => Err(error),
            None => Ok(None),
        }
    }

    /// Queues a message whose outcome can be awaited. Cancel-safe: a dropped future has queued nothing. Dropping the
    /// [`Delivery`] only discards the outcome.
    ///
    /// # Errors
    /// The same as for [`Sender::send`].
    pub async fn send_tracked(&self, payload: impl Into<Bytes>) -> Result<Delivery, SendError> {
        let sending = self.mocket.send_tracked(with(&self.template, payload.into()));
        match self.enqueue_limit {
            None => sending.await,
            Some(limit) => {
                tokio::time::timeout(limit, sending).await.unwrap_or(Err(SendError::EnqueueTimedOut))
            }
        }
    }

    /// Replaces all queued and in-flight messages with this sender's tag (tag 0 if it has none).
    ///
    /// # Errors
    /// The same as for [`Mocket::replace`].
    pub fn replace(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.mocket.replace_with(self.tag(), with(&self.template, payload.into()))
    }

    /// Replaces messages like [`Sender::replace`], with an outcome that can be awaited.
    ///
    /// # Errors
    /// The same as for [`Mocket::replace`].
    pub fn replace_tracked(&self, payload: impl Into<Bytes>) -> Result<Delivery, SendError> {
        self.mocket.replace_tracked_with(self.tag(), with(&self.template, payload.into()))
    }

    fn tag(&self) -> Tag {
        self.template.tag.unwrap_or(Tag(0))
    }
}

impl std::fmt::Debug for SenderBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SenderBuilder")
            .field("service", &self.template.service)
            .field("tag", &self.template.tag)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("service", &self.template.service)
            .field("tag", &self.template.tag)
            .finish_non_exhaustive()
    }
}
