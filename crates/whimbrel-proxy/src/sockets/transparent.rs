//! Sockets with addresses that are not this host's (IP_TRANSPARENT), to speak for programs of others.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpSocket;

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
pub(crate) fn bind_udp(source: SocketAddr) -> io::Result<std::net::UdpSocket> {
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
