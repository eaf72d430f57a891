//! The writing direction of a byte stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWrite;
use whimbrel_proto::session::{Session, StreamError};
use whimbrel_proto::{StreamId, Time};

use crate::error::StreamIoError;
use crate::mocket::{Mocket, end_of};
use crate::stream_code::StreamCode;
use crate::stream_half::Half;

/// The most bytes that one copying write takes.
const WRITE_MAX: usize = 1 << 16;

/// The writing direction of a byte stream, from [`Stream::into_split`](crate::Stream::into_split). Dropping it without
/// `shutdown` resets it with [`StreamCode::DROPPED`], so that the peer does not take a part for the whole.
pub struct StreamWriter {
    /// Keeps the session open.
    mocket: Mocket,
    id: StreamId,
    half: Half,
}

impl StreamWriter {
    pub(crate) fn new(mocket: Mocket, id: StreamId) -> Self {
        mocket.shared.lock().streams().stops.watch(id);
        Self { mocket, id, half: Half::Open }
    }

    /// Returns the ID of the stream in the session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends the direction early and discards what the peer has not read yet. The peer's reads fail with `code`.
    pub fn reset(&mut self, code: impl Into<StreamCode>) {
        self.half = Half::failed(StreamIoError::Ended);
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        // An error only means that the stream has already ended.
        state.connection.session().reset(self.id, code.into().0).ok();
        shared.wake(state);
    }

    /// Sets the priority, 0 to 255, among this mocket's streams and messages. Higher ones go first. Default 100.
    pub fn set_priority(&mut self, priority: u8) {
        // An error only means that the stream has already ended.
        self.mocket.shared.lock().connection.session().set_priority(self.id, priority).ok();
    }

    /// Writes all of `bytes` without a copy. Waits for room. Not cancel-safe: a dropped future may have written a
    /// part.
    ///
    /// # Errors
    /// The peer stopped the stream, this end has ended it, or the mocket is closed.
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> Result<(), StreamIoError> {
        while !bytes.is_empty() {
            tokio::task::coop::consume_budget().await;
            let taken = std::future::poll_fn(|cx| self.poll_take(cx, bytes.clone())).await?;
            drop(bytes.split_to(taken));
        }
        Ok(())
    }

