//! The ports at which this proxy itself listens. A peer that reached them would open flows within its flows: a loop, or a
//! session within its own session.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{PoisonError, RwLock};

use crate::policy::Protocol;

/// The ports at which this proxy listens.
#[derive(Debug, Default)]
pub(crate) struct OwnPorts(RwLock<BTreeSet<(Protocol, SocketAddr)>>);

impl OwnPorts {
    /// Adds a port.
    pub(crate) fn add(&self, protocol: Protocol, address: SocketAddr) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert((protocol, plain(address)));
    }

    /// Returns whether somebody who sends there reaches this proxy.
    pub(crate) fn has(&self, protocol: Protocol, target: SocketAddr) -> bool {
        let (all, target) = (self.0.read().unwrap_or_else(PoisonError::into_inner), plain(target));
        let at_this_port = |own: &&(Protocol, SocketAddr)| own.0 == protocol && own.1.port() == target.port();
        let reaches = |(_, own): &(Protocol, SocketAddr)| match own.ip() {
            ip if ip.is_unspecified() => is_ours(target.ip()),
            ip => ip == target.ip(),
        };
        all.iter().filter(at_this_port).any(reaches)
    }
}

fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether an address is of this host: only then can a socket have it.
fn is_ours(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_ours_at_our_addresses() {
        let own = OwnPorts::default();
        own.add(Protocol::Tcp, "127.0.0.1:1080".parse().unwrap());
        own.add(Protocol::Udp, "[::]:4433".parse().unwrap());
        for (protocol, target, is_own) in [
            (Protocol::Tcp, "127.0.0.1:1080", true),
            (Protocol::Tcp, "[::ffff:127.0.0.1]:1080", true),
            (Protocol::Tcp, "127.0.0.2:1080", false),
            (Protocol::Udp, "127.0.0.1:1080", false),
            (Protocol::Udp, "127.0.0.1:4433", true),
            (Protocol::Udp, "192.0.2.1:4433", false),
            (Protocol::Udp, "127.0.0.1:4434", false),
        ] {
            assert_eq!(own.has(protocol, target.parse().unwrap()), is_own, "{protocol:?} {target}");
        }
    }
}
