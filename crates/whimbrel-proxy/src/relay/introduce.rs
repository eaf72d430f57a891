//! The PROXY protocol, version 2: a service learns in front of the first byte whose connection it is.

use std::net::{IpAddr, SocketAddr};

/// The beginning of each header.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, for a connection of the proxy itself, and for one of somebody else.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// TCP over each family.
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;

/// Returns the header for a connection of `source` to `target`. Nothing is said of a source that is not known.
pub(super) fn header(source: Option<SocketAddr>, target: SocketAddr) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let Some(source) = source else {
        header.extend([LOCAL, 0, 0, 0]);
        return header;
    };
    let (from, to) = (source.ip().to_canonical(), target.ip().to_canonical());
    let (family, addresses) = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (TCP_V4, [from.octets(), to.octets()].concat()),
        (from, to) => (TCP_V6, [octets(from), octets(to)].concat()),
    };
    let ports = [source.port().to_be_bytes(), target.port().to_be_bytes()].concat();
    header.extend([PROXY, family]);
    header.extend(((addresses.len() + ports.len()) as u16).to_be_bytes());
    header.extend(addresses);
    header.extend(ports);
    header
}

/// An address as one of IPv6: both have to be of one family.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str, target: &str) -> Vec<u8> {
        let header = header(Some(source.parse().unwrap()), target.parse().unwrap());
        assert_eq!(header[..12], *SIGNATURE);
        header[12..].to_vec()
    }

    #[test]
    fn headers_are_as_the_specification_has_them() {
        let v4 = [0x21, 0x11, 0, 12, 10, 1, 2, 3, 192, 0, 2, 7, 0x9c, 0x40, 1, 187];
        assert_eq!(of("10.1.2.3:40000", "192.0.2.7:443"), v4);
        assert_eq!(of("[::ffff:10.1.2.3]:40000", "192.0.2.7:443"), v4);
        let v6 = of("[2001:db8::1]:1", "[2001:db8::2]:2");
        assert_eq!((&v6[..4], v6.len()), (&[0x21, 0x21, 0, 36][..], 40));
        let mixed = of("10.1.2.3:1", "[2001:db8::2]:2");
        assert_eq!(mixed[4..20], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3]);
        assert_eq!(header(None, "192.0.2.7:443".parse().unwrap())[12..], [0x20, 0, 0, 0]);
    }
}
