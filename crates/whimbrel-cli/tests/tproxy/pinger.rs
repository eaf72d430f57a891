//! A program that pings, for tests of interception.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::networks::Net;

/// An answer that a program hears: from whom, kind and code,
/// and what it repeats of the request (with its identifier), or the data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) from: String,
    pub(crate) kind: (u8, u8),
    pub(crate) rest: Vec<u8>,
}

/// A program that pings.
pub(crate) struct Pinger {
    socket: UdpSocket,
    is_v4: bool,
}

impl Pinger {
    #[allow(unsafe_code, reason = "the standard library has no raw sockets")]
    pub(crate) fn new(net: &Net, is_v4: bool) -> Self {
        let (family, protocol) =
            if is_v4 { (libc::AF_INET, libc::IPPROTO_ICMP) } else { (libc::AF_INET6, libc::IPPROTO_ICMPV6) };
        let socket = net.run(|| {
            // SAFETY: it only makes a descriptor, which is nobody else's.
            let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            // SAFETY: see above.
            UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        Self { socket, is_v4 }
    }

    pub(crate) fn send(&self, target: &str, id: u16, sequence: u16, data: &[u8]) {
        let kind = if self.is_v4 { 8 } else { 128 };
        let ([a, b], [c, d]) = (id.to_be_bytes(), sequence.to_be_bytes());
        let mut packet = [&[kind, 0, 0, 0, a, b, c, d], data].concat();
        // The kernel sums up those of IPv6.
        let mut sum: u32 = packet
            .chunks(2)
            .map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |low| u32::from(*low)))
            .sum();
        while self.is_v4 && sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        if self.is_v4 {
            packet[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        let target: IpAddr = target.parse().unwrap();
        self.socket.send_to(&packet, SocketAddr::new(target, 0)).unwrap();
    }

    /// Waits for the next answer to this request.
    pub(crate) fn hear(&self, id: u16, sequence: u16, patience: Duration) -> Option<Heard> {
        let (end, mut buffer) = (Instant::now() + patience, [0; 4_096]);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.socket.set_read_timeout(Some(left)).unwrap();
            let Ok((length, from)) = self.socket.recv_from(&mut buffer) else { continue };
            let packet = &buffer[if self.is_v4 { 20 } else { 0 }..length];
            let (kind, rest) = ((packet[0], packet[1]), &packet[4..]);
            let is_reply = matches!((self.is_v4, kind.0), (true, 0) | (false, 129));
            let (named, rest) = match kind.0 {
                _ if is_reply => (&rest[..4], &rest[4..]),
                3 | 11 if self.is_v4 => (&rest[28..32], &rest[28..]),
                1 if !self.is_v4 => (&rest[48..52], &rest[48..]),
                _ => continue,
            };
            if named == [id.to_be_bytes(), sequence.to_be_bytes()].concat() {
                return Some(Heard { from: from.ip().to_string(), kind, rest: rest.to_vec() });
            }
        }
    }

    /// Asks until there is an answer: a session that is just beginning loses datagrams.
    pub(crate) fn ask(&self, target: &str, id: u16) -> Heard {
        let again = |sequence| {
            self.send(target, id, sequence, b"some data");
            self.hear(id, sequence, Duration::from_secs(2))
        };
        (1..20).find_map(again).unwrap_or_else(|| panic!("{target} does not answer"))
    }
}
