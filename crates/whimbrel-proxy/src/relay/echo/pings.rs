//! The sockets that send echo requests for a peer, one for each family: raw ones where the process may have them
//! (CAP_NET_RAW), else ping sockets, which a system may let everybody have (`net.ipv4.ping_group_range`).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::asked::{Asked, EchoRequest};
use super::packet::{self, EchoAnswer};
use crate::protocol::{Announcement, Echo, EchoError, EchoId, Manner, Refusal};
use crate::relay::context::SessionContext;
use crate::relay::udp::outgoing::Outgoing;
use crate::sockets::set_mark;

/// The longest data of a request: with its headers, what a common link carries.
const LONGEST: usize = 1_452;
/// The largest packet that is received. Replies are as long as their requests.
const LARGEST: usize = 2_048;

/// The requests of a session's peer.
#[derive(Debug)]
pub(in crate::relay) struct Pings {
    context: Arc<SessionContext>,
    back: Arc<EchoReplies>,
    v4: Option<Pinger>,
    v6: Option<Pinger>,
    /// Whether it was said that there is no socket.
    is_said: bool,
}

#[derive(Debug)]
struct EchoReplies {
    asked: Mutex<Asked>,
    outgoing: Arc<Outgoing>,
}

/// A socket.
#[derive(Debug)]
struct Pinger {
    socket: Arc<UdpSocket>,
    id: u16,
    receiving: AbortHandle,
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

impl Pings {
    pub(in crate::relay) fn new(context: Arc<SessionContext>, outgoing: Arc<Outgoing>) -> Self {
        let back = Arc::new(EchoReplies { asked: Mutex::default(), outgoing });
        Self { context, back, v4: None, v6: None, is_said: false }
    }

    /// Sends a request to a target that the peer may reach. What is too often, too long or unreadable is lost.
    pub(in crate::relay) fn send(
        &mut self,
        program: SocketAddr,
        target: IpAddr,
        manner: Manner,
        message: Bytes,
    ) -> Result<(), Refusal> {
        let Ok(Echo::Request(id, hops, data)) = Echo::from_bytes(message) else { return Ok(()) };
        // This end is a router on the way.
        if data.len() > LONGEST || hops <= 1 || !self.context.shares.may_ping() {
            return Ok(());
        }
        let (is_v4, now) = (target.is_ipv4(), Instant::now());
        let pinger = if is_v4 { &mut self.v4 } else { &mut self.v6 };
        let pinger = match pinger {
            Some(pinger) => pinger,
            None => match Pinger::open(is_v4, &self.context, &self.back) {
                Ok(opened) => pinger.insert(opened),
                Err(error) => return Err(self.unusable(&error)),
            },
        };
        let request = EchoRequest { program, target, id, manner };
        let Some(number) = self.back.lock().ask(request, now) else { return Ok(()) };
        let packet = packet::request(is_v4, pinger.id, number, &data);
        if let Err(error) = pinger.send(&packet, target, hops - 1)
            && let Some(what) = unreachable(&error)
        {
            self.back.error(number, target, what, target);
        }
        Ok(())
    }

    /// Says once what is missing.
    fn unusable(&mut self, error: &io::Error) -> Refusal {
        if !std::mem::replace(&mut self.is_said, true) {
            let why = format!("no socket for ICMP echo (CAP_NET_RAW, or net.ipv4.ping_group_range): {error}");
            self.context.note("echo refused", serde_json::json!({ "why": why }));
        }
        Refusal::Unusable
    }

    /// Forgets requests that nobody answers.
    pub(in crate::relay) fn sweep(&self) {
        self.back.lock().expire(Instant::now());
    }
}

fn unreachable(error: &io::Error) -> Option<EchoError> {
    match error.kind() {
        ErrorKind::HostUnreachable => Some(EchoError::Host),
        ErrorKind::NetworkUnreachable => Some(EchoError::Network),
        _ => None,
    }
}

impl Pinger {
    fn open(is_v4: bool, context: &SessionContext, back: &Arc<EchoReplies>) -> io::Result<Self> {
        let (socket, id) = open(is_v4)?;
        set_mark(&socket, context.mark)?;
        socket.set_nonblocking(true)?;
        // Both kinds are read and written as UDP's sockets are.
        let socket = std::net::UdpSocket::from(OwnedFd::from(socket));
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let receiving = Arc::clone(back).receive(Arc::clone(&socket), is_v4, id);
        let receiving = tokio::spawn(receiving).abort_handle();
        Ok(Self { socket, id, receiving })
    }

    fn send(&self, packet: &[u8], target: IpAddr, hops: u8) -> io::Result<()> {
        let socket = SockRef::from(&*self.socket);
        match target {
            IpAddr::V4(_) => socket.set_ttl_v4(hops.into())?,
            IpAddr::V6(_) => socket.set_unicast_hops_v6(hops.into())?,
        }
        let to = SocketAddr::new(target, 0).into();
        match socket.send_to(packet, &to) {
            // The error of an earlier request.
            Err(_) => socket.send_to(packet, &to).map(drop),
            Ok(_) => Ok(()),
        }
    }
}

/// Opens a socket. Returns its identifier, too.
fn open(is_v4: bool) -> io::Result<(Socket, u16)> {
    let (domain, protocol) =
        if is_v4 { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
    if let Ok(socket) = Socket::new(domain, Type::RAW, Some(protocol)) {
        let mut id = [0; 2];
        aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::from(ErrorKind::Other))?;
        return Ok((socket, u16::from_be_bytes(id)));
    }
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    let any: IpAddr = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel chooses the identifier, and hands over replies to that alone.
    socket.bind(&SocketAddr::new(any, 0).into())?;
    let id = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
    Ok((socket, id))
}

impl EchoReplies {
    async fn receive(self: Arc<Self>, socket: Arc<UdpSocket>, is_v4: bool, id: u16) {
        let mut buffer = vec![0; LARGEST];
        loop {
            // An error is an earlier request's.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            let Some(back) = packet::read(is_v4, &buffer[..length]).filter(|back| back.id == id) else {
                continue;
            };
            match back.what {
                EchoAnswer::Reply(data) => {
                    let request = self.lock().answer(back.number, from.ip(), Instant::now());
                    if let Some(request) = request {
                        let data = Bytes::copy_from_slice(data);
                        self.tell(&request, |id| Echo::Reply(id, data));
                    }
                }
                EchoAnswer::Error(what, target) => self.error(back.number, target, what, from.ip()),
            }
        }
    }

    fn error(&self, number: u16, target: IpAddr, what: EchoError, from: IpAddr) {
        let request = self.lock().answer(number, target, Instant::now());
        if let Some(request) = request {
            self.tell(&request, |id| Echo::Error(id, what, from));
        }
    }

    fn tell(&self, request: &EchoRequest, message: impl FnOnce(EchoId) -> Echo) {
        let said = Manner { compression: request.manner.compression, ..Manner::default() };
        let remote = SocketAddr::new(request.target, 0).into();
        let announcement = Announcement::to_program(request.program, remote, said);
        self.outgoing.send(&announcement, request.manner, message(request.id).to_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
