//! A stream of a link, and its two directions.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use whimbrel::StreamId;

use super::failure::Failure;
use super::tcp::{TcpReader, TcpStreamEnds, TcpWriter};

/// A stream. See [`whimbrel::Stream`].
#[derive(Debug)]
pub(crate) enum Stream {
    Whimbrel(whimbrel::Stream),
    Tcp(TcpStreamEnds),
}

/// The direction from the peer.
#[derive(Debug)]
pub(crate) enum StreamReader {
    Whimbrel(whimbrel::StreamReader),
    Tcp(TcpReader),
}

/// The direction to the peer.
#[derive(Debug)]
pub(crate) enum StreamWriter {
    Whimbrel(whimbrel::StreamWriter),
    Tcp(TcpWriter),
}

impl Stream {
    /// Returns what the peer has sent with the opening.
    pub(crate) fn opening(&self) -> &Bytes {
        match self {
            Self::Whimbrel(stream) => stream.opening(),
            Self::Tcp(stream) => stream.opening(),
        }
    }

    pub(crate) fn into_split(self) -> (StreamReader, StreamWriter) {
        match self {
            Self::Whimbrel(stream) => {
                let (reader, writer) = stream.into_split();
                (StreamReader::Whimbrel(reader), StreamWriter::Whimbrel(writer))
            }
            Self::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                (StreamReader::Tcp(reader), StreamWriter::Tcp(writer))
            }
        }
    }

    /// Ends the direction to the peer early.
    pub(crate) fn reset(&mut self, code: u64) {
        match self {
            Self::Whimbrel(stream) => stream.reset(code),
            Self::Tcp(stream) => stream.writer().reset(code),
        }
    }

    /// Reads no more.
    pub(crate) fn stop(&mut self, code: u64) {
        match self {
            Self::Whimbrel(stream) => stream.stop(code),
            Self::Tcp(stream) => stream.reader().stop(code),
        }
    }

    /// Writes all bytes. Not to be cancelled.
    pub(crate) async fn write_bytes(&mut self, bytes: Bytes) -> Result<(), Failure> {
        match self {
            Self::Whimbrel(stream) => Ok(stream.write_bytes(bytes).await?),
            Self::Tcp(stream) => stream.writer().write_bytes(bytes).await,
        }
    }

    /// Ends the direction to the peer. What was written goes first.
    pub(crate) fn finish(&mut self) {
        match self {
            Self::Whimbrel(stream) => shut_down(stream.writer()),
            Self::Tcp(stream) => stream.writer().finish(),
        }
    }

    /// Waits until the peer reads no more. Can be cancelled at any time.
    pub(crate) async fn stopped(&mut self) {
        match self {
            Self::Whimbrel(stream) => drop(stream.writer().stopped().await),
            Self::Tcp(stream) => drop(std::future::poll_fn(|cx| stream.writer().poll_stopped(cx)).await),
        }
    }
}

impl StreamReader {
    /// Returns the number of the stream in its session.
    pub(crate) fn id(&self) -> StreamId {
        match self {
            Self::Whimbrel(reader) => reader.id(),
            Self::Tcp(reader) => StreamId(reader.id()),
        }
    }

    /// Reads the next bytes, at most so many. `None`: the end.
    pub(crate) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        match self {
            Self::Whimbrel(reader) => reader.poll_bytes(cx, most).map_err(Failure::from),
            Self::Tcp(reader) => reader.poll_bytes(cx, most),
        }
    }

    /// Reads no more.
    pub(crate) fn stop(&mut self, code: u64) {
        match self {
            Self::Whimbrel(reader) => reader.stop(code),
            Self::Tcp(reader) => reader.stop(code),
        }
    }
}

impl StreamWriter {
    /// Writes as many bytes as there is room for, at least one.
    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>, bytes: &Bytes) -> Poll<Result<usize, Failure>> {
        match self {
            Self::Whimbrel(writer) => writer.poll_bytes(cx, bytes).map_err(Failure::from),
            Self::Tcp(writer) => writer.poll_bytes(cx, bytes),
        }
    }

    /// Waits until the peer reads no more and returns its code, or, if that is known here, has everything.
    pub(crate) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, Failure>> {
        match self {
            Self::Whimbrel(writer) => {
                writer.poll_stopped(cx).map_ok(|code| code.map(|code| code.0)).map_err(Failure::from)
            }
            Self::Tcp(writer) => writer.poll_stopped(cx).map_ok(Some),
        }
    }

    /// Sets the priority. TCP has none.
    pub(crate) fn set_priority(&mut self, priority: u8) {
        match self {
            Self::Whimbrel(writer) => writer.set_priority(priority),
            Self::Tcp(_) => {}
        }
    }

    /// Ends the direction. What was written goes first.
    pub(crate) fn finish(&mut self) {
        match self {
            Self::Whimbrel(writer) => shut_down(writer),
            Self::Tcp(writer) => writer.finish(),
        }
    }

    /// Ends it early.
    pub(crate) fn reset(&mut self, code: u64) {
        match self {
            Self::Whimbrel(writer) => writer.reset(code),
            Self::Tcp(writer) => writer.reset(code),
        }
    }
}

fn shut_down(writer: &mut whimbrel::StreamWriter) {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    // It never waits. If the peer has stopped the stream, that is heard elsewhere.
    drop(Pin::new(writer).poll_shutdown(&mut cx));
}
