//! Transparent sockets: they stand for addresses that this host does not have.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg,
    sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::policy::Dscp;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1_024;
/// Memory for datagrams that wait to be read.
const BUFFER: usize = 4 << 20;

fn transparent(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        socket.set_ip_transparent_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Opens the socket to which the kernel hands TCP connections of others.
pub(super) fn tcp_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = transparent(address, Type::STREAM, Protocol::TCP)?;
    // Connections of an earlier proxy may still be closing.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Opens the socket to which the kernel hands datagrams of others.
pub(super) fn udp_listener(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = transparent(address, Type::DGRAM, Protocol::UDP)?;
    socket.set_recv_buffer_size(BUFFER)?;
    if address.is_ipv4() {
        socket.set_recv_tos_v4(true)?;
        setsockopt(&socket, sockopt::Ipv4OrigDstAddr, &true)?;
    } else {
        socket.set_recv_tclass_v6(true)?;
        setsockopt(&socket, sockopt::Ipv6OrigDstAddr, &true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Opens a socket that sends in the name of `address`, or of all addresses with its port.
pub(super) fn reply_socket(address: SocketAddr, mark: u32) -> io::Result<UdpSocket> {
    let socket = transparent(address, Type::DGRAM, Protocol::UDP)?;
    socket.set_mark(mark)?;
    // It is for sending only.
    socket.set_recv_buffer_size(0)?;
    // An address of this host is left to this host's programs, unless they share it.
    socket.set_reuse_address(!address.ip().is_unspecified())?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A datagram that was received: its length, its source, where it was sent to, and its DSCP.
pub(super) type Received = (usize, SocketAddr, SocketAddr, Option<Dscp>);

/// Receives a datagram.
pub(super) fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = nix::cmsg_space!(libc::sockaddr_in6, i32);
    let mut slices = [IoSliceMut::new(buffer)];
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::empty())?;
    let source = received.address.as_ref().and_then(plain);
    let target = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4OrigDstAddr(address) => {
            Some(SocketAddr::V4(SocketAddrV4::from(SockaddrIn::from(address))))
        }
        ControlMessageOwned::Ipv6OrigDstAddr(address) => {
            Some(SocketAddr::V6(SocketAddrV6::from(SockaddrIn6::from(address))))
        }
        _ => None,
    });
    let dscp = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(class) => Some(Dscp::of_traffic_class(class)),
        ControlMessageOwned::Ipv6TClass(class) => u8::try_from(class).ok().map(Dscp::of_traffic_class),
        _ => None,
    });
    match (source, target) {
        (Some(source), Some(target)) => Ok((received.bytes, source, target, dscp)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn plain(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

/// Sends a datagram in the name of `source`, whose port the socket has.
pub(super) fn send_from(
    socket: &impl AsRawFd,
    payload: &[u8],
    source: IpAddr,
    to: SocketAddr,
) -> io::Result<usize> {
    let to = SockaddrStorage::from(to);
    let send = |message: ControlMessage<'_>| {
        let (slices, messages) = ([IoSlice::new(payload)], [message]);
        Ok(sendmsg(socket.as_raw_fd(), &slices, &messages, MsgFlags::MSG_DONTWAIT, Some(&to))?)
    };
    match source {
        IpAddr::V4(source) => {
            let address = libc::in_addr { s_addr: u32::from(source).to_be() };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
            send(ControlMessage::Ipv4PacketInfo(&info))
        }
        IpAddr::V6(source) => {
            let address = libc::in6_addr { s6_addr: source.octets() };
            send(ControlMessage::Ipv6PacketInfo(&libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 }))
        }
    }
}
