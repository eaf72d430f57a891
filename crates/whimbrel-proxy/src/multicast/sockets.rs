//! Sockets for groups.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use nix::libc;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::links::LocalLink;
use crate::sockets::{Mark, set_mark};

/// Memory for datagrams that wait to be read.
const BUFFER: usize = 1 << 20;

fn socket(is_v4: bool) -> io::Result<Socket> {
    let domain = if is_v4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if !is_v4 {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Opens a socket that hears a group on a link. It hears nothing else.
pub(super) fn join(group: SocketAddr, link: &LocalLink) -> io::Result<UdpSocket> {
    let socket = socket(group.is_ipv4())?;
    // Other programs may hear it, too.
    socket.set_reuse_address(true)?;
    socket.set_recv_buffer_size(BUFFER)?;
    match group.ip() {
        IpAddr::V4(ip) => {
            all_groups(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL)?;
            socket.join_multicast_v4_n(&ip, &InterfaceIndexOrAddress::Index(link.index))?;
        }
        IpAddr::V6(ip) => {
            all_groups(&socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL)?;
            socket.join_multicast_v6(&ip, link.index)?;
        }
    }
    socket.bind(&scoped(group, link).into())?;
    Ok(socket.into())
}

/// Has a socket hear only groups that it has joined itself.
#[allow(unsafe_code, reason = "no safe crate of ours has this option")]
fn all_groups(socket: &Socket, level: i32, option: i32) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let off: libc::c_int = 0;
    let length = size_of_val(&off) as libc::socklen_t;
    // SAFETY: the value is an integer of this length, and lives until the call is over.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const off).cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens a socket that sends to groups on a link: in the name of `source`, or in ours.
pub(super) fn sender(
    source: Option<SocketAddr>,
    is_v4: bool,
    link: &LocalLink,
    ttl: u8,
    mark: Mark,
) -> io::Result<UdpSocket> {
    let socket = socket(is_v4)?;
    set_mark(&socket, mark)?;
    // It is for sending only.
    socket.set_recv_buffer_size(0)?;
    if is_v4 {
        let here = link.ipv4().ok_or(io::ErrorKind::AddrNotAvailable)?;
        socket.set_multicast_if_v4(&here)?;
        socket.set_multicast_ttl_v4(ttl.into())?;
        socket.set_ip_transparent_v4(source.is_some())?;
    } else {
        socket.set_multicast_if_v6(link.index)?;
        socket.set_multicast_hops_v6(ttl.into())?;
        socket.set_ip_transparent_v6(source.is_some())?;
    }
    if source.is_some() {
        socket.set_reuse_address(true)?;
    }
    let any: IpAddr = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&source.unwrap_or(SocketAddr::new(any, 0)).into())?;
    Ok(socket.into())
}

/// The address of a group on a link.
pub(super) fn scoped(group: SocketAddr, link: &LocalLink) -> SocketAddr {
    match group {
        SocketAddr::V4(_) => group,
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, link.index).into(),
    }
}
