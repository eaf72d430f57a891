//! The mark of what the proxy sends by itself, so that interception leaves it alone.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

use super::transparent::bind_tcp;

/// The mark of sockets, if they have any.
pub(crate) type Mark = Option<u32>;

/// Sets the mark of a socket.
#[cfg(target_os = "linux")]
pub(crate) fn set_mark(socket: &impl std::os::fd::AsFd, mark: Mark) -> io::Result<()> {
    mark.map_or(Ok(()), |mark| socket2::SockRef::from(socket).set_mark(mark))
}

/// Sets no mark: without interception there is none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_mark<S>(_: &S, _: Mark) -> io::Result<()> {
    Ok(())
}

/// Connects with this mark.
pub(crate) async fn connect_marked(address: SocketAddr, mark: Mark) -> io::Result<TcpStream> {
    marked(address, mark)?.connect(address).await
}

/// Connects with this mark in the name of a program, or else in ours.
pub(crate) async fn connect_as(
    source: Option<SocketAddr>,
    address: SocketAddr,
    mark: Mark,
) -> io::Result<TcpStream> {
    let socket = marked(address, mark)?;
    if let Some(source) = source {
        bind_tcp(&socket, source)?;
    }
    socket.connect(address).await
}

fn marked(address: SocketAddr, mark: Mark) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    set_mark(&socket, mark)?;
    Ok(socket)
}
