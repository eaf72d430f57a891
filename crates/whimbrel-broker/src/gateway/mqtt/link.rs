//! A client's connection: bytes that came, and where others go.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Duration, timeout};

use super::codec::{Fault, frame};

/// How long a client may take to get the last answers.
const FLUSH: Duration = Duration::from_secs(2);
/// How long what a client still sends is read after that: closing over unread bytes would reset the connection, and lose the answers.
const LINGER: Duration = Duration::from_millis(500);
/// The fewest bytes for which room is made before a read: a client that is idle costs no more.
const LEAST: usize = 256;
/// Memory beyond this is given back once nothing is in it.
const SMALL: usize = 4 << 10;
/// The most.
const MOST: usize = 64 << 10;

/// A connection. Its parts are used side by side.
#[derive(Debug)]
pub(super) struct Link<S> {
    pub(super) reader: ReadHalf<S>,
    pub(super) writer: WriteHalf<S>,
    pub(super) input: BytesMut,
    room: usize,
    /// Whether something was written that the layers below may still hold.
    pub(super) is_flushing: bool,
}

impl<S: AsyncRead + AsyncWrite> Link<S> {
    pub(super) fn new(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader, writer, input: BytesMut::new(), room: LEAST, is_flushing: false }
    }

    /// Waits for a whole packet: its first byte and its body. `None` if the client has gone.
    pub(super) async fn packet(&mut self, most: usize) -> Option<Result<(u8, Bytes), Fault>> {
        loop {
            match take_packet(&mut self.input, most) {
                Ok(Some(packet)) => return Some(Ok(packet)),
                Ok(None) => {}
                Err(fault) => return Some(Err(fault)),
            }
            self.make_room();
            if self.reader.read_buf(&mut self.input).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Makes room for the next read.
    pub(super) fn make_room(&mut self) {
        if self.room == LEAST {
            shrink(&mut self.input);
        }
        self.input.reserve(self.room);
    }

    /// Learns from the last read how much room the next one needs.
    pub(super) fn came(&mut self, bytes: usize) {
        self.room = if bytes >= self.room { self.room * 4 } else { self.room / 2 }.clamp(LEAST, MOST);
    }

    /// Sends what is left, and closes.
    pub(super) async fn close(mut self, out: &mut BytesMut) {
        let farewell = async {
            while out.has_remaining() {
                send(&mut self.writer, out, &mut self.is_flushing).await.ok()?;
            }
            self.writer.shutdown().await.ok()
        };
        if let Ok(Some(())) = timeout(FLUSH, farewell).await {
            let reading = async {
                let mut rest = [0; 1_024];
                while matches!(self.reader.read(&mut rest).await, Ok(length) if length > 0) {}
            };
            // The client has the answers now, or does not want them.
            drop(timeout(LINGER, reading).await);
        }
    }
}

/// Sends some of what waits. It may be given up at any time, and `is_flushing` tells then whether there is more to do.
pub(super) async fn send<W: AsyncWrite + Unpin>(
    writer: &mut W,
    out: &mut BytesMut,
    is_flushing: &mut bool,
) -> io::Result<()> {
    if out.has_remaining() {
        if writer.write_buf(out).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        *is_flushing = true;
    }
    // TLS and WebSocket keep what the socket had no room for.
    writer.flush().await?;
    *is_flushing = false;
    Ok(())
}

/// Takes the packet at the front, if it is whole.
pub(super) fn take_packet(input: &mut BytesMut, most: usize) -> Result<Option<(u8, Bytes)>, Fault> {
    let Some(place) = frame(input, most)? else { return Ok(None) };
    if input.len() < place.end {
        return Ok(None);
    }
    let mut packet = input.split_to(place.end).freeze();
    let first = packet[0];
    packet.advance(place.body);
    Ok(Some((first, packet)))
}

/// Gives back memory that a burst needed.
pub(super) fn shrink(bytes: &mut BytesMut) {
    if bytes.is_empty() && bytes.capacity() > SMALL {
        *bytes = BytesMut::new();
    }
}
