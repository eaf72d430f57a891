//! The reading direction of a byte stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use whimbrel_proto::StreamId;
use whimbrel_proto::session::Read;

use crate::error::StreamIoError;
use crate::mocket::Mocket;
use crate::stream_code::StreamCode;
use crate::stream_half::Half;

/// The reading direction of a byte stream, from [`Stream::into_split`](crate::Stream::into_split). Dropping it before
/// its end was read stops it with [`StreamCode::DROPPED`]: the peer's writes fail.
pub struct StreamReader {
    /// Keeps the session open.
    mocket: Mocket,
    id: StreamId,
    half: Half,
    /// None: it is empty. In a box, since a program may hold very many streams.
    opening: Option<Box<Bytes>>,
}

impl StreamReader {
    pub(crate) fn new(mocket: Mocket, id: StreamId, opening: Bytes) -> Self {
        let opening = (!opening.is_empty()).then(|| Box::new(opening));
        Self { mocket, id, half: Half::Open, opening }
    }

    /// Returns the ID of the stream in the session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns the opening that the peer sent with the stream. Empty if the peer sent none, or reset the stream before
    /// it arrived, for example by dropping the stream. Also empty if this end opened the stream.
    pub fn opening(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        self.opening.as_deref().unwrap_or(&NONE)
    }

    /// Asks the peer to stop writing. Its writes fail with `code`.
    pub fn stop(&mut self, code: impl Into<StreamCode>) {
        self.half = Half::failed(StreamIoError::Ended);
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        // An error only means that the stream has already ended.
        state.connection.session().stop(self.id, code.into().0).ok();
        shared.wake(state);
    }

    /// Limits how many bytes the peer may send ahead of the reader. Credit grows to this limit and no further, but
    /// never sinks below `stream_share`. None: the limit is `stream_window`. Credit already granted to the peer stays
    /// granted.
    pub fn set_window(&mut self, window: Option<u64>) {
        // An error only means that the stream has already ended.
        self.mocket.shared.lock().connection.session().set_window(self.id, window).ok();
    }

    /// Reads the next bytes as they were received, at most `most`, without a copy. Returns None at the end.
    /// Cancel-safe.
    ///
    /// # Errors
    /// The peer reset the stream, or the mocket is closed.
    pub async fn read_bytes(&mut self, most: usize) -> Result<Option<Bytes>, StreamIoError> {
        tokio::task::coop::consume_budget().await;
        std::future::poll_fn(|cx| self.poll_bytes(cx, most)).await
    }

    /// Polls for the next bytes, like [`StreamReader::read_bytes`].
    ///
    /// # Errors
    /// The same as for [`StreamReader::read_bytes`].
    pub fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, StreamIoError>> {
        self.poll_next(cx, most.max(1)).map_ok(|bytes| Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// Reads the next bytes, at most `most`; empty at the end. They come straight from the session, so that bytes the
    /// application has not taken go with a suspended session.
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Bytes, StreamIoError>> {
        match &self.half {
            Half::Finished => return Poll::Ready(Ok(Bytes::new())),
            Half::Failed(why) => return Poll::Ready(Err((**why).clone())),
            Half::Open => {}
        }
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        let read = if state.is_leaving() {
            Read::Blocked
        } else {
            match state.connection.session().read(self.id, most) {
                Ok(read) => read,
                Err(_) => return Poll::Ready(Err(StreamIoError::Ended)),
            }
        };
        match read {
            Read::Data(data) => {
                if state.connection.session().has_control() {
                    // Wakes the driver task, which returns credit to the peer.
                    shared.wake(state);
                }
                Poll::Ready(Ok(data))
            }
            Read::Finished => {
                self.half = Half::Finished;
                Poll::Ready(Ok(Bytes::new()))
            }
            Read::Reset(code) => {
                let why = StreamIoError::Reset(StreamCode(code));
                self.half = Half::failed(why.clone());
                Poll::Ready(Err(why))
            }
            Read::Blocked => match &state.closed {
                Some(reason) => Poll::Ready(Err(StreamIoError::Closed(reason.clone()))),
                None => {
                    state.streams().readers.insert(self.id, cx.waker().clone());
                    Poll::Pending
                }
            },
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        // No reader is left to wake.
        drop(state.streams().readers.remove(&self.id));
        if self.half.is_open() && !state.is_leaving() {
            state.connection.session().stop(self.id, StreamCode::DROPPED.0).ok();
            shared.wake(state);
        }
    }
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReader").field("id", &self.id.0).finish_non_exhaustive()
    }
}

impl AsyncRead for StreamReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() > 0 {
            let data = ready!(self.poll_next(cx, buf.remaining()))?;
            buf.put_slice(&data);
        }
        Poll::Ready(Ok(()))
    }
}
