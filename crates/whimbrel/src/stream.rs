//! Byte streams: the interface of a TCP socket (Mockets 3).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use whimbrel_proto::session::{Read, Session, StreamError};
use whimbrel_proto::{StreamId, Time};

use crate::error::StreamIoError;
use crate::mocket::Mocket;
use crate::shared::Shared;

/// Code of RESET and STOP for a stream that was dropped.
const DROPPED: u64 = 0;

/// What one write takes at most.
const WRITE_MAX: usize = 1 << 16;

/// A byte stream of a mocket, both directions; each ends by itself (half-close). `shutdown` ends the writing direction: what was written
/// arrives, then the peer reads the end. Dropped without that, in a panic for example, the writing direction is reset with code 0: the
/// peer's reads fail with [`io::ErrorKind::ConnectionReset`], so that a part is not taken for the whole. The reading direction of a dropped
/// stream is stopped with code 0, unless its end was read: the peer's writes fail. A stream that is dropped while its session is being
/// suspended goes with the session.
///
/// Errors hold a [`StreamIoError`]. `read`, `write` and `shutdown` are cancel-safe; `read_exact`, `read_to_end` and `write_all` are not, as
/// with any socket of tokio: dropped, they have moved a part.
pub struct Stream {
    shared: Arc<Shared>,
    /// Keeps the session open.
    _mocket: Mocket,
    id: StreamId,
    writing: Half,
    reading: Half,
}

/// How far one direction has come, as the application knows it.
enum Half {
    Open,
    /// Ended well.
    Finished,
    /// Each further call says the same.
    Failed(StreamIoError),
}

impl Half {
    fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>, mocket: Mocket, id: StreamId) -> Self {
        Self { shared, _mocket: mocket, id, writing: Half::Open, reading: Half::Open }
    }

    /// Its number in the session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends the writing direction early: the peer's reads fail with `code`, and so does what it had not read yet.
    pub fn reset(&mut self, code: u64) {
        self.writing = Half::Failed(StreamIoError::Ended);
        let mut state = self.shared.lock();
        // A stream that has ended already needs no ending.
        state.connection.session().reset(self.id, code).ok();
        self.shared.wake(state);
    }

    /// Asks the peer to end its writing direction: its writes fail with `code`.
    pub fn stop(&mut self, code: u64) {
        self.reading = Half::Failed(StreamIoError::Ended);
        let mut state = self.shared.lock();
        state.connection.session().stop(self.id, code).ok();
        self.shared.wake(state);
    }

    /// The next bytes, at most `most`; none at the end. They come straight from the session: what the application has not taken goes with
    /// a session that leaves.
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Bytes, StreamIoError>> {
        match &self.reading {
            Half::Finished => return Poll::Ready(Ok(Bytes::new())),
            Half::Failed(why) => return Poll::Ready(Err(why.clone())),
            Half::Open => {}
        }
        let mut state = self.shared.lock();
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
                    self.shared.wake(state);
                }
                Poll::Ready(Ok(data))
            }
            Read::Finished => {
                self.reading = Half::Finished;
                Poll::Ready(Ok(Bytes::new()))
            }
            Read::Reset(code) => {
                self.reading = Half::Failed(StreamIoError::Reset(code));
                Poll::Ready(Err(StreamIoError::Reset(code)))
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

    fn poll_take(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, StreamIoError>> {
        match &self.writing {
            Half::Finished => return Poll::Ready(Err(StreamIoError::Ended)),
            Half::Failed(why) => return Poll::Ready(Err(why.clone())),
            Half::Open => {}
        }
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(StreamIoError::Closed(reason.clone())));
        }
        let bytes = Bytes::copy_from_slice(&data[..data.len().min(WRITE_MAX)]);
        match state.connection.session().write(now, self.id, bytes) {
            // Nothing needs no room.
            Ok(0) if !data.is_empty() => {
                state.writers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Ok(taken) => {
                self.shared.wake(state);
                Poll::Ready(Ok(taken))
            }
            Err(error) => {
                drop(state);
                Poll::Ready(Err(self.fail_writing(error)))
            }
        }
    }

    fn end_writing(&mut self) -> Result<(), StreamIoError> {
        match &self.writing {
            Half::Finished => return Ok(()),
            Half::Failed(why) => return Err(why.clone()),
            Half::Open => {}
        }
        let mut state = self.shared.lock();
        if let Some(reason) = &state.closed {
            return Err(StreamIoError::Closed(reason.clone()));
        }
        match finish(state.connection.session(), self.shared.clock.now(), self.id) {
            Ok(()) => {
                self.shared.wake(state);
                self.writing = Half::Finished;
                Ok(())
            }
            Err(error) => {
                drop(state);
                Err(self.fail_writing(error))
            }
        }
    }

    fn fail_writing(&mut self, error: StreamError) -> StreamIoError {
        let why = match error {
            StreamError::Stopped(code) => StreamIoError::Stopped(code),
            _ => StreamIoError::Ended,
        };
        self.writing = Half::Failed(why.clone());
        why
    }
}

/// Says why not, where the peer has stopped the stream.
fn finish(session: &mut Session, now: Time, id: StreamId) -> Result<(), StreamError> {
    session.finish(now, id).map_err(|ended| session.write(now, id, Bytes::new()).err().unwrap_or(ended))
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // Nobody is left to be woken.
        drop((state.readers.remove(&self.id), state.writers.remove(&self.id)));
        if state.is_leaving() {
            return;
        }
        let session = state.connection.session();
        if self.writing.is_open() {
            session.reset(self.id, DROPPED).ok();
        }
        if self.reading.is_open() {
            session.stop(self.id, DROPPED).ok();
        }
        self.shared.wake(state);
    }
}

impl AsyncRead for Stream {
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

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(ready!(self.poll_take(cx, data))?))
    }

    /// Everything written is on its way already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the writing direction; what was written is delivered first.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(self.end_writing()?))
    }
}
