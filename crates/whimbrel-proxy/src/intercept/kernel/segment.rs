//! SYNs that are held, and what a host answers to one that goes nowhere.

use std::net::{IpAddr, SocketAddr};

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::icmpv6::DestUnreachableCode;
use etherparse::{
    Icmpv4Type, Icmpv6Type, IpHeaders, Ipv4Header, NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket,
    TcpSlice, TransportSlice,
};

use super::held::Pair;
use crate::policy::Dscp;

/// How far what we write may travel.
const TTL: u8 = 64;
/// The most of a packet that an error repeats (RFC 1812 section 4.3.2.3 has at least 8 bytes beyond the header).
const MOST_REPEATED: usize = 512;

/// The payload that every IPv6 link carries: its least MTU (RFC 8200 section 5) less both headers, bytes.
const LONGEST_V6: usize = 1_280 - 48;

/// The reason for which a program is told that it cannot have a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::intercept) enum SynRefusal {
    /// Nobody listens there.
    Reset,
    /// The host cannot be reached.
    Host,
    /// The network cannot be reached.
    Network,
    /// It is not allowed.
    Prohibited,
}

/// Returns whose SYN this is. `None`: it is another packet, or a broken one.
pub(in crate::intercept) fn syn(packet: &[u8]) -> Option<Pair> {
    let (pair, tcp) = parse(packet)?;
    (tcp.syn() && !tcp.ack() && !tcp.rst() && !tcp.fin()).then_some(pair)
}

/// Returns the DSCP of a packet.
pub(in crate::intercept) fn dscp(packet: &[u8]) -> Option<Dscp> {
    let [first, second, ..] = packet else { return None };
    match first >> 4 {
        4 => Some(Dscp::of_traffic_class(*second)),
        6 => Some(Dscp::of_traffic_class(first << 4 | second >> 4)),
        _ => None,
    }
}

fn parse(packet: &[u8]) -> Option<(Pair, TcpSlice<'_>)> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let (from, to): (IpAddr, IpAddr) = match sliced.net? {
        NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Arp(_) => return None,
    };
    let TransportSlice::Tcp(tcp) = sliced.transport? else { return None };
    let program = SocketAddr::new(from, tcp.source_port());
    Some((Pair { program, target: SocketAddr::new(to, tcp.destination_port()) }, tcp))
}

/// Returns what the target's host or network answers to a SYN. The source is the target itself: an error from an
/// address of this host would be dropped as impossible.
pub(in crate::intercept) fn refusal(syn: &[u8], what: SynRefusal) -> Option<Vec<u8>> {
    let (pair, tcp) = parse(syn)?;
    let ip = ip(pair.target.ip(), pair.program.ip())?;
    let mut packet = Vec::new();
    if what == SynRefusal::Reset {
        let reset = ip.tcp(pair.target.port(), pair.program.port(), 0, 0).rst();
        // A SYN counts as one byte (RFC 9293 section 3.5.2).
        reset.ack(tcp.sequence_number().wrapping_add(1)).write(&mut packet, &[]).ok()?;
        return Some(packet);
    }
    let repeated = &syn[..syn.len().min(MOST_REPEATED)];
    unreachable(ip, pair.target.ip(), what).write(&mut packet, repeated)?;
    Some(packet)
}

/// Returns the reset that answers a segment of a connection that does not exist (RFC 9293 section 3.10.7.1). None: it is no
/// segment, or a reset itself.
pub(in crate::intercept) fn stray_reset(packet: &[u8]) -> Option<Vec<u8>> {
    let (pair, tcp) = parse(packet).filter(|(_, tcp)| !tcp.rst())?;
    let (from, to) = (pair.target, pair.program);
    let (ip, mut reset) = (ip(from.ip(), to.ip())?, Vec::new());
    if tcp.ack() {
        ip.tcp(from.port(), to.port(), tcp.acknowledgment_number(), 0).rst().write(&mut reset, &[]).ok()?;
        return Some(reset);
    }
    let length = tcp.payload().len() as u32 + u32::from(tcp.syn()) + u32::from(tcp.fin());
    let seen = tcp.sequence_number().wrapping_add(length);
    ip.tcp(from.port(), to.port(), 0, 0).rst().ack(seen).write(&mut reset, &[]).ok()?;
    Some(reset)
}

enum Unreachable {
    V4(PacketBuilderStep<etherparse::Icmpv4Header>),
    V6(PacketBuilderStep<etherparse::Icmpv6Header>),
}

impl Unreachable {
    fn write(self, packet: &mut Vec<u8>, repeated: &[u8]) -> Option<()> {
        match self {
            Self::V4(icmp) => icmp.write(packet, repeated).ok(),
            Self::V6(icmp) => icmp.write(packet, repeated).ok(),
        }
    }
}

fn unreachable(ip: PacketBuilderStep<IpHeaders>, target: IpAddr, what: SynRefusal) -> Unreachable {
    if target.is_ipv4() {
        let why = match what {
            SynRefusal::Network => DestUnreachableHeader::Network,
            SynRefusal::Prohibited => DestUnreachableHeader::FilterProhibited,
            SynRefusal::Host | SynRefusal::Reset => DestUnreachableHeader::Host,
        };
        return Unreachable::V4(ip.icmpv4(Icmpv4Type::DestinationUnreachable(why)));
    }
    let why = match what {
        SynRefusal::Network => DestUnreachableCode::NoRoute,
        SynRefusal::Prohibited => DestUnreachableCode::Prohibited,
        SynRefusal::Host | SynRefusal::Reset => DestUnreachableCode::Address,
    };
    Unreachable::V6(ip.icmpv6(Icmpv6Type::DestinationUnreachable(why)))
}

