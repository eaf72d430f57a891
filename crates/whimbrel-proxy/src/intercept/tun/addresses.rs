//! The addresses that an instance uses for itself: its own, from which programs of this host send, and those of
//! strangers, in whose names programs reach the kernel's TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::settings::TunSettings;

/// The strangers' addresses of each family: all of a /24 but the network's own, this host's, and broadcast.
const STRANGERS: u32 = 253;
/// Their first port. Below it, ports suggest services.
const FIRST_PORT: u32 = 1_024;
const PORTS: u32 = 65_536 - FIRST_PORT;
/// The number of strangers' ends.
pub(super) const IDS: u32 = STRANGERS * PORTS;

/// The addresses of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
}

impl Addresses {
    /// Those of the instance with this number, of the 16 that share the networks of the settings.
    pub(super) fn new(settings: &TunSettings, number: u8) -> Self {
        let v4 = u32::from(settings.own_ipv4.trunc().addr()) + (u32::from(number) << 8);
        let v6 = u128::from(settings.own_ipv6.trunc().addr()) + (u128::from(number) << 64);
        Self { v4: (v4 + 1).into(), v6: (v6 + 1).into() }
    }

    /// This host's address in IPv4, and the length of the network's prefix.
    pub(super) fn own_v4(&self) -> (Ipv4Addr, u8) {
        (self.v4, 24)
    }

    /// The same in IPv6.
    pub(super) fn own_v6(&self) -> (Ipv6Addr, u8) {
        (self.v6, 64)
    }

    /// This host's address of a family.
    pub(super) fn own(&self, is_v4: bool) -> IpAddr {
        if is_v4 { self.v4.into() } else { self.v6.into() }
    }

    /// The stranger's end with this number.
    pub(super) fn stranger(&self, id: u32, is_v4: bool) -> SocketAddr {
        let (host, port) = (id % IDS / PORTS + 1, id % PORTS + FIRST_PORT);
        let ip: IpAddr = if is_v4 {
            Ipv4Addr::from(u32::from(self.v4) + host).into()
        } else {
            Ipv6Addr::from(u128::from(self.v6) + u128::from(host)).into()
        };
        SocketAddr::new(ip, port as u16)
    }

    /// The number of a stranger's end. `None`: it is another's.
    pub(super) fn id(&self, end: SocketAddr) -> Option<u32> {
        let host = match end.ip() {
            IpAddr::V4(ip) => u32::from(ip).checked_sub(u32::from(self.v4))?,
            IpAddr::V6(ip) => u128::from(ip).checked_sub(u128::from(self.v6))?.try_into().ok()?,
        };
        let port = u32::from(end.port()).checked_sub(FIRST_PORT)?;
        (1..=STRANGERS).contains(&host).then(|| (host - 1) * PORTS + port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stranger_has_a_number() {
        let addresses = Addresses::new(&TunSettings::default(), 2);
        assert_eq!(addresses.own(true).to_string(), "169.254.66.1");
        assert_eq!(addresses.own(false).to_string(), "fd57:4849:4d42:2::1");
        for is_v4 in [true, false] {
            for id in [0, 1, PORTS - 1, PORTS, IDS - 1] {
                assert_eq!(addresses.id(addresses.stranger(id, is_v4)), Some(id));
            }
            assert_eq!(addresses.id(SocketAddr::new(addresses.own(is_v4), 2_000)), None);
        }
        assert_eq!(addresses.stranger(IDS - 1, true).to_string(), "169.254.66.254:65535");
        for other in ["169.254.66.255:2000", "169.254.66.2:1023", "169.254.65.2:2000", "[::1]:2000"] {
            assert_eq!(addresses.id(other.parse().unwrap()), None, "{other}");
        }
    }
}
