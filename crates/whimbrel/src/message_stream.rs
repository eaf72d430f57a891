//! A stream of messages beside the default one.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use whimbrel_proto::session::{Message, StreamOptions};
use whimbrel_proto::{StreamId, Tag};

use crate::error::{SendError, StreamOptionsError, StreamRecvError};
use crate::mocket::{Mocket, SenderBuilder, TagHandle};
use crate::shared::Shared;

/// A stream of messages, in both directions: a domain of order with credit of its own, so that neither what it loses nor a reader that
/// stops holds back another. Its messages come out here and not of [`Mocket::recv`]. Dropped, it ends in this direction: what was sent is
/// still delivered, then nothing can be sent on it any more, by a [`crate::Sender`] either, and the peer's reader hears of the end; what
/// the peer goes on sending comes out of [`Mocket::recv`]. Dropped while its session is being suspended, it goes with the session. A stream that both have dropped, or that only its opener has and the peer
/// never accepted, is over once everything was read, and counts against the peer's `max_streams` no more.
///
/// ```no_run
/// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
/// use whimbrel::{CreditPolicy, StreamOptions};
///
/// // Here, a stream of its own for what a person waits for.
/// let urgent = mocket.open_messages(StreamOptions { priority: 200, ..StreamOptions::default() }).await?;
/// urgent.send("stop").await?;
///
/// // There, of a stream of positions, the newest ten.
/// let mut positions = mocket.accept_messages().await?;
/// let credit = CreditPolicy::Latest { unread: 10 };
/// positions.set_options(StreamOptions { credit, ..positions.options() })?;
/// let position = positions.recv().await?;
/// # Ok(())
/// # }
/// ```
pub struct MessageStream {
    shared: Arc<Shared>,
    mocket: Mocket,
    id: StreamId,
}

impl MessageStream {
    pub(crate) fn new(shared: Arc<Shared>, mocket: Mocket, id: StreamId) -> Self {
        shared.lock().connection.session().claim_stream(id);
        Self { shared, mocket, id }
    }

    /// Its number in the session, the same at both ends.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Sends a message, reliable and in order. Waits for room. Cancel-safe.
    ///
    /// # Errors
    /// Too large, or closed.
    pub async fn send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.sender().build().send(payload).await
    }

    /// A way of sending on this stream.
    pub fn sender(&self) -> SenderBuilder {
        self.mocket.sender().stream(self.id)
    }

    /// Cancels what is queued or under way on this stream with this tag; returns how many messages.
    pub fn cancel(&self, tag: Tag) -> usize {
        self.mocket.cancel_on(self.id, tag)
    }

    /// Settings of all messages with a tag on this stream.
    pub fn tag(&self, tag: Tag) -> TagHandle<'_> {
        self.mocket.tag_on(self.id, tag)
    }

    /// The next message. Cancel-safe.
    ///
    /// # Errors
    /// The peer has dropped its end, or the mocket is closed, and all that came was read.
    pub async fn recv(&mut self) -> Result<Message, StreamRecvError> {
        tokio::task::coop::consume_budget().await;
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`MessageStream::recv`], polled.
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, StreamRecvError>> {
        if let Some(message) = self.try_recv() {
            return Poll::Ready(Ok(message));
        }
        let mut state = self.shared.lock();
        // Of a session that has left nothing can be said but that.
        if !state.is_leaving() && state.connection.session_ref().is_at_end(self.id) {
            return Poll::Ready(Err(StreamRecvError::Ended));
        }
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(StreamRecvError::Closed(reason.clone())));
        }
        state.readers.insert(self.id, cx.waker().clone());
        drop(state);
        // It may have come in between.
        self.try_recv().map_or(Poll::Pending, |message| Poll::Ready(Ok(message)))
    }

    /// The next message if one is there.
    pub fn try_recv(&self) -> Option<Message> {
        let mut state = self.shared.lock();
        if state.is_leaving() {
            // It goes with the session.
            return None;
        }
        let now = self.shared.clock.now();
        let message = state.connection.session().recv_on(now, self.id);
        if message.is_some() && state.connection.session().has_control() {
            // Credit to give back.
            self.shared.wake(state);
        }
        message
    }

    /// What it is set to at this end.
    pub fn options(&self) -> StreamOptions {
        self.shared.lock().connection.session().stream_options(self.id).unwrap_or_default()
    }

    /// Changes what it is set to at this end, for what is sent and what comes from now on; whether it is cross-sequenced is fixed by
    /// the first sequenced message.
    ///
    /// # Errors
    /// [`StreamOptionsError::NoStream`]: the mocket is closed.
    pub fn set_options(&self, options: StreamOptions) -> Result<(), StreamOptionsError> {
        self.mocket.set_stream_options(self.id, options)
    }
}

impl Drop for MessageStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // Nobody is left to be woken.
        drop(state.readers.remove(&self.id));
        if state.is_leaving() {
            return;
        }
        let session = state.connection.session();
        session.end_messages(self.id);
        session.release_stream(self.id);
        self.shared.pump(&mut state);
        self.shared.wake(state);
    }
}

impl std::fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageStream").field("id", &self.id.0).finish_non_exhaustive()
    }
}
