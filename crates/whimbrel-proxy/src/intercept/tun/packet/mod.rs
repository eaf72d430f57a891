//! IP packets: where their parts are, and new addresses for TCP segments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::checksum::Sum;

/// Numbers of protocols (RFC 9293, RFC 768).
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// Those of ICMP in each family (RFC 792, RFC 4443).
pub(super) const ICMP: [u8; 2] = [1, 58];
/// Extension headers of IPv6 (RFC 8200 section 4).
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const OPTIONS: u8 = 60;
/// The most extension headers that are looked behind.
const MOST_EXTENSIONS: usize = 4;

const V4_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
/// The shortest headers.
const SHORTEST_TCP: usize = 20;

/// Where the parts of a packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// The protocol of the payload.
    pub(super) protocol: u8,
    /// Where the payload begins and ends.
    pub(super) payload: usize,
    pub(super) end: usize,
    pub(super) fragment: Option<Fragment>,
}

/// The part of a datagram that a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) id: u32,
    /// In bytes.
    pub(super) offset: usize,
    pub(super) is_last: bool,
}

/// Both ends of a segment or datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

impl Head {
    /// Parses the head of a packet. `None`: it is broken, or goes by ways of its own (routing headers).
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<20>()?;
        let payload = usize::from(header[0] & 0xf) * 4;
        let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if payload < 20 || end < payload || packet.len() < end {
            return None;
        }
        let flags = u16::from_be_bytes([header[6], header[7]]);
        let (more, offset) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        Some(Self {
            source: address(&header[12..16])?,
            destination: address(&header[16..20])?,
            protocol: header[9],
            payload,
            end,
            fragment: (more || offset > 0).then_some(Fragment { id, offset, is_last: !more }),
        })
    }

    fn parse_v6(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<40>()?;
        let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if packet.len() < end {
            return None;
        }
        let (mut protocol, mut payload, mut fragment) = (header[6], 40, None);
        for _ in 0..MOST_EXTENSIONS {
            if fragment.is_some() || !matches!(protocol, HOP_BY_HOP | OPTIONS | FRAGMENT) {
                break;
            }
            let extension = packet.get(payload..end)?.first_chunk::<8>()?;
            let length = if protocol == FRAGMENT { 8 } else { (usize::from(extension[1]) + 1) * 8 };
            if protocol == FRAGMENT {
                let place = u16::from_be_bytes([extension[2], extension[3]]);
                let id = u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]);
                fragment = Some(Fragment { id, offset: usize::from(place & !7), is_last: place & 1 == 0 });
            }
            (protocol, payload) = (extension[0], payload + length);
        }
        if payload > end {
            return None;
        }
        // One that is a fragment only by its header is whole (RFC 6946).
        let fragment = fragment.filter(|part| part.offset > 0 || !part.is_last);
        let (source, destination) = (address(&header[8..24])?, address(&header[24..40])?);
        Some(Self { source, destination, protocol, payload, end, fragment })
    }

    /// Returns both ends of a whole TCP segment. `None`: it is none, or broken.
    pub(super) fn tcp(&self, packet: &[u8]) -> Option<Ends> {
        let is_tcp = self.protocol == TCP && self.fragment.is_none();
        (is_tcp && self.end - self.payload >= SHORTEST_TCP).then(|| self.ends(packet))?
    }

    /// Returns both ends by the ports in front of the payload.
    pub(super) fn ends(&self, packet: &[u8]) -> Option<Ends> {
        let [a, b, c, d] = *packet.get(self.payload..self.end)?.first_chunk::<4>()?;
        Some(Ends {
            source: SocketAddr::new(self.source, u16::from_be_bytes([a, b])),
            destination: SocketAddr::new(self.destination, u16::from_be_bytes([c, d])),
        })
    }

    /// Returns whether the checksum of the payload, with the pseudo-header, is right.
    pub(super) fn is_intact(&self, payload: &[u8]) -> bool {
        pseudo(self.source, self.destination, self.protocol, payload.len()).add(payload).fold() == 0xffff
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|v4| Ipv4Addr::from(v4).into());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|v6| Ipv6Addr::from(v6).into())).ok()
}

/// The sum of a pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub(super) fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> Sum {
    let sum = [source, destination].into_iter().fold(Sum::default(), |sum, ip| match ip {
        IpAddr::V4(ip) => sum.add(&ip.octets()),
        IpAddr::V6(ip) => sum.add(&ip.octets()),
    });
    sum.plus(u16::from(protocol)).add(&(length as u32).to_be_bytes())
}

/// Gives a TCP segment new ends, in place. `is_partial`: its checksum is that of the pseudo-header, in which there are no
/// ports, and is not complemented. Returns false, and changes nothing, if the ends are of another family.
pub(super) fn readdress(packet: &mut [u8], head: &Head, to: Ends, is_partial: bool) -> bool {
    let is_v4 = head.source.is_ipv4();
    if to.source.is_ipv4() != is_v4 || to.destination.is_ipv4() != is_v4 || head.tcp(packet).is_none() {
        return false;
    }
    let addresses = if is_v4 { 12..20 } else { 8..40 };
    let (ip, tcp) = packet.split_at_mut(head.payload);
    let before = ip[addresses.clone()].to_vec();
    let after = match (to.source.ip(), to.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(to)) => [source.octets(), to.octets()].concat(),
        (IpAddr::V6(source), IpAddr::V6(to)) => [source.octets(), to.octets()].concat(),
        _ => return false,
    };
    ip[addresses].copy_from_slice(&after);
    if is_v4 {
        change(&mut ip[V4_CHECKSUM..V4_CHECKSUM + 2], |sum| sum.remove(&before).add(&after));
    }
    let old = [tcp[0], tcp[1], tcp[2], tcp[3]];
    tcp[..2].copy_from_slice(&to.source.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&to.destination.port().to_be_bytes());
    let new = [tcp[0], tcp[1], tcp[2], tcp[3]];
    let checksum = &mut tcp[TCP_CHECKSUM..TCP_CHECKSUM + 2];
    if is_partial {
        let sum = Sum::default().add(checksum).remove(&before).add(&after);
        checksum.copy_from_slice(&sum.fold().to_be_bytes());
    } else {
        change(checksum, |sum| sum.remove(&before).add(&after).remove(&old).add(&new));
    }
    true
}

/// Changes what a checksum is of.
fn change(checksum: &mut [u8], how: impl FnOnce(Sum) -> Sum) {
    let sum = Sum::default().plus(!u16::from_be_bytes([checksum[0], checksum[1]]));
    checksum.copy_from_slice(&how(sum).checksum().to_be_bytes());
}

#[cfg(test)]
mod tests;
