//! A program's connection while its flow is being opened.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Waits until the program has closed its connection, or it was reset. For protocols in which a program waits for an
/// answer before it ends its direction. Bytes that it has sent meanwhile stay unread.
pub(super) async fn closed(tcp: &TcpStream) {
    // Beside urgent data, which is not asked for, this interest is in nothing but the end.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    drop(tcp.ready(Interest::PRIORITY).await);
    // Elsewhere, only a reset is known without reading.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    drop(tcp.ready(Interest::ERROR).await);
}

/// A connection that can be watched while somebody else holds it. Only one of its handles reads and writes.
#[derive(Clone, Debug)]
pub(super) struct Watched(Arc<TcpStream>);

impl Watched {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self(Arc::new(tcp))
    }

    /// See [`closed`].
    pub(super) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let tcp = Arc::clone(&self.0);
        async move { closed(&tcp).await }
    }

    /// Returns the connection, if nobody else holds it.
    pub(super) fn into_inner(self) -> Option<TcpStream> {
        Arc::into_inner(self.0)
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}
