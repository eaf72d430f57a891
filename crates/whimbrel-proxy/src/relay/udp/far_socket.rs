//! A socket that sends a program's datagrams at the far end, and hands what it receives to the peer.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::outgoing::Outgoing;
use crate::protocol::{Announcement, Manner};
use crate::relay::mark::set_mark;
use crate::relay::record::Running;
use crate::relay::session::SessionContext;
use crate::relay::speaking::bind_udp;

/// The largest datagram of UDP.
const LARGEST: usize = 65_535;

/// A socket of a program.
#[derive(Debug)]
pub(in crate::relay) struct FarSocket {
    socket: Arc<UdpSocket>,
    receiving: AbortHandle,
}

impl Drop for FarSocket {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

impl FarSocket {
    /// Opens a socket for a program that sends to a target: in its name, if the peer may speak for it.
    pub(super) fn open(
        program: SocketAddr,
        to: SocketAddr,
        context: &SessionContext,
        replies: Replies,
    ) -> Option<Arc<Self>> {
        let Some(source) = context.speaks_as(Some(program), to.ip()) else {
            let any = match to.is_ipv4() {
                true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            };
            let socket = std::net::UdpSocket::bind(any).ok()?;
            set_mark(&socket, context.mark).ok()?;
            return Self::serve(program, socket, replies);
        };
        let spoken = &context.shares.spoken;
        let socket = match spoken.of(source) {
            // The program has come to another session of its peer, and its replies follow it.
            Some(former) => {
                former.receiving.abort();
                std::net::UdpSocket::from(former.file().ok()?)
            }
            None => bind_udp(source).ok()?,
        };
        set_mark(&socket, context.mark).ok()?;
        Self::serve(program, socket, replies).inspect(|socket| spoken.add(source, socket))
    }

    /// Goes on with a socket of another process.
    pub(super) fn resume(
        program: SocketAddr,
        socket: std::net::UdpSocket,
        context: &SessionContext,
        replies: Replies,
    ) -> Option<Arc<Self>> {
        let address = socket.local_addr().ok()?;
        let resumed = Self::serve(program, socket, replies)?;
        if !address.ip().is_unspecified() {
            context.shares.spoken.add(address, &resumed);
        }
        Some(resumed)
    }

    /// Hands what a socket receives to the peer.
    fn serve(program: SocketAddr, socket: std::net::UdpSocket, replies: Replies) -> Option<Arc<Self>> {
        socket.set_nonblocking(true).ok()?;
        let socket = Arc::new(UdpSocket::from_std(socket).ok()?);
        let receiving = tokio::spawn(replies.receive(program, Arc::clone(&socket))).abort_handle();
        Some(Arc::new(Self { socket, receiving }))
    }

    /// Sends a datagram. A full buffer loses it, and so does a remote that is unreachable.
    pub(super) fn send(&self, payload: &[u8], to: SocketAddr) {
        SockRef::from(&*self.socket).send_to(payload, &to.into()).ok();
    }

    /// Returns what another process needs to have it.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }
}

/// Where the datagrams go that a program's socket receives.
pub(super) struct Replies {
    running: Arc<Running>,
    manner: Arc<Mutex<Manner>>,
    outgoing: Arc<Outgoing>,
}

impl Replies {
    /// They go to the peer, in the manner that its program's last announcement asked for.
    pub(super) fn new(running: Arc<Running>, manner: Arc<Mutex<Manner>>, outgoing: Arc<Outgoing>) -> Self {
        Self { running, manner, outgoing }
    }

    async fn receive(self, program: SocketAddr, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; LARGEST];
        loop {
            // An error is an earlier datagram's: its remote was unreachable.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            self.running.record.count(length as u64, 0);
            let manner = *self.manner.lock().unwrap_or_else(PoisonError::into_inner);
            let said = Manner { compression: manner.compression, ..Manner::default() };
            let announcement = Announcement::to_program(program, from.into(), said);
            let saved = self.outgoing.send(&announcement, manner, Bytes::copy_from_slice(&buffer[..length]));
            self.running.record.save(saved, 0);
        }
    }
}
