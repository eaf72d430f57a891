//! Speaking for programs of a peer: sockets with their addresses, which are not this host's (IP_TRANSPARENT).

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use socket2::SockRef;
use tokio::net::TcpSocket;

use super::session::SessionContext;
use super::udp::FarSocket;

/// The sockets for datagrams in the names of a peer's programs. A program has one, whichever of the peer's sessions it uses.
#[derive(Debug, Default)]
pub(super) struct Spoken(Mutex<HashMap<SocketAddr, Weak<FarSocket>>>);

impl Spoken {
    /// Returns the socket of a program, if there is one.
    pub(super) fn of(&self, program: SocketAddr) -> Option<Arc<FarSocket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&program)?.upgrade()
    }

    /// Remembers the socket of a program.
    pub(super) fn add(&self, program: SocketAddr, socket: &Arc<FarSocket>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // No more than a peer's programs are left.
        all.retain(|_, socket| socket.strong_count() > 0);
        all.insert(program, Arc::downgrade(socket));
    }
}

impl SessionContext {
    /// Returns the address in whose name this end speaks for a program to a target. None: in its own.
    pub(super) fn speaks_as(&self, program: Option<SocketAddr>, target: IpAddr) -> Option<SocketAddr> {
        let program = program.map(|program| SocketAddr::new(program.ip().to_canonical(), program.port()))?;
        let ip = program.ip();
        let may = ip.is_ipv4() == target.is_ipv4() && self.permits().speaks_for(ip);
        // Nobody else speaks for this host.
        (may && !is_own(ip)).then_some(program)
    }
}

/// Whether an address is this host's. One that cannot be told is.
fn is_own(ip: IpAddr) -> bool {
    whimbrel_net::host_addresses().map_or(true, |own| own.iter().any(|own| own.ip == ip))
}

/// Checks that this process may speak for others.
///
/// # Errors
/// It has no right to.
pub(crate) fn may_speak() -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    set_transparent(&SockRef::from(&socket), true)
}

/// Gives a TCP socket the address of a program. Several programs' connections may have one, to different targets.
pub(super) fn bind_tcp(socket: &TcpSocket, source: SocketAddr) -> io::Result<()> {
    set_transparent(&SockRef::from(socket), source.is_ipv4())?;
    socket.set_reuseaddr(true)?;
    socket.bind(source)
}

/// Opens a socket for datagrams with the address of a program.
pub(super) fn bind_udp(source: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(source), socket2::Type::DGRAM, None)?;
    set_transparent(&SockRef::from(&socket), source.is_ipv4())?;
    // No other peer's: the port would be taken.
    socket.bind(&source.into())?;
    Ok(socket.into())
}

#[cfg(target_os = "linux")]
fn set_transparent(socket: &SockRef<'_>, is_v4: bool) -> io::Result<()> {
    match is_v4 {
        true => socket.set_ip_transparent_v4(true),
        false => socket.set_ip_transparent_v6(true),
    }
}

/// Other systems have no such sockets.
#[cfg(not(target_os = "linux"))]
fn set_transparent(_: &SockRef<'_>, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
