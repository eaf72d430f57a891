//! Ways of sending, chosen once and used often.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Service, StreamId, Tag};

use super::sending::{PLAIN, translate, with};
use super::{Delivery, Mocket};
use crate::error::SendError;

/// Chooses how messages travel (Mockets `getSender`).
pub struct SenderBuilder {
    mocket: Mocket,
    template: Outgoing,
    enqueue_limit: Option<Duration>,
}

impl SenderBuilder {
    pub(super) fn new(mocket: Mocket) -> Self {
        Self { mocket, template: PLAIN.clone(), enqueue_limit: None }
    }

    /// The service whole.
    pub fn service(mut self, service: Service) -> Self {
        self.template.service = service;
        self
    }

    /// Lost messages are not sent again. Default: reliable.
    pub fn unreliable(mut self) -> Self {
        self.template.service = Service::new(false, self.template.service.is_sequenced());
        self
    }

    /// Delivered as they arrive. Default: sequenced.
    pub fn unsequenced(mut self) -> Self {
        self.template.service = Service::new(self.template.service.is_reliable(), false);
        self
    }

    /// Delivered in the order sent (the default).
    pub fn sequenced(mut self) -> Self {
        self.template.service = Service::new(self.template.service.is_reliable(), true);
        self
    }

    /// The group, for cancel, replace, limits.
    pub fn tag(mut self, tag: Tag) -> Self {
        self.template.tag = Some(tag);
        self
    }

    /// 0 to 255, higher first. Default 100.
    pub fn priority(mut self, priority: u8) -> Self {
        self.template.priority = priority;
        self
    }

    /// Given up this long after the send call. Default: never.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.template.lifetime = Some(lifetime);
        self
    }

    /// Payload protocol identifier, carried to the receiver (MMSP).
    pub fn ppid(mut self, ppid: u32) -> Self {
        self.template.ppid = Some(ppid);
        self
    }

    /// Asks the receiving application to confirm: the outcome of a tracked message is then Taken.
    pub fn confirm(mut self) -> Self {
        self.template.confirm = true;
        self
    }

    /// On another message stream than the default.
    pub fn stream(mut self, stream: StreamId) -> Self {
        self.template.stream = stream;
        self
    }

    /// How long `send` waits for room in the queue before it fails. Default: for ever.
    pub fn enqueue_limit(mut self, limit: Duration) -> Self {
        self.enqueue_limit = Some(limit);
        self
    }

    /// Done.
    pub fn build(self) -> Sender {
        Sender { mocket: self.mocket, template: self.template, enqueue_limit: self.enqueue_limit }
    }
}

/// A way of sending. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    mocket: Mocket,
    template: Outgoing,
    enqueue_limit: Option<Duration>,
}

impl Sender {
    /// Queues a message; waits for room, no longer than the enqueue limit. Cancel-safe: dropped, it has queued nothing.
    ///
    /// # Errors
    /// Too large, closed, or no room in time.
    pub fn send(&self, payload: impl Into<Bytes>) -> impl Future<Output = Result<(), SendError>> + Send {
        self.mocket.send_as(&self.template, payload.into(), self.enqueue_limit)
    }

    /// Queues a message or fails at once.
    ///
    /// # Errors
    /// Too large, no room, or closed.
    pub fn try_send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.mocket.try_send_as(&self.template, payload.into())
    }

    /// Queues many messages at the cost of little more than one; waits for room, for each of them no longer than the enqueue limit.
    /// Not cancel-safe: dropped, it has queued a first part of them.
    ///
    /// # Errors
    /// As [`Sender::send`]; what came before the error is queued.
    pub async fn send_many(&self, payloads: impl IntoIterator<Item = Bytes>) -> Result<(), SendError> {
        tokio::task::coop::consume_budget().await;
        let mut payloads = payloads.into_iter().peekable();
        while payloads.peek().is_some() {
            if let Some(refused) = self.queue_some(&mut payloads)? {
                // Waits for room for the first that found none, then goes on.
                self.mocket.send_in_time(refused, self.enqueue_limit).await?;
            }
        }
        Ok(())
    }

    /// Gives back the first that found no room.
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
        // What came before goes out, whatever stopped the rest.
        self.mocket.shared.wake(state);
        match refused {
            Some((SendError::QueueFull, back)) => Ok(back.map(|back| *back)),
            Some((error, _)) => Err(error),
            None => Ok(None),
        }
    }

    /// Queues a message whose outcome can be awaited. Cancel-safe: dropped, it has queued nothing; a dropped [`Delivery`] only stops
    /// asking.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub async fn send_tracked(&self, payload: impl Into<Bytes>) -> Result<Delivery, SendError> {
        let sending = self.mocket.send_tracked(with(&self.template, payload.into()));
        match self.enqueue_limit {
            None => sending.await,
            Some(limit) => {
                tokio::time::timeout(limit, sending).await.unwrap_or(Err(SendError::EnqueueTimedOut))
            }
        }
    }

    /// Replaces what is queued or under way with this sender's tag (tag 0 if it has none).
    ///
    /// # Errors
    /// As [`Mocket::replace`].
    pub fn replace(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.mocket.replace_with(self.tag(), with(&self.template, payload.into()))
    }

    /// As [`Sender::replace`], and its outcome can be awaited.
    ///
    /// # Errors
    /// As [`Mocket::replace`].
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
