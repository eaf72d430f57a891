//! A program's TCP connection.

use std::cell::RefCell;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::flow::{Broken, Program};

/// The most bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Reads of at least this many bytes suggest a bulk transfer: the next goes into a buffer of its own, without a copy.
const BULK: usize = 16 * 1024;
/// The most buffers written at once.
const SLICES: usize = 64;

thread_local! {
    /// Where small reads go first, so that an idle flow has no buffer and a small read pins no large one.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into_boxed_slice());
}

/// A program's TCP connection.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: Tcp,
    is_bulk: bool,
}

/// Whose TCP it is.
#[derive(Debug)]
enum Tcp {
    Kernel(Arc<TcpStream>),
    Userspace(Box<dyn Userspace>),
}

/// A connection of a TCP in this process. Unless it was finished, dropping it resets it.
pub(crate) trait Userspace: Program + Debug + Send + Sync {
    /// Waits until the connection is reset.
    fn was_reset(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl From<TcpStream> for Socket {
    fn from(tcp: TcpStream) -> Self {
        Self::new(tcp)
    }
}

impl From<Box<dyn Userspace>> for Socket {
    fn from(tcp: Box<dyn Userspace>) -> Self {
        Self { tcp: Tcp::Userspace(tcp), is_bulk: false }
    }
}

impl Socket {
    /// A connection, which is reset unless the flow finishes it.
    pub(crate) fn new(tcp: TcpStream) -> Self {
        // Delays by the kernel would add to those of the link. An error means that the connection is gone.
        tcp.set_nodelay(true).ok();
        // Whatever ends this process, a connection that has not ended is reset.
        SockRef::from(&tcp).set_linger(Some(Duration::ZERO)).ok();
        Self { tcp: Tcp::Kernel(Arc::new(tcp)), is_bulk: false }
    }

    /// A connection of a flow that goes on here. Its direction to the program may be finished.
    pub(super) fn resumed(tcp: TcpStream, is_finished: bool) -> Self {
        if is_finished {
            return Self { tcp: Tcp::Kernel(Arc::new(tcp)), is_bulk: false };
        }
        Self::new(tcp)
    }

    /// Returns the connection, if it is the kernel's and nobody waits for it any more.
    pub(super) fn into_inner(self) -> Option<TcpStream> {
        match self.tcp {
            Tcp::Kernel(tcp) => Arc::into_inner(tcp),
            Tcp::Userspace(_) => None,
        }
    }

    /// Waits until the connection is reset. A flow whose bytes wait for the peer does not read, and would not see it.
    pub(crate) fn was_reset(&self) -> impl Future<Output = ()> + use<> {
        let waiting = match &self.tcp {
            Tcp::Kernel(tcp) => Ok(Arc::clone(tcp)),
            Tcp::Userspace(tcp) => Err(tcp.was_reset()),
        };
        async move {
            match waiting {
                Ok(tcp) => drop(tcp.ready(Interest::ERROR).await),
                Err(reset) => reset.await,
            }
        }
    }
}

/// Reads what there is.
fn try_read(tcp: &TcpStream, is_bulk: &mut bool) -> io::Result<Bytes> {
    if *is_bulk {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let read = drain(tcp, CHUNK, || tcp.try_read_buf(&mut buffer))?;
        *is_bulk = read >= BULK;
        return Ok(if *is_bulk { buffer.freeze() } else { Bytes::copy_from_slice(&buffer) });
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let read = drain(tcp, CHUNK, || tcp.try_read(scratch))?;
        *is_bulk = read >= BULK;
        Ok(Bytes::copy_from_slice(&scratch[..read]))
    })
}

/// Reads once into room for so many bytes. If some is left, the connection is empty, and the next wait sleeps until something
/// comes. That saves a call that would only return `WouldBlock`. Only the readiness seen before the call is cleared, so what
/// comes meanwhile, and the end, are not missed.
fn drain(tcp: &TcpStream, room: usize, read: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    // Elsewhere, readiness may be reported only once.
    const IS_TOLD_AGAIN: bool = cfg!(target_os = "linux");
    let mut last = None;
    let done = tcp.try_io(Interest::READABLE, || {
        let count = read()?;
        if IS_TOLD_AGAIN && (1..room).contains(&count) {
            last = Some(count);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    });
    last.map_or(done, Ok)
}

impl Program for Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        let tcp = match &mut self.tcp {
            Tcp::Kernel(tcp) => tcp,
            Tcp::Userspace(tcp) => return tcp.poll_read(cx),
        };
        loop {
            if ready!(tcp.poll_read_ready(cx)).is_err() {
                return Poll::Ready(Err(Broken::Reset(0)));
            }
            match try_read(tcp, &mut self.is_bulk) {
                Ok(bytes) if bytes.is_empty() => return Poll::Ready(Ok(None)),
                Ok(bytes) => return Poll::Ready(Ok(Some(bytes))),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Poll::Ready(Err(Broken::Reset(0))),
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<(), Broken>> {
        let tcp = match &mut self.tcp {
            Tcp::Kernel(tcp) => tcp,
            Tcp::Userspace(tcp) => return tcp.poll_write(cx, bytes),
        };
        loop {
            if ready!(tcp.poll_write_ready(cx)).is_err() {
                return Poll::Ready(Err(Broken::Reset(0)));
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let filled =
                bytes.iter().zip(&mut slices).map(|(bytes, slice)| *slice = IoSlice::new(bytes)).count();
            match tcp.try_write_vectored(&slices[..filled]) {
                Ok(written) => {
                    drop_front(bytes, written);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if is_passing(&error) => {}
                Err(_) => return Poll::Ready(Err(Broken::Reset(0))),
            }
        }
    }

    fn finish(&mut self) {
        match &mut self.tcp {
            Tcp::Kernel(tcp) => {
                // An error means that the connection is gone, which the next read says, too.
                SockRef::from(&**tcp).set_linger(None).ok();
                SockRef::from(&**tcp).shutdown(std::net::Shutdown::Write).ok();
            }
            Tcp::Userspace(tcp) => tcp.finish(),
        }
    }

    fn reset(&mut self) {
        match &mut self.tcp {
            // The connection is reset when the socket is closed.
            Tcp::Kernel(tcp) => drop(SockRef::from(&**tcp).set_linger(Some(Duration::ZERO))),
            Tcp::Userspace(tcp) => tcp.reset(),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Drops the first `written` bytes.
pub(crate) fn drop_front(bytes: &mut Vec<Bytes>, mut written: usize) {
    let whole = bytes.iter().take_while(|bytes| {
        let fits = bytes.len() <= written;
        written -= if fits { bytes.len() } else { 0 };
        fits
    });
    let whole = whole.count();
    bytes.drain(..whole);
    if let Some(first) = bytes.first_mut() {
        first.advance(written);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Returns a program's end of a connection, and ours.
    async fn connection() -> (TcpStream, Socket) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (program, Socket::new(listener.accept().await.unwrap().0))
    }

    async fn next(socket: &mut Socket) -> Option<Bytes> {
        std::future::poll_fn(|cx| socket.poll_read(cx)).await.unwrap()
    }

    /// Whether a read would be tried now, since the connection may have something.
    fn may_have_more(socket: &Socket) -> bool {
        let Tcp::Kernel(tcp) = &socket.tcp else { return false };
        tcp.poll_read_ready(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_empty_connection_is_not_read_again() {
        let (mut program, mut socket) = connection().await;
        for is_bulk in [false, true] {
            program.write_all(b"ping").await.unwrap();
            socket.is_bulk = is_bulk;
            assert_eq!(next(&mut socket).await.unwrap(), "ping");
            assert!(!may_have_more(&socket), "a second read would find nothing");
        }
        program.write_all(&vec![1; CHUNK]).await.unwrap();
        socket.is_bulk = false;
        let mut left = CHUNK;
        while left > 0 {
            let read = next(&mut socket).await.unwrap().len();
            left -= read;
            assert!(read < CHUNK || may_have_more(&socket), "a full buffer says nothing of what is left");
        }
    }

    #[tokio::test]
    async fn the_end_right_behind_the_bytes_is_seen() {
        for _ in 0..20 {
            let (mut program, mut socket) = connection().await;
            program.write_all(b"ping").await.unwrap();
            drop(program);
            assert_eq!(next(&mut socket).await.unwrap(), "ping");
            assert_eq!(next(&mut socket).await, None);
        }
    }

    #[test]
    fn what_was_written_is_dropped_from_the_front() {
        let all: [&'static [u8]; 3] = [b"abc", b"de", b"fgh"];
        for (written, left) in [(0, "abcdefgh"), (2, "cdefgh"), (3, "defgh"), (5, "fgh"), (6, "gh"), (8, "")]
        {
            let mut bytes: Vec<Bytes> = all.into_iter().map(Bytes::from_static).collect();
            drop_front(&mut bytes, written);
            assert_eq!(bytes.concat(), left.as_bytes());
            assert!(bytes.iter().all(|bytes| !bytes.is_empty()));
        }
    }
}
