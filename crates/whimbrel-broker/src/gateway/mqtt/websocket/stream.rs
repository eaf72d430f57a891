//! The bytes within a WebSocket's frames, as a stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::{Decoder, Event, Violation, put_close, put_data, put_pong};

/// The most bytes that are read at once.
const PART: usize = 8 << 10;
/// The longest content of a frame that is sent, bytes.
const LONGEST_FRAME: usize = 16 << 10;
/// Pings are answered while fewer bytes wait to be sent.
const MOST_ANSWERS: usize = 1 << 10;
/// The code of a regular end.
const NORMAL: u16 = 1000;

/// A connection on which WebSocket has begun.
#[derive(Debug)]
pub(in super::super) struct WebSocketStream<S> {
    stream: S,
    decoder: Decoder,
    /// Frames that came and were not read.
    input: BytesMut,
    /// Frames that wait to be sent.
    output: BytesMut,
    /// Whether something was sent that may still be held by the stream below.
    is_flushing: bool,
    /// The client closed. Nothing of it is read any more.
    is_closed: bool,
    /// We closed. Nothing is sent any more.
    has_closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketStream<S> {
    pub(super) fn new(stream: S, input: BytesMut) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            input,
            output: BytesMut::new(),
            is_flushing: false,
            is_closed: false,
            has_closed: false,
        }
    }

    fn close(&mut self, code: u16) {
        if !self.has_closed {
            put_close(&mut self.output, code);
            self.has_closed = true;
        }
    }

    /// Sends what waits, all the way.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.output))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.output.advance(sent);
            self.is_flushing = true;
        }
        if self.output.capacity() > 0 {
            self.output = BytesMut::new();
        }
        if self.is_flushing {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushing = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends answers and farewells as far as that goes at once; who writes or flushes sends the rest.
    fn send_at_once(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.poll_send(cx) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Takes what came from the frames. Returns whether `buf` has bytes now, or none will come.
    fn take(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> io::Result<bool> {
        while !self.is_closed {
            match self.decoder.next(&mut self.input, buf.remaining()) {
                Ok(None) => return Ok(false),
                Ok(Some(Event::Data(data))) => {
                    buf.put_slice(&data);
                    return Ok(true);
                }
                Ok(Some(Event::Ping(content))) => {
                    if self.output.len() < MOST_ANSWERS && !self.has_closed {
                        put_pong(&mut self.output, &content);
                        self.send_at_once(cx)?;
                    }
                }
                Ok(Some(Event::Close)) => {
                    self.is_closed = true;
                    self.close(NORMAL);
                    self.send_at_once(cx)?;
                }
                Err(Violation(code)) => {
                    self.is_closed = true;
                    self.close(code);
                    self.send_at_once(cx)?;
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
        Ok(true)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocketStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        this.send_at_once(cx)?;
        loop {
            if this.take(cx, buf)? {
                return Poll::Ready(Ok(()));
            }
            let mut part = [0; PART];
            let mut part = ReadBuf::new(&mut part);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
            if part.filled().is_empty() {
                this.is_closed = true;
            }
            if this.input.is_empty() {
                // A client that is idle costs nothing.
                this.input = BytesMut::new();
            }
            this.input.extend_from_slice(part.filled());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocketStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        if this.has_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = buf.len().min(LONGEST_FRAME);
        put_data(&mut this.output, &buf[..length]);
        this.send_at_once(cx)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.close(NORMAL);
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}