    /// Writes as many of `bytes` as there is room for, at least one, without a copy. Returns how many.
    ///
    /// # Errors
    /// The same as for [`StreamWriter::write_bytes`].
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>, bytes: &Bytes) -> Poll<Result<usize, StreamIoError>> {
        self.poll_take(cx, bytes.clone())
    }

    /// Waits until the peer has received everything written and the end (returns None), or has stopped reading
    /// (returns its code). Cancel-safe.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let (_, mut writer) = mocket.open_stream().await?.into_split();
    /// writer.write_all(b"a report").await?;
    /// writer.shutdown().await?;
    /// match writer.stopped().await? {
    ///     None => println!("the peer has all of it"),
    ///     Some(code) => println!("the peer does not want it: {code}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// This end reset the stream, or the mocket is closed.
    pub async fn stopped(&mut self) -> Result<Option<StreamCode>, StreamIoError> {
        std::future::poll_fn(|cx| self.poll_stopped(cx)).await
    }

    /// Polls like [`StreamWriter::stopped`].
    ///
    /// # Errors
    /// The same as for [`StreamWriter::stopped`].
    pub fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<StreamCode>, StreamIoError>> {
        match &self.half {
            Half::Failed(why) => {
                return Poll::Ready(match &**why {
                    StreamIoError::Stopped(code) => Ok(Some(*code)),
                    other => Err(other.clone()),
                });
            }
            Half::Open | Half::Finished => {}
        }
        let mut state = self.mocket.shared.lock();
        let session = state.connection.session();
        if let Some(code) = session.stopped(self.id) {
            return Poll::Ready(Ok(Some(StreamCode(code))));
        }
        let delivered = session.is_delivered(self.id);
        if let Some(code) = state.streams().stops.code(self.id) {
            return Poll::Ready(Ok(Some(code)));
        }
        if !self.half.is_open() && delivered {
            return Poll::Ready(Ok(None));
        }
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(StreamIoError::Closed(reason.clone())));
        }
        state.streams().writers.insert(self.id, cx.waker().clone());
        Poll::Pending
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, bytes: Bytes) -> Poll<Result<usize, StreamIoError>> {
        match &self.half {
            Half::Finished => return Poll::Ready(Err(StreamIoError::Ended)),
            Half::Failed(why) => return Poll::Ready(Err((**why).clone())),
            Half::Open => {}
        }
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        let now = shared.clock.now();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(StreamIoError::Closed(reason.clone())));
        }
        let nothing = bytes.is_empty();
        match state.connection.session().write(now, self.id, bytes) {
            // An empty write needs no room.
            Ok(0) if !nothing => {
                state.streams().writers.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
            Ok(taken) => {
                shared.drive_or_wake(state);
                Poll::Ready(Ok(taken))
            }
            Err(error) => {
                drop(state);
                Poll::Ready(Err(self.fail(error)))
            }
        }
    }

    fn end(&mut self) -> Result<(), StreamIoError> {
        match &self.half {
            Half::Finished => return Ok(()),
            Half::Failed(why) => return Err((**why).clone()),
            Half::Open => {}
        }
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        if let Some(reason) = &state.closed {
            return Err(StreamIoError::Closed(reason.clone()));
        }
        match finish(state.connection.session(), shared.clock.now(), self.id) {
            Ok(()) => {
                shared.wake(state);
                self.half = Half::Finished;
                Ok(())
            }
            Err(error) => {
                drop(state);
                Err(self.fail(error))
            }
        }
    }

    fn fail(&mut self, error: StreamError) -> StreamIoError {
        let mut state = self.mocket.shared.lock();
        let stopped = match error {
            StreamError::Stopped(code) => Some(StreamCode(code)),
            _ => state.streams().stops.code(self.id),
        };
        // While the peer closes, a session takes no more bytes, although this end has not ended the stream.
        let why = match (stopped, end_of(&state)) {
            (Some(code), _) => StreamIoError::Stopped(code),
            (None, Some(reason)) => StreamIoError::Closed(reason),
            (None, None) => StreamIoError::Ended,
        };
        drop(state);
        self.half = Half::failed(why.clone());
        why
    }
}

/// Ends the direction. If the peer has stopped the stream, returns that as the error.
fn finish(session: &mut Session, now: Time, id: StreamId) -> Result<(), StreamError> {
    session.finish(now, id).map_err(|ended| session.write(now, id, Bytes::new()).err().unwrap_or(ended))
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        let shared = &self.mocket.shared;
        let mut state = shared.lock();
        // No writer is left to wake.
        drop(state.streams().writers.remove(&self.id));
        state.streams().stops.forget(self.id);
        if self.half.is_open() && !state.is_leaving() {
            state.connection.session().reset(self.id, StreamCode::DROPPED.0).ok();
            shared.wake(state);
        }
    }
}

impl std::fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamWriter").field("id", &self.id.0).finish_non_exhaustive()
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = Bytes::copy_from_slice(&data[..data.len().min(WRITE_MAX)]);
        Poll::Ready(Ok(ready!(self.poll_take(cx, bytes))?))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut bytes = BytesMut::with_capacity(length.min(WRITE_MAX));
        for slice in slices {
            bytes.extend_from_slice(&slice[..slice.len().min(WRITE_MAX - bytes.len())]);
        }
        Poll::Ready(Ok(ready!(self.poll_take(cx, bytes.freeze()))?))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: written bytes are sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the direction. Everything written is delivered first.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(self.end()?))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Another task would have to be woken for it, maybe on another thread.
    #[tokio::test]
    async fn what_is_written_while_nothing_is_on_its_way_leaves_at_once() {
        let (_server, _client, near, _far) = crate::testing::pair().await;
        let (_reader, mut writer) = near.open_stream().await.unwrap().into_split();
        let is_idle = || near.shared.lock().connection.is_idle();
        let sent = || near.stats().connection.total.sent_packets;
        for _ in 0..3 {
            while !is_idle() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let before = sent();
            // On this runtime, no other task runs before the next wait.
            let bytes = Bytes::from_static(b"ping");
            assert_eq!(poll_fn(|cx| writer.poll_bytes(cx, &bytes)).await.unwrap(), 4);
            assert_eq!(sent(), before + 1);
        }
    }
}
