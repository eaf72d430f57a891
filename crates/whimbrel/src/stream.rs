//! Byte streams: the interface of a TCP socket (Mockets 3) and more.

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

/// A bidirectional byte stream. Each direction ends by itself (half-close).
///
/// `shutdown` ends the writing direction: everything written is delivered, then the peer reads the end. Dropping the
/// stream without `shutdown`, in a panic for example, resets the writing direction with [`StreamCode::DROPPED`]. The
/// peer's reads then fail with [`io::ErrorKind::ConnectionReset`], so that it does not take a part for the whole.
/// Dropping also stops the reading direction with the same code, unless its end was read. The peer's writes then
/// fail. If the session is being suspended, a dropped stream goes with it.
///
/// I/O errors wrap a [`StreamIoError`].
///
/// # Cancel safety
/// `read`, `write` and `shutdown` are cancel-safe. `read_exact`, `read_to_end` and `write_all` are not, as with any
/// tokio socket: a dropped future may have moved a part.
pub struct Stream {
    reader: StreamReader,
    writer: StreamWriter,
}

impl Stream {
    pub(crate) fn new(mocket: Mocket, id: StreamId, opening: Bytes) -> Self {
        let writer = StreamWriter::new(mocket.clone(), id);
        Self { reader: StreamReader::new(mocket, id, opening), writer }
    }

    /// Returns the ID of the stream in the session.
    pub fn id(&self) -> StreamId {
        self.reader.id()
    }

    /// Returns the opening that the peer sent with the stream. Empty if the peer sent none, or reset the stream before
    /// it arrived, for example by dropping the stream. Also empty if this end opened the stream.
    pub fn opening(&self) -> &Bytes {
        self.reader.opening()
    }

    /// Splits the stream into its two directions. Each is ended when its half is dropped.
    pub fn into_split(self) -> (StreamReader, StreamWriter) {
        (self.reader, self.writer)
    }

    /// Returns the reading direction.
    pub fn reader(&mut self) -> &mut StreamReader {
        &mut self.reader
    }

    /// Returns the writing direction.
    pub fn writer(&mut self) -> &mut StreamWriter {
        &mut self.writer
    }

    /// Resets the writing direction. See [`StreamWriter::reset`].
    pub fn reset(&mut self, code: impl Into<StreamCode>) {
        self.writer.reset(code);
    }

    /// Stops the reading direction. See [`StreamReader::stop`].
    pub fn stop(&mut self, code: impl Into<StreamCode>) {
        self.reader.stop(code);
    }

    /// Sets the priority of the writing direction. See [`StreamWriter::set_priority`].
    pub fn set_priority(&mut self, priority: u8) {
        self.writer.set_priority(priority);
    }

    /// Limits the credit of the reading direction. See [`StreamReader::set_window`].
    pub fn set_window(&mut self, window: Option<u64>) {
        self.reader.set_window(window);
    }

    /// Reads the next bytes. See [`StreamReader::read_bytes`].
    ///
    /// # Errors
    /// The same as for [`StreamReader::read_bytes`].
    pub async fn read_bytes(&mut self, most: usize) -> Result<Option<Bytes>, StreamIoError> {
        self.reader.read_bytes(most).await
    }

    /// Writes bytes. See [`StreamWriter::write_bytes`].
    ///
    /// # Errors
    /// The same as for [`StreamWriter::write_bytes`].
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
