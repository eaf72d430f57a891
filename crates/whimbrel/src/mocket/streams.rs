//! Opening streams, and accepting those that the peer opens.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use whimbrel_proto::session::{OpenError, Session, StreamError, StreamKind, StreamOptions};
use whimbrel_proto::{CloseReason, StreamId};

use super::handle::Mocket;
use crate::error::{Closed, StreamOpenError, StreamOptionsError};
use crate::message_stream::MessageStream;
use crate::shared::MocketState;
use crate::stream::Stream;

impl Mocket {
    /// Opens a byte stream, with the interface of a TCP socket. Waits while the peer allows no more streams.
    /// Cancel-safe: a dropped future has opened nothing.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let mut stream = mocket.open_stream().await?;
    /// stream.write_all(b"question").await?;
    /// stream.shutdown().await?;
    /// let mut answer = Vec::new();
    /// stream.read_to_end(&mut answer).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The mocket is closed or closing.
    pub async fn open_stream(&self) -> Result<Stream, StreamOpenError> {
        let id = self.open_by(|session| session.open_stream(StreamKind::Bytes)).await?;
        Ok(Stream::new(self.clone(), id, Bytes::new()))
    }

    /// Opens a byte stream that begins with `opening`, of up to [`MAX_OPENING`](crate::MAX_OPENING) bytes. The opening
    /// travels with the first bytes and is available as soon as the peer accepts the stream ([`Stream::opening`]). Use
    /// it to say what the stream is for: a name, a target, a request. Waits while the peer allows no more streams, and
    /// until the handshake is complete. Cancel-safe: a dropped future has opened nothing.
    ///
    /// A stream that is reset, or dropped without `shutdown`, before its first bytes have arrived may reach the peer
    /// with an empty opening.
    ///
    /// ```no_run
    /// # async fn example(near: whimbrel::Mocket, far: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut out = near.open_stream_with("example.org:443").await?;
    /// out.write_bytes("the first bytes".into()).await?;
    ///
    /// let stream = far.accept_stream().await?;
    /// assert_eq!(stream.opening(), "example.org:443");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The opening is too long, the peer's version of the protocol has no openings, or the mocket is closed or
    /// closing.
    pub async fn open_stream_with(&self, opening: impl AsRef<[u8]>) -> Result<Stream, StreamOpenError> {
        let (opening, clock) = (opening.as_ref(), self.shared.clock);
        let id = self.open_by(|session| session.open_stream_with(clock.now(), opening)).await?;
        self.shared.wake(self.shared.lock());
        Ok(Stream::new(self.clone(), id, Bytes::new()))
    }

