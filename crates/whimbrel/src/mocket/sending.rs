//! Queueing messages, at once or when there is room.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{CloseReason, Service, StreamId};

use super::handle::Mocket;
use super::sender::SenderBuilder;
use crate::error::SendError;
use crate::locked::Locked;
use crate::shared::MocketState;

/// The options of [`Mocket::send`]: reliable and sequenced, on stream 0.
pub(super) static PLAIN: Outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, Bytes::new());

pub(super) fn with(template: &Outgoing, payload: Bytes) -> Outgoing {
    Outgoing { payload, ..template.clone() }
}

impl Mocket {
    /// Sends a message reliably and in order, like a datagram socket would (Mockets 4.1). Waits for room in the
    /// queue. Cancel-safe: a dropped future has queued nothing.
    ///
    /// # Errors
    /// The message is too large, or the mocket is closed.
    pub fn send(&self, payload: impl Into<Bytes>) -> impl Future<Output = Result<(), SendError>> + Send {
        self.send_as(&PLAIN, payload.into(), None)
    }

    /// Sends a message like [`Mocket::send`], or fails at once with [`SendError::QueueFull`].
    ///
    /// # Errors
    /// The message is too large, there is no room, or the mocket is closed.
    pub fn try_send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.try_send_as(&PLAIN, payload.into())
    }

    /// Begins a [`Sender`](crate::Sender): service, tag, priority and lifetime, fixed once and used for many messages.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
    /// use std::time::Duration;
    /// use whimbrel::Tag;
    ///
    /// let positions = mocket.sender().unreliable().tag(Tag(1)).lifetime(Duration::from_millis(500)).build();
    /// positions.send("47.37 N 8.54 E").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sender(&self) -> SenderBuilder {
        SenderBuilder::new(self.clone())
    }

    /// Queues a message, waiting for room. The first attempt, which nearly always succeeds, keeps no state across a
    /// wait. The future is kept small, because moving a large one costs as much as queueing 50 bytes.
    #[inline]
    pub(super) fn send_as<'a>(
        &'a self,
        template: &'a Outgoing,
        payload: Bytes,
        limit: Option<Duration>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'a {
        let mut first = Some(payload);
        let mut waiting: Option<SendWait<'a>> = None;
        std::future::poll_fn(move |cx| {
            if let Some(payload) = first.take() {
                if self.shared.send_copy(template, &payload) {
                    return Poll::Ready(Ok(()));
                }
                match self.try_outgoing(with(template, payload), Pauses::Taken) {
                    Err((SendError::QueueFull, Some(back))) => {
                        waiting = Some(Box::pin(self.send_in_time(*back, limit)));
                    }
                    other => return Poll::Ready(other.map_err(|(error, _)| error)),
                }
            }
            match &mut waiting {
                Some(waiting) => waiting.as_mut().poll(cx),
                None => Poll::Ready(Ok(())),
            }
        })
    }

    pub(super) fn try_send_as(&self, template: &Outgoing, payload: Bytes) -> Result<(), SendError> {
        if self.shared.send_copy(template, &payload) {
            return Ok(());
        }
        self.try_outgoing(with(template, payload), Pauses::Ignored).map_err(|(error, _)| error)
    }

    pub(super) async fn send_in_time(
        &self,
        outgoing: Outgoing,
        limit: Option<Duration>,
    ) -> Result<(), SendError> {
        let sending = self.send_when_room(outgoing);
        match limit {
            None => sending.await,
            Some(limit) => {
                tokio::time::timeout(limit, sending).await.unwrap_or(Err(SendError::EnqueueTimedOut))
            }
        }
    }

    async fn send_when_room(&self, outgoing: Outgoing) -> Result<(), SendError> {
        let mut outgoing = outgoing;
        loop {
            // A sender that always finds room would starve the driver task on a single-threaded runtime.
            tokio::task::yield_now().await;
            outgoing = self.wait_for_room(outgoing).await?;
            match self.try_outgoing(outgoing, Pauses::Ignored) {
                Err((SendError::QueueFull, Some(back))) => outgoing = *back,
                other => return other.map_err(|(error, _)| error),
            }
        }
    }

    pub(super) async fn wait_for_room(&self, outgoing: Outgoing) -> Result<Outgoing, SendError> {
        let writable = self.shared.writable.notified();
        tokio::pin!(writable);
        writable.as_mut().enable();
        // There may be room again since the message was refused.
        match self.try_room(&outgoing) {
            Room::Yes => return Ok(outgoing),
            Room::Closed(reason) => return Err(SendError::Closed(reason)),
            Room::No => {}
        }
        writable.await;
        Ok(outgoing)
    }

    fn try_room(&self, outgoing: &Outgoing) -> Room {
        let mut state = self.shared.lock();
        if let Some(reason) = &state.closed {
            return Room::Closed(reason.clone());
        }
        if state.connection.session().has_room(outgoing) { Room::Yes } else { Room::No }
    }

    fn try_outgoing(&self, outgoing: Outgoing, pauses: Pauses) -> Result<(), Refused> {
        match self.shared.try_lock() {
            Some(state) => self.queue(state, outgoing, pauses),
            // The lock is held, probably to send. Leaves the message instead of waiting for the lock.
            None => match self.shared.submit(outgoing) {
                Ok(()) => Ok(()),
                Err(outgoing) => {
                    let mut state = self.shared.lock();
                    self.shared.open_submissions(&mut state);
                    self.queue(state, outgoing, pauses)
                }
            },
        }
    }

    fn queue(&self, mut state: Locked<'_>, outgoing: Outgoing, pauses: Pauses) -> Result<(), Refused> {
        if pauses == Pauses::Taken && state.is_burst_over() {
            return Err((SendError::QueueFull, Some(Box::new(outgoing))));
        }
        let now = state.send_time(&self.shared.clock, &outgoing);
        if let Err(error) = state.connection.session().send(now, outgoing) {
            return Err(translate(error, &state));
        }
        self.shared.drive_or_wake(state);
        Ok(())
    }
}

type SendWait<'a> = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send + 'a>>;

/// Whether a sender that has queued many messages must let other tasks run first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pauses {
    Taken,
    Ignored,
}

/// Why a message was not queued, with the message itself if it makes sense to try again.
pub(super) type Refused = (SendError, Option<Box<Outgoing>>);

enum Room {
    Yes,
    No,
    Closed(CloseReason),
}

pub(super) fn translate(error: whimbrel_proto::session::SendError, state: &MocketState) -> Refused {
    use whimbrel_proto::session::SendError as Inner;
    match error {
        Inner::QueueFull(back) => (SendError::QueueFull, Some(back)),
        Inner::TooLarge { limit } => (SendError::TooLarge { limit }, None),
        Inner::TagTooLarge => (SendError::TagTooLarge, None),
        Inner::TooManyTags => (SendError::TooManyTags, None),
        Inner::Closed => (SendError::Closed(why_closed(state)), None),
        _ => (SendError::NoStream, None),
    }
}

/// Why nothing more can be sent: the end that has come, or the one that is under way.
fn why_closed(state: &MocketState) -> CloseReason {
    end_of(state).unwrap_or(CloseReason::Local)
}

/// Returns the end that has come, or the one that the peer has begun.
pub(crate) fn end_of(state: &MocketState) -> Option<CloseReason> {
    let by_peer = || state.connection.peer_closing().cloned().map(CloseReason::Peer);
    state.closed.clone().or_else(by_peer)
}
