//! Opening a UDP socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// The options with which a socket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketOptions {
    /// Kernel memory for datagrams not yet received, in bytes. Default: 4 MiB. Smaller: datagrams are lost when the
    /// program is delayed for a moment. Larger: it hides that the program cannot keep up. The kernel silently limits
    /// it to `net.core.rmem_max`; ask the socket for the size granted.
    pub recv_buffer: usize,
    /// Kernel memory for datagrams not yet sent, in bytes. Default: 4 MiB, limited by `net.core.wmem_max`.
    pub send_buffer: usize,
    /// Whether an IPv6 wildcard socket accepts IPv4 too. Default: true.
    pub dual_stack: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { recv_buffer: 4 << 20, send_buffer: 4 << 20, dual_stack: true }
    }
}

impl SocketOptions {
    /// Opens a non-blocking socket bound to `addr`. With `dual_stack`, `[::]` becomes `0.0.0.0` on a machine without
    /// IPv6.
    ///
    /// # Errors
    /// The address is in use, not one of this machine, or not permitted.
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

    /// Opens a socket like [`SocketOptions::open`], for traffic over one device only, whatever the routes say.
    /// Packets that arrive by another device are not received. Where the system does not support or permit this, the
    /// address alone decides.
    ///
    /// # Errors
    /// See [`SocketOptions::open`].
    pub fn open_on(&self, addr: SocketAddr, device: &str) -> io::Result<UdpSocket> {
        let socket = self.open_exactly(addr)?;
        #[cfg(target_os = "linux")]
        match socket2::SockRef::from(&socket).bind_device(Some(device.as_bytes())) {
            // Linux before 5.7 requires CAP_NET_RAW.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        #[cfg(not(target_os = "linux"))]
        let _ = device;
        Ok(socket)
    }

    fn open_exactly(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        self.open_sharing(addr, |_| Ok(()))
    }

    /// Opens one more socket on the address of a bound one, which must allow that.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_beside(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        self.open_sharing(addr, |socket| socket.set_reuse_port(true))
    }

    fn open_sharing(
        &self,
        addr: SocketAddr,
        prepare: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(!self.dual_stack)?;
        }
        socket.set_nonblocking(true)?;
        socket.set_recv_buffer_size(self.recv_buffer)?;
        socket.set_send_buffer_size(self.send_buffer)?;
        prepare(&socket)?;
        socket.bind(&addr.into())?;
        Ok(socket.into())
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}
