//! Echo requests as packets, and what their programs hear.

use std::net::IpAddr;

use etherparse::icmpv4::{DestUnreachableHeader, TimeExceededCode as V4TimeExceeded};
use etherparse::icmpv6::{DestUnreachableCode, TimeExceededCode as V6TimeExceeded};
use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};

use crate::intercept::kernel::ip;
use crate::protocol::{EchoError, EchoId};

/// A request, as it is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ping {
    pub(super) program: IpAddr,
    pub(super) target: IpAddr,
    pub(super) id: EchoId,
}

/// Reads an echo request. Returns how many more routers it may pass, and its data. `None`: it is another packet, or a
/// part of one.
pub(super) fn request(packet: &[u8]) -> Option<(Ping, u8, &[u8])> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let (program, target, hops): (IpAddr, IpAddr, u8) = match sliced.net? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), header.ttl())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), header.hop_limit())
        }
        NetSlice::Arp(_) => return None,
    };
    let (header, data) = match sliced.transport? {
        TransportSlice::Icmpv4(icmp) => match icmp.header().icmp_type {
            Icmpv4Type::EchoRequest(header) => (header, icmp.payload()),
            _ => return None,
        },
        TransportSlice::Icmpv6(icmp) => match icmp.header().icmp_type {
            Icmpv6Type::EchoRequest(header) => (header, icmp.payload()),
            _ => return None,
        },
        _ => return None,
    };
    let id = EchoId { id: header.id, sequence: header.seq };
    Some((Ping { program, target, id }, hops, data))
}

/// Returns the reply of its target.
pub(super) fn reply(ping: Ping, data: &[u8]) -> Option<Vec<u8>> {
    let (step, mut packet) = (ip(ping.target, ping.program)?, Vec::new());
    let EchoId { id, sequence } = ping.id;
    let written = match ping.target {
        IpAddr::V4(_) => step.icmpv4_echo_reply(id, sequence).write(&mut packet, data),
        IpAddr::V6(_) => step.icmpv6_echo_reply(id, sequence).write(&mut packet, data),
    };
    written.ok().map(|()| packet)
}

/// Returns an error about a request, from a host on its way.
pub(super) fn error(ping: Ping, what: EchoError, from: IpAddr) -> Option<Vec<u8>> {
    let (step, mut packet) = (ip(from, ping.program)?, Vec::new());
    let original = original(ping)?;
    let written = match ping.target {
        IpAddr::V4(_) => {
            let kind = match what {
                EchoError::Network => Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Network),
                EchoError::Host => Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Host),
                EchoError::Prohibited => {
                    Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FilterProhibited)
                }
                EchoError::TimeExceeded => Icmpv4Type::TimeExceeded(V4TimeExceeded::TtlExceededInTransit),
            };
            step.icmpv4(kind).write(&mut packet, &original)
        }
        IpAddr::V6(_) => {
            let kind = match what {
                EchoError::Network => Icmpv6Type::DestinationUnreachable(DestUnreachableCode::NoRoute),
                EchoError::Host => Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Address),
                EchoError::Prohibited => Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Prohibited),
                EchoError::TimeExceeded => Icmpv6Type::TimeExceeded(V6TimeExceeded::HopLimitExceeded),
            };
            step.icmpv6(kind).write(&mut packet, &original)
        }
    };
    written.ok().map(|()| packet)
}

/// The request without its data. Its identifier is what a program knows it by.
fn original(ping: Ping) -> Option<Vec<u8>> {
    let (step, mut packet) = (ip(ping.program, ping.target)?, Vec::new());
    let header = IcmpEchoHeader { id: ping.id.id, seq: ping.id.sequence };
    let written = match ping.target {
        IpAddr::V4(_) => step.icmpv4(Icmpv4Type::EchoRequest(header)).write(&mut packet, &[]),
        IpAddr::V6(_) => step.icmpv6(Icmpv6Type::EchoRequest(header)).write(&mut packet, &[]),
    };
    written.ok().map(|()| packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(is_v4: bool) -> Ping {
        let (program, target) = if is_v4 { ("10.0.0.1", "192.0.2.1") } else { ("fd00::1", "2001:db8::1") };
        let id = EchoId { id: 0xbeef, sequence: 7 };
        Ping { program: program.parse().unwrap(), target: target.parse().unwrap(), id }
    }

    #[test]
    fn a_request_is_read_and_its_answers_are_none() {
        for is_v4 in [true, false] {
            let ping = ping(is_v4);
            let packet = original(ping).unwrap();
            assert_eq!(request(&packet), Some((ping, 64, &[][..])));
            for length in 0..packet.len() {
                assert_eq!(request(&packet[..length]), None, "{length}");
            }
            assert_eq!(request(&reply(ping, b"data").unwrap()), None);
            let error = error(ping, EchoError::TimeExceeded, ping.target).unwrap();
            assert_eq!(request(&error), None);
            assert!(error.ends_with(&packet), "it repeats the request");
        }
        let other = "fd00::9".parse().unwrap();
        assert_eq!(error(ping(true), EchoError::Host, other), None, "a host of the other family");
    }
}
