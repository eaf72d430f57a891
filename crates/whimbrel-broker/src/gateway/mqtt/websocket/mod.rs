//! MQTT over WebSocket (RFC 6455): the request that begins it, its frames, and the bytes in them as a stream.
//!
//! Frames are taken apart as their bytes come, so that nothing of a long one is held here.

mod frame;
mod stream;
mod upgrade;

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub use upgrade::WebSocket;

pub(super) use stream::WebSocketStream;
use upgrade::Request;

/// The longest request, bytes.
const LONGEST_REQUEST: usize = 8 << 10;

impl WebSocket {
    /// Answers the request with which a client begins. A request for anything else is answered as HTTP, and fails. `is_secure` says that the
    /// request came over TLS, and `needs_origin` that pages of strangers may not connect.
    pub(super) async fn accept<S>(
        &self,
        mut stream: S,
        is_secure: bool,
        needs_origin: bool,
    ) -> io::Result<WebSocketStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut input = BytesMut::new();
        let answer = loop {
            if let Some(end) = end_of(&input) {
                let head = input.split_to(end);
                let answer = Request::read(&head);
                break answer.and_then(|request| self.answer(&request, is_secure, needs_origin));
            }
            if input.len() >= LONGEST_REQUEST {
                break Err(upgrade::too_long());
            }
            input.reserve(1 << 10);
            if stream.read_buf(&mut input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        match answer {
            Ok(answer) => {
                stream.write_all(answer.as_bytes()).await?;
                stream.flush().await?;
                Ok(WebSocketStream::new(stream, input))
            }
            Err(refusal) => {
                stream.write_all(refusal.to_string().as_bytes()).await?;
                stream.shutdown().await?;
                // Closing over unread bytes would reset the connection, and lose the answer. The caller bounds the time.
                let mut rest = [0; 1 << 10];
                while stream.read(&mut rest).await? > 0 {}
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }
}

/// Where a request ends, if it is whole.
fn end_of(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|part| part == b"\r\n\r\n").map(|at| at + 4)
}
