//! Opening a UDP socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// How to open a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Kernel memory for datagrams not yet received, bytes. Default 4 MiB. Smaller loses datagrams when the
    /// program is held up for a moment; larger hides that it cannot keep up. The kernel grants what its own limit
    /// (`net.core.rmem_max`) allows, without an error: ask the socket for what it got.
    pub recv_buffer: usize,
    /// Kernel memory for datagrams not yet sent, bytes. Default 4 MiB, limited by `net.core.wmem_max`.
    pub send_buffer: usize,
    /// An IPv6 wildcard takes IPv4 too. Default true.
    pub dual_stack: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { recv_buffer: 4 << 20, send_buffer: 4 << 20, dual_stack: true }
    }
}

impl SocketOptions {
    /// A non-blocking socket bound to `addr`. `[::]` becomes `0.0.0.0` on a machine without IPv6, if dual stack.
    ///
    /// # Errors
    /// The address is taken, not this machine's, or not permitted.
    pub fn open(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        match self.open_exactly(addr) {
            Err(error)
                if self.dual_stack && addr.is_ipv6() && addr.ip().is_unspecified() && no_ipv6(&error) =>
            {
                self.open_exactly((Ipv4Addr::UNSPECIFIED, addr.port()).into())
            }
            other => other,
        }
    }

    /// As [`SocketOptions::open`], for traffic over one device only, whatever the routes say: what comes by another is not received. Where
    /// the system has no such thing or does not permit it, the address alone decides.
    ///
    /// # Errors
    /// As [`SocketOptions::open`].
    pub fn open_on(&self, addr: SocketAddr, device: &str) -> io::Result<UdpSocket> {
        let socket = self.open_exactly(addr)?;
        #[cfg(target_os = "linux")]
        match socket2::SockRef::from(&socket).bind_device(Some(device.as_bytes())) {
            // Linux before 5.7 wants CAP_NET_RAW.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        #[cfg(not(target_os = "linux"))]
        let _ = device;
        Ok(socket)
    }

    fn open_exactly(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(!self.dual_stack)?;
        }
        socket.set_nonblocking(true)?;
        socket.set_recv_buffer_size(self.recv_buffer)?;
        socket.set_send_buffer_size(self.send_buffer)?;
        socket.bind(&addr.into())?;
        Ok(socket.into())
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}
