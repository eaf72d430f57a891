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

/// The reading direction of a byte stream, from [`crate::Stream::into_split`]. Dropped before its end was read it is stopped with
/// [`StreamCode::DROPPED`]: the peer's writes fail.
pub struct StreamReader {
    /// Keeps the session open.
    mocket: Mocket,
    id: StreamId,
    half: Half,
    opening: Bytes,
}

impl StreamReader {
    pub(crate) fn new(mocket: Mocket, id: StreamId, opening: Bytes) -> Self {
        Self { mocket, id, half: Half::Open, opening }
    }

    /// The stream's number in the session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// What the peer opened the stream with; empty if with nothing, or if this end opened it.
    pub fn opening(&self) -> &Bytes {
        &self.opening
    }

    /// Asks the peer to end its writing direction: its writes fail with `code`.
    pub fn stop(&mut self, code: impl Into<StreamCode>) {
        self.half = Half::Failed(StreamIoError::Ended);
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        // A stream that has ended already needs no ending.
        state.connection.session().stop(self.id, code.into().0).ok();
        shared.wake(state);
    }

    /// Bounds what the peer may send ahead of what is read here, bytes: credit grows to that and no further, but never sinks below
    /// `stream_share`. None: as far as `stream_window` says. What the peer was granted before stays so.
    pub fn set_window(&mut self, window: Option<u64>) {
        // One that is over needs none.
        self.mocket.shared.lock().connection.session().set_window(self.id, window).ok();
    }

    /// The next bytes, at most `most`, as they came, without a copy; none at the end. Cancel-safe.
    ///
    /// # Errors
    /// The peer reset the stream, or the mocket is closed.
    pub async fn read_bytes(&mut self, most: usize) -> Result<Option<Bytes>, StreamIoError> {
        tokio::task::coop::consume_budget().await;
        std::future::poll_fn(|cx| self.poll_bytes(cx, most)).await
    }

    /// As [`StreamReader::read_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, StreamIoError>> {
        self.poll_next(cx, most.max(1)).map_ok(|bytes| Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// The next bytes, at most `most`; empty at the end. They come straight from the session: what the application has not taken goes with
    /// a session that leaves.
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Bytes, StreamIoError>> {
        match &self.half {
            Half::Finished => return Poll::Ready(Ok(Bytes::new())),
            Half::Failed(why) => return Poll::Ready(Err(why.clone())),
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
                    // Credit to give back.
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
                self.half = Half::Failed(why.clone());
                Poll::Ready(Err(why))
            }
            Read::Blocked => match &state.closed {
                Some(reason) => Poll::Ready(Err(StreamIoError::Closed(reason.clone()))),
                None => {
                    state.readers.insert(self.id, cx.waker().clone());
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
        // Nobody is left to be woken.
        drop(state.readers.remove(&self.id));
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
