//! Byte streams: the interface of a TCP socket (Mockets 3), and what a TCP socket lacks.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use whimbrel_proto::StreamId;

use crate::error::StreamIoError;
use crate::mocket::Mocket;
use crate::stream_code::StreamCode;
use crate::stream_reader::StreamReader;
use crate::stream_writer::StreamWriter;

/// A byte stream of a mocket, both directions; each ends by itself (half-close). `shutdown` ends the writing direction: what was written
/// arrives, then the peer reads the end. Dropped without that, in a panic for example, the writing direction is reset with
/// [`StreamCode::DROPPED`]: the peer's reads fail with [`io::ErrorKind::ConnectionReset`], so that a part is not taken for the whole. The
/// reading direction of a dropped stream is stopped with the same code, unless its end was read: the peer's writes fail. A stream that is
/// dropped while its session is being suspended goes with the session.
///
/// Errors hold a [`StreamIoError`]. `read`, `write` and `shutdown` are cancel-safe; `read_exact`, `read_to_end` and `write_all` are not, as
/// with any socket of tokio: dropped, they have moved a part.
pub struct Stream {
    reader: StreamReader,
    writer: StreamWriter,
}

impl Stream {
    pub(crate) fn new(mocket: Mocket, id: StreamId, opening: Bytes) -> Self {
        let writer = StreamWriter::new(mocket.clone(), id);
        Self { reader: StreamReader::new(mocket, id, opening), writer }
    }

    /// Its number in the session.
    pub fn id(&self) -> StreamId {
        self.reader.id()
    }

    /// What the peer opened it with; empty if with nothing, or if this end opened it.
    pub fn opening(&self) -> &Bytes {
        self.reader.opening()
    }

    /// Its two directions, which may live apart: each ends its own when it is dropped.
    pub fn into_split(self) -> (StreamReader, StreamWriter) {
        (self.reader, self.writer)
    }

    /// The reading direction.
    pub fn reader(&mut self) -> &mut StreamReader {
        &mut self.reader
    }

    /// The writing direction.
    pub fn writer(&mut self) -> &mut StreamWriter {
        &mut self.writer
    }

    /// As [`StreamWriter::reset`].
    pub fn reset(&mut self, code: impl Into<StreamCode>) {
        self.writer.reset(code);
    }

    /// As [`StreamReader::stop`].
    pub fn stop(&mut self, code: impl Into<StreamCode>) {
        self.reader.stop(code);
    }

    /// As [`StreamWriter::set_priority`].
    pub fn set_priority(&mut self, priority: u8) {
        self.writer.set_priority(priority);
    }

    /// As [`StreamReader::set_window`].
    pub fn set_window(&mut self, window: Option<u64>) {
        self.reader.set_window(window);
    }

    /// As [`StreamReader::read_bytes`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_bytes(&mut self, most: usize) -> Result<Option<Bytes>, StreamIoError> {
        self.reader.read_bytes(most).await
    }

    /// As [`StreamWriter::write_bytes`].
    ///
    /// # Errors
    /// As there.
    pub async fn write_bytes(&mut self, bytes: Bytes) -> Result<(), StreamIoError> {
        self.writer.write_bytes(bytes).await
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id().0).finish_non_exhaustive()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
