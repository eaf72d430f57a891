//! Message streams beside the default one.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use whimbrel_proto::session::{Message, StreamOptions};
use whimbrel_proto::{StreamId, Tag};

use crate::error::{SendError, StreamOptionsError, StreamRecvError};
use crate::mocket::{Mocket, SenderBuilder, TagHandle};
use crate::shared::Shared;

/// A bidirectional message stream. It has its own order and its own flow control credit, so neither its losses nor a
/// stalled reader hold back other streams. Its messages are received here instead of from [`Mocket::recv`].
///
/// Dropping the handle ends the sending direction. Messages sent before are still delivered, nothing more can be sent
/// on the stream, not even by a [`Sender`](crate::Sender), and the peer's reader is told of the end. Messages that the
/// peer still sends are received from [`Mocket::recv`]. If the session is being suspended, a dropped stream goes with
/// it.
///
/// A stream is over once both ends have dropped it and everything was read. If the peer never accepted it, the drop
/// by its opener suffices. It then no longer counts against the peer's `max_streams`.
///
/// ```no_run
/// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
/// use whimbrel::{CreditPolicy, StreamOptions};
///
/// // Here, a stream of its own for what a person waits for.
/// let urgent = mocket.open_messages(StreamOptions::default().priority(200)).await?;
/// urgent.send("stop").await?;
///
/// // There, of a stream of positions, the newest ten.
/// let mut positions = mocket.accept_messages().await?;
/// let credit = CreditPolicy::Latest { unread: 10 };
/// positions.set_options(positions.options().credit(credit))?;
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

    /// Returns the ID of the stream in the session. It is the same at both ends.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Sends a message reliably and in order. Waits for room in the queue. Cancel-safe.
    ///
    /// # Errors
    /// The message is too large, or the mocket is closed.
    pub async fn send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.sender().build().send(payload).await
    }

    /// Begins a [`Sender`](crate::Sender) on this stream.
    pub fn sender(&self) -> SenderBuilder {
        self.mocket.sender().stream(self.id)
    }

    /// Cancels all messages on this stream with this tag that are queued or in flight. Returns how many.
    pub fn cancel(&self, tag: Tag) -> usize {
        self.mocket.cancel_on(self.id, tag)
    }

    /// Settings of all messages with a tag on this stream. See [`Mocket::tag`].
    pub fn tag(&self, tag: Tag) -> TagHandle<'_> {
        self.mocket.tag_on(self.id, tag)
    }

    /// Receives the next message. Cancel-safe.
    ///
    /// # Errors
    /// The peer has dropped its end or the mocket is closed, and everything received was read.
    pub async fn recv(&mut self) -> Result<Message, StreamRecvError> {
        tokio::task::coop::consume_budget().await;
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next message, like [`MessageStream::recv`].
    ///
    /// # Errors
    /// The same as for [`MessageStream::recv`].
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, StreamRecvError>> {
        if let Some(message) = self.try_recv() {
            return Poll::Ready(Ok(message));
        }
        let mut state = self.shared.lock();
        // A session that was suspended here may go on elsewhere, so its streams have not ended.
        if !state.is_leaving() && state.connection.session_ref().is_at_end(self.id) {
            return Poll::Ready(Err(StreamRecvError::Ended));
        }
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(StreamRecvError::Closed(reason.clone())));
        }
        state.streams().readers.insert(self.id, cx.waker().clone());
        drop(state);
        // A message may have been received before the waker was stored.
        self.try_recv().map_or(Poll::Pending, |message| Poll::Ready(Ok(message)))
    }

    /// Returns the next message, if one is there.
    pub fn try_recv(&self) -> Option<Message> {
        let mut state = self.shared.lock();
        if state.is_leaving() {
            // Unread messages go with the suspended session.
            return None;
        }
        let now = self.shared.clock.now();
        let message = state.connection.session().recv_on(now, self.id);
        if message.is_some() && state.connection.session().has_control() {
            // Wakes the driver task, which returns credit to the peer.
            self.shared.wake(state);
        }
        message
    }

    /// Returns the options of the stream at this end.
    pub fn options(&self) -> StreamOptions {
        self.shared.lock().connection.session().stream_options(self.id).unwrap_or_default()
    }

    /// Changes the options of the stream at this end, for messages sent and received from now on. Whether it is
    /// cross-sequenced is fixed by its first sequenced message.
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
        // No reader is left to wake.
        drop(state.streams().readers.remove(&self.id));
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