pub(in crate::intercept) fn ip(from: IpAddr, to: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (source, destination) = (from.octets(), to.octets());
            // The kernel may fragment it.
            let header = Ipv4Header {
                source,
                destination,
                time_to_live: TTL,
                dont_fragment: false,
                ..Default::default()
            };
            Some(PacketBuilder::ip(IpHeaders::Ipv4(header, Default::default())))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(PacketBuilder::ipv6(from.octets(), to.octets(), TTL)),
        _ => None,
    }
}

/// Returns a datagram as a packet. `None`: it is too long for one, or for one that no router on the way fragments.
pub(in crate::intercept) fn datagram(source: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    if source.is_ipv6() && payload.len() > LONGEST_V6 {
        return None;
    }
    let mut packet = Vec::new();
    ip(source.ip(), to.ip())?.udp(source.port(), to.port()).write(&mut packet, payload).ok()?;
    Some(packet)
}

/// Returns the error for a datagram to a target that the rules reject.
pub(in crate::intercept) fn datagram_refusal(program: SocketAddr, target: SocketAddr) -> Option<Vec<u8>> {
    let (mut datagram, mut packet) = (Vec::new(), Vec::new());
    // Its payload is not repeated: ports are what its sender is known by.
    ip(program.ip(), target.ip())?.udp(program.port(), target.port()).write(&mut datagram, &[]).ok()?;
    let ip = ip(target.ip(), program.ip())?;
    unreachable(ip, target.ip(), SynRefusal::Prohibited).write(&mut packet, &datagram)?;
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(is_v4: bool) -> Pair {
        let (program, target) =
            if is_v4 { ("10.0.1.2:40000", "10.0.9.3:443") } else { ("[fd01::2]:40000", "[fd09::3]:443") };
        Pair { program: program.parse().unwrap(), target: target.parse().unwrap() }
    }

    fn segment(
        pair: Pair,
        flags: impl Fn(PacketBuilderStep<etherparse::TcpHeader>) -> PacketBuilderStep<etherparse::TcpHeader>,
    ) -> Vec<u8> {
        let mut packet = Vec::new();
        let tcp = ip(pair.program.ip(), pair.target.ip()).unwrap();
        flags(tcp.tcp(pair.program.port(), pair.target.port(), u32::MAX, 1_000))
            .write(&mut packet, &[])
            .unwrap();
        packet
    }

    #[test]
    fn only_a_syn_is_a_syn() {
        for is_v4 in [true, false] {
            let pair = pair(is_v4);
            assert_eq!(syn(&segment(pair, |tcp| tcp.syn())), Some(pair));
            assert_eq!(syn(&segment(pair, |tcp| tcp.syn().ack(7))), None);
            assert_eq!(syn(&segment(pair, |tcp| tcp.rst())), None);
            let whole = segment(pair, |tcp| tcp.syn());
            for length in 0..whole.len() {
                assert_eq!(syn(&whole[..length]), None, "{length} bytes");
            }
        }
        assert_eq!(syn(&[0xff; 200]), None);
    }

    #[test]
    fn a_reset_answers_the_syn() {
        for is_v4 in [true, false] {
            let pair = pair(is_v4);
            let reset = refusal(&segment(pair, |tcp| tcp.syn()), SynRefusal::Reset).unwrap();
            let (back, tcp) = parse(&reset).unwrap();
            assert_eq!((back.program, back.target), (pair.target, pair.program));
            assert!(tcp.rst() && tcp.ack() && !tcp.syn());
            assert_eq!(tcp.acknowledgment_number(), 0, "one more than the highest number");
        }
    }

    #[test]
    fn a_stray_segment_is_reset_where_its_sender_is() {
        let pair = pair(true);
        let reset = stray_reset(&segment(pair, |tcp| tcp.ack(77))).unwrap();
        let (back, tcp) = parse(&reset).unwrap();
        assert_eq!((back.program, back.target), (pair.target, pair.program));
        assert!(tcp.rst() && !tcp.ack());
        assert_eq!(tcp.sequence_number(), 77);
        let reset = stray_reset(&segment(pair, |tcp| tcp.fin())).unwrap();
        let (_, tcp) = parse(&reset).unwrap();
        assert_eq!((tcp.rst(), tcp.acknowledgment_number()), (true, 0), "one more than the highest number");
        assert_eq!(stray_reset(&segment(pair, |tcp| tcp.rst())), None, "nobody answers resets");
    }

    #[test]
    fn an_error_repeats_the_syn_and_comes_from_the_target() {
        for is_v4 in [true, false] {
            let pair = pair(is_v4);
            let original = segment(pair, |tcp| tcp.syn());
            for (what, codes) in
                [(SynRefusal::Network, (0, 0)), (SynRefusal::Host, (1, 3)), (SynRefusal::Prohibited, (13, 1))]
            {
                let error = refusal(&original, what).unwrap();
                let sliced = SlicedPacket::from_ip(&error).unwrap();
                let (code, repeated) = match sliced.transport.unwrap() {
                    TransportSlice::Icmpv4(icmp) => (icmp.code_u8(), icmp.payload().to_vec()),
                    TransportSlice::Icmpv6(icmp) => (icmp.code_u8(), icmp.payload().to_vec()),
                    other => panic!("{other:?}"),
                };
                assert_eq!((code, &repeated), (if is_v4 { codes.0 } else { codes.1 }, &original));
            }
            assert!(datagram_refusal(pair.program, pair.target).is_some());
        }
    }
}
