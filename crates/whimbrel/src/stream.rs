//! Byte streams: the interface of a TCP socket (Mockets 3).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use whimbrel_proto::StreamId;
use whimbrel_proto::session::Read;

use crate::mocket::Mocket;
use crate::shared::Shared;

/// A byte stream of a mocket, both directions; each ends by itself (half-close). Dropping it finishes the writing direction and stops the
/// reading one. `read`, `write` and `shutdown` are cancel-safe; `read_exact`, `read_to_end` and `write_all` are not, as with any socket of
/// tokio: dropped, they have moved a part.
pub struct Stream {
    shared: Arc<Shared>,
    /// Keeps the session open.
    _mocket: Mocket,
    id: StreamId,
    /// Read and not yet given out.
    rest: Bytes,
    finished: bool,
    ended: bool,
}

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>, mocket: Mocket, id: StreamId) -> Self {
        Self { shared, _mocket: mocket, id, rest: Bytes::new(), finished: false, ended: false }
    }

    /// Its number in the session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends the writing direction early: the peer's reads fail with `code`.
    pub fn reset(&mut self, code: u64) {
        self.finished = true;
        let mut state = self.shared.lock();
        // A stream that has ended already needs no ending.
        state.connection.session().reset(self.id, code).ok();
        self.shared.wake(state);
    }

    /// Asks the peer to end its writing direction: its writes fail with `code`.
    pub fn stop(&mut self, code: u64) {
        self.ended = true;
        let mut state = self.shared.lock();
        state.connection.session().stop(self.id, code).ok();
        self.shared.wake(state);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        if !self.finished {
            state.connection.session().finish(now, self.id).ok();
        }
        if !self.ended {
            state.connection.session().stop(self.id, 0).ok();
        }
        self.shared.wake(state);
    }
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() && !self.ended {
            let this = &mut *self;
            let mut state = this.shared.lock();
            match state.connection.session().read(this.id, 1 << 16) {
                Ok(Read::Data(data)) => this.rest = data,
                Ok(Read::Finished) => this.ended = true,
                Ok(Read::Reset(code)) => {
                    this.ended = true;
                    let text = format!("the peer reset the stream with code {code}");
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, text)));
                }
                Ok(Read::Blocked) => {
                    if let Some(reason) = &state.closed {
                        let error = io::Error::new(io::ErrorKind::ConnectionAborted, reason.clone());
                        return Poll::Ready(Err(error));
                    }
                    state.readers.insert(this.id, cx.waker().clone());
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
            if state.connection.session().has_control() {
                this.shared.wake(state);
            }
        }
        let count = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(broken(reason.clone())));
        }
        let data = Bytes::copy_from_slice(&data[..data.len().min(1 << 16)]);
        match state.connection.session().write(now, self.id, data) {
            Ok(0) => {
                state.writers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Ok(taken) => {
                self.shared.wake(state);
                Poll::Ready(Ok(taken))
            }
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }

    /// Everything written is on its way already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the writing direction; what was written is delivered first.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.finished {
            self.finished = true;
            let mut state = self.shared.lock();
            let now = self.shared.clock.now();
            if let Err(error) = state.connection.session().finish(now, self.id) {
                return Poll::Ready(Err(broken(error)));
            }
            self.shared.wake(state);
        }
        Poll::Ready(Ok(()))
    }
}
