//! A UDP program of the peer at its far end: a socket for each family, from which it reaches all its remotes. So a reply
//! may come from anywhere (endpoint-independent mapping and filtering, RFC 4787 sections 4.1 and 5).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::outgoing::Outgoing;
use crate::policy::Protocol;
use crate::protocol::{Announcement, Manner, Refusal};
use crate::relay::context::SessionContext;
use crate::relay::far_socket::FarSocket;
use crate::relay::flows::RunningFlow;
use crate::relay::record::FlowRecord;
use crate::relay::speaking::speaks_as;
use crate::sockets::{bind_udp, set_mark};

/// The largest datagram of UDP.
const LARGEST: usize = 65_535;

/// A program of the peer.
#[derive(Debug)]
pub(super) struct FarProgram {
    address: SocketAddr,
    v4: Option<Arc<FarSocket>>,
    v6: Option<Arc<FarSocket>>,
    running: Arc<RunningFlow>,
    /// How its replies are sent, as its last announcement asked.
    manner: Arc<Mutex<Manner>>,
    _share: OwnedSemaphorePermit,
    /// The bytes that it had sent and received when they were last looked at, and since when it has no more.
    seen: (u64, Instant),
}

impl FarProgram {
    /// Begins a program, so far without a socket. None: there are too many, or too many flows.
    pub(super) fn begin(address: SocketAddr, context: &SessionContext) -> Option<Self> {
        let share = Arc::clone(&context.shares.udp_programs).try_acquire_owned().ok()?;
        let record = FlowRecord::new(Protocol::Udp, Arc::clone(&context.peer)).by_peer().of(Some(address));
        let running = context.flows.add(record, context.limits.max_flows)?;
        Some(Self {
            address,
            v4: None,
            v6: None,
            running: Arc::new(running),
            manner: Arc::default(),
            _share: share,
            seen: (0, Instant::now()),
        })
    }

    /// Sends a datagram of which compression has `saved` so many bytes. Replies come in this manner from now on.
    ///
    /// # Errors
    /// There is no socket for it.
    pub(super) fn send(
        &mut self,
        manner: Manner,
        to: SocketAddr,
        (payload, saved): (&[u8], usize),
        context: &SessionContext,
        outgoing: &Arc<Outgoing>,
    ) -> Result<(), Refusal> {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let socket = match socket {
            Some(socket) => socket,
            None => {
                let opened = self.open(to, context, outgoing).ok_or(Refusal::Unusable)?;
                self.of_family(to.is_ipv4()).insert(opened)
            }
        };
        socket.send(payload, to);
        self.running.record.count(0, payload.len() as u64);
        self.running.record.save(0, saved);
        Ok(())
    }

    /// Goes on with a socket of another process.
    pub(super) fn resume(&mut self, file: OwnedFd, context: &SessionContext, outgoing: &Arc<Outgoing>) {
        let socket = UdpSocket::from(file);
        let Ok(address) = socket.local_addr() else { return };
        let resumed = self.serve(socket, outgoing);
        if let Some(resumed) = resumed.as_ref().filter(|_| !address.ip().is_unspecified()) {
            context.shares.spoken.add(address, resumed);
        }
        *self.of_family(address.is_ipv4()) = resumed;
    }

    /// Returns what another process needs to have its sockets.
    pub(super) fn files(&self) -> Vec<OwnedFd> {
        let sockets = [&self.v4, &self.v6].into_iter().flatten();
        sockets.filter_map(|socket| socket.file().ok()).collect()
    }

    /// Returns whether it has sent and received nothing for so long.
    pub(super) fn is_idle(&mut self, now: Instant, limit: Duration) -> bool {
        let (to_peer, from_peer) = self.running.record.bytes();
        if to_peer + from_peer != self.seen.0 {
            self.seen = (to_peer + from_peer, now);
        }
        now.duration_since(self.seen.1) >= limit
    }

    fn of_family(&mut self, is_v4: bool) -> &mut Option<Arc<FarSocket>> {
        if is_v4 { &mut self.v4 } else { &mut self.v6 }
    }

    /// Opens a socket for a target: in the program's name, if the peer may speak for it.
    fn open(
        &self,
        to: SocketAddr,
        context: &SessionContext,
        outgoing: &Arc<Outgoing>,
    ) -> Option<Arc<FarSocket>> {
        let Some(source) = speaks_as(&context.permits(), Some(self.address), to.ip()) else {
            let any = match to.is_ipv4() {
                true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            };
            let socket = UdpSocket::bind(any).ok()?;
            set_mark(&socket, context.mark).ok()?;
            return self.serve(socket, outgoing);
        };
        let spoken = &context.shares.spoken;
        let socket = match spoken.of(source) {
            // The program has come to another session of its peer, and its replies follow it.
            Some(former) => former.leave().ok()?,
            None => bind_udp(source).ok()?,
        };
        set_mark(&socket, context.mark).ok()?;
        self.serve(socket, outgoing).inspect(|socket| spoken.add(source, socket))
    }

    fn serve(&self, socket: UdpSocket, outgoing: &Arc<Outgoing>) -> Option<Arc<FarSocket>> {
        let (program, running) = (self.address, Arc::clone(&self.running));
        let (manner, outgoing) = (Arc::clone(&self.manner), Arc::clone(outgoing));
        FarSocket::serve(socket, |socket| receive(program, socket, running, manner, outgoing)).ok()
    }
}

/// Hands what a program's socket receives to the peer, in the manner that the program's last announcement asked for.
async fn receive(
    program: SocketAddr,
    socket: Arc<tokio::net::UdpSocket>,
    running: Arc<RunningFlow>,
    manner: Arc<Mutex<Manner>>,
    outgoing: Arc<Outgoing>,
) {
    let mut buffer = vec![0; LARGEST];
    loop {
        // An error is an earlier datagram's: its remote was unreachable.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        running.record.count(length as u64, 0);
        let manner = *manner.lock().unwrap_or_else(PoisonError::into_inner);
        let said = Manner { compression: manner.compression, ..Manner::default() };
        let announcement = Announcement::to_program(program, from.into(), said);
        let saved = outgoing.send(&announcement, manner, Bytes::copy_from_slice(&buffer[..length]));
        running.record.save(saved, 0);
    }
}