    /// Opens a message stream. Waits while the peer allows no more streams. The peer learns of the stream with its
    /// first message. Cancel-safe: a dropped future has opened nothing.
    ///
    /// # Errors
    /// The mocket is closed or closing.
    pub async fn open_messages(&self, options: StreamOptions) -> Result<MessageStream, StreamOpenError> {
        let id = self.open_by(|session| session.open_messages(options)).await?;
        Ok(MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    /// Polls to open a byte stream, like [`Mocket::open_stream`]. With an `opening`, works like
    /// [`Mocket::open_stream_with`].
    ///
    /// # Errors
    /// The same as for those methods.
    pub fn poll_open_stream(
        &self,
        cx: &mut Context<'_>,
        opening: Option<&[u8]>,
    ) -> Poll<Result<Stream, StreamOpenError>> {
        let now = self.shared.clock.now();
        let opened = self.poll_changed(cx, |state| {
            let session = state.connection.session();
            match opening {
                Some(opening) => opened(session.open_stream_with(now, opening)),
                None => opened(session.open_stream(StreamKind::Bytes)),
            }
        });
        let opened = ready!(opened).unwrap_or_else(|reason| Err(StreamOpenError::Closed(reason)));
        self.shared.wake(self.shared.lock());
        Poll::Ready(opened.map(|id| Stream::new(self.clone(), id, Bytes::new())))
    }

    /// Polls to open a message stream, like [`Mocket::open_messages`].
    ///
    /// # Errors
    /// The same as for that method.
    pub fn poll_open_messages(
        &self,
        cx: &mut Context<'_>,
        options: StreamOptions,
    ) -> Poll<Result<MessageStream, StreamOpenError>> {
        let opened = self.poll_changed(cx, |state| opened(state.connection.session().open_messages(options)));
        let opened = ready!(opened).unwrap_or_else(|reason| Err(StreamOpenError::Closed(reason)));
        Poll::Ready(opened.map(|id| MessageStream::new(Arc::clone(&self.shared), self.clone(), id)))
    }

    async fn open_by(
        &self,
        mut open: impl FnMut(&mut Session) -> Result<StreamId, OpenError>,
    ) -> Result<StreamId, StreamOpenError> {
        let opened = |state: &mut MocketState| opened(open(state.connection.session()));
        self.until_changed(opened, |reason| Err(StreamOpenError::Closed(reason))).await
    }

    /// Waits for the next byte stream that the peer opens. Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed.
    pub async fn accept_stream(&self) -> Result<Stream, Closed> {
        Ok(self.accepted_stream(self.accept_by(StreamKind::Bytes).await?))
    }

    /// Polls for the next byte stream, like [`Mocket::accept_stream`].
    ///
    /// # Errors
    /// The mocket is closed.
    pub fn poll_accept_stream(&self, cx: &mut Context<'_>) -> Poll<Result<Stream, Closed>> {
        let accepted = self.poll_changed(cx, |state| state.accept(StreamKind::Bytes));
        Poll::Ready(ready!(accepted).map(|id| self.accepted_stream(id)).map_err(Closed))
    }

    /// Returns the next byte stream that the peer opened, if one is waiting.
    pub fn try_accept_stream(&self) -> Option<Stream> {
        let id = self.shared.lock().accept(StreamKind::Bytes)?;
        Some(self.accepted_stream(id))
    }

    fn accepted_stream(&self, id: StreamId) -> Stream {
        let opening = self.shared.lock().connection.session().take_opening(id).unwrap_or_default();
        Stream::new(self.clone(), id, opening)
    }

    /// Waits for the next message stream that the peer opens. From then on, its messages are received from the
    /// returned handle. Before that, and for streams never accepted, [`Mocket::recv`] returns the messages, with the
    /// ID of their stream. Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed.
    pub async fn accept_messages(&self) -> Result<MessageStream, Closed> {
        let id = self.accept_by(StreamKind::Messages).await?;
        Ok(MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    async fn accept_by(&self, wanted: StreamKind) -> Result<StreamId, Closed> {
        self.until_changed(|state| state.accept(wanted).map(Ok), |reason| Err(Closed(reason))).await
    }

    /// Polls for the next message stream, like [`Mocket::accept_messages`].
    ///
    /// # Errors
    /// The mocket is closed.
    pub fn poll_accept_messages(&self, cx: &mut Context<'_>) -> Poll<Result<MessageStream, Closed>> {
        let accepted = self.poll_changed(cx, |state| state.accept(StreamKind::Messages));
        let new = |id| MessageStream::new(Arc::clone(&self.shared), self.clone(), id);
        Poll::Ready(ready!(accepted).map(new).map_err(Closed))
    }

    /// Returns the next message stream that the peer opened, if one is waiting.
    pub fn try_accept_messages(&self) -> Option<MessageStream> {
        let id = self.shared.lock().accept(StreamKind::Messages)?;
        Some(MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    fn poll_changed<T>(
        &self,
        cx: &mut Context<'_>,
        done: impl FnOnce(&mut MocketState) -> Option<T>,
    ) -> Poll<Result<T, CloseReason>> {
        let mut state = self.shared.lock();
        if let Some(result) = done(&mut state) {
            return Poll::Ready(Ok(result));
        }
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(reason.clone()));
        }
        state.listeners().openers.add(cx.waker());
        if state.connection.session().has_control() {
            // The peer is told what is waited for.
            self.shared.wake(state);
        }
        Poll::Pending
    }

    /// Changes the options of a message stream at this end, for messages sent and received from now on. The default
    /// stream, 0, can be changed, too.
    ///
    /// # Errors
    /// [`StreamOptionsError`]. Keeping only the latest messages requires a [`MessageStream`].
    pub fn set_stream_options(
        &self,
        stream: StreamId,
        options: StreamOptions,
    ) -> Result<(), StreamOptionsError> {
        let mut state = self.shared.lock();
        state.connection.session().set_stream_options(stream, options).map_err(|error| match error {
            StreamError::SharedInbox => StreamOptionsError::SharedInbox,
            _ => StreamOptionsError::NoStream,
        })
    }
}

/// Translates the result of opening a stream. Returns None if the peer allows no more streams yet.
fn opened(opened: Result<StreamId, OpenError>) -> Option<Result<StreamId, StreamOpenError>> {
    match opened {
        Ok(id) => Some(Ok(id)),
        Err(OpenError::Limit) => None,
        Err(OpenError::OpeningTooLong) => Some(Err(StreamOpenError::OpeningTooLong)),
        Err(OpenError::NoOpenings) => Some(Err(StreamOpenError::NoOpenings)),
        Err(_) => Some(Err(StreamOpenError::Closing)),
    }
}
