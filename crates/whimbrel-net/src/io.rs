//! Sending and receiving, for both kinds of socket.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};

/// The most bytes for one call to the kernel: a UDP length has 16 bits and includes the IPv4 and UDP headers.
const CALL_MAX: usize = 65_507;

/// A socket's state, with the capabilities that the kernel has for it.
#[derive(Debug)]
pub(crate) struct Io {
    state: UdpSocketState,
    ipv6: bool,
}

impl Io {
    pub(crate) fn new(socket: UdpSockRef<'_>, local: SocketAddr) -> io::Result<Self> {
        Ok(Self { state: UdpSocketState::new(socket)?, ipv6: local.is_ipv6() })
    }

    pub(crate) fn max_gso_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    pub(crate) fn gro_segments(&self) -> usize {
        self.state.gro_segments()
    }

    pub(crate) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Sends as much of `transmit` as the kernel accepts. Returns the number of bytes, a whole number of segments.
    pub(crate) fn send<'s>(
        &self,
        socket: impl Fn() -> UdpSockRef<'s>,
        transmit: &Transmit<'_>,
    ) -> io::Result<usize> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let mut sent = 0;
        loop {
            let segments = (CALL_MAX / segment).min(self.max_gso_segments()).max(1);
            let rest = &transmit.contents[sent..];
            let chunk = &rest[..rest.len().min(segments * segment)];
            match self.send_chunk(socket(), transmit, chunk, segment) {
                Ok(()) => sent += chunk.len(),
                // The kernel or the device cannot segment; from now on `max_gso_segments` returns 1.
                Err(_) if chunk.len() > segment && self.max_gso_segments() == 1 => continue,
                Err(_) if sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
            if sent == transmit.contents.len() {
                return Ok(sent);
            }
        }
    }

    fn send_chunk(
        &self,
        socket: UdpSockRef<'_>,
        transmit: &Transmit<'_>,
        contents: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let chunk = Transmit {
            destination: self.destination(transmit.destination),
            ecn: transmit.ecn,
            contents,
            segment_size: (contents.len() > segment).then_some(segment),
            src_ip: transmit.src_ip,
        };
        match self.state.try_send(socket, &chunk) {
            // The error is about an earlier datagram and kept this one from being sent. This one counts as sent, and
            // is lost.
            Err(error) if is_about_the_past(&error) => Ok(()),
            other => other,
        }
    }

    /// Receives into up to as many buffers as there are. A buffer may hold several datagrams, [`RecvMeta::stride`]
    /// bytes apart.
    pub(crate) fn recv<'s>(
        &self,
        socket: impl Fn() -> UdpSockRef<'s>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let count = bufs.len().min(meta.len());
        loop {
            match self.state.recv(socket(), &mut bufs[..count], &mut meta[..count]) {
                Err(error) if is_about_the_past(&error) => continue,
                Ok(received) => {
                    meta[..received].iter_mut().for_each(plain);
                    return Ok(received);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn destination(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.ipv6 => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            to => to,
        }
    }
}

fn is_about_the_past(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}

fn plain(meta: &mut RecvMeta) {
    meta.dst_ip = meta.dst_ip.map(|ip| ip.to_canonical());
    // Only IPv4 addresses are rewritten: an IPv6 address keeps its scope.
    if let ip @ IpAddr::V4(_) = meta.addr.ip().to_canonical() {
        meta.addr = SocketAddr::new(ip, meta.addr.port());
    }
}
