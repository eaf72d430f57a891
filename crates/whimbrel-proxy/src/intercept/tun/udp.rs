//! Datagrams: taken out of packets, and put into them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use super::addresses::Addresses;
use super::device::{Device, is_own};
use super::packet::{Ends, Head, UDP, pseudo};
use super::virtio::{LENGTH, NOTHING};
use crate::intercept::kernel::datagram_refusal;
use crate::intercept::udp_programs::Outlet;

/// The length of the header.
const HEADER: usize = 8;
/// How far what we write may travel.
const TTL: u8 = 64;
/// The largest packet that every link of IPv6 carries (RFC 8200 section 5).
const LEAST_MTU: usize = 1_280;
const V6_HEADER: usize = 40;
const FRAGMENT_HEADER: usize = 8;
const FRAGMENT: u8 = 44;

/// Takes the payload of a packet apart: a datagram, or several of a size. None: it is broken.
pub(super) fn parse(
    head: &Head,
    payload: &[u8],
    is_trusted: bool,
    size: Option<usize>,
) -> Option<(Ends, Vec<Bytes>)> {
    let [a, b, c, d, e, f, g, h] = *payload.first_chunk::<HEADER>()?;
    let length = usize::from(u16::from_be_bytes([e, f]));
    let has_checksum = [g, h] != [0, 0];
    let datagram = payload.get(..length)?;
    let content = datagram.get(HEADER..)?;
    if !is_trusted && (has_checksum && !head.is_intact(datagram) || !has_checksum && head.source.is_ipv6()) {
        return None;
    }
    let (source, destination) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if source == 0 || destination == 0 {
        return None;
    }
    let ends = Ends {
        source: SocketAddr::new(head.source, source),
        destination: SocketAddr::new(head.destination, destination),
    };
    let parts = match size {
        Some(size) => content.chunks(size).map(Bytes::copy_from_slice).collect(),
        None => vec![Bytes::copy_from_slice(content)],
    };
    Some((ends, parts))
}

/// Where programs hear: packets that are written to the interface.
#[derive(Debug)]
pub(super) struct Replies {
    device: Arc<Device>,
    addresses: Addresses,
    next_id: AtomicU32,
}

impl Replies {
    pub(super) fn new(device: Arc<Device>, addresses: Addresses) -> Self {
        // Nobody gains by guessing these: whoever could use them sends in any name, anyway.
        Self { device, addresses, next_id: AtomicU32::new(1) }
    }
}

impl Outlet for Replies {
    fn reply(&self, payload: &[u8], source: SocketAddr, program: SocketAddr) {
        let is_near = is_own(&self.addresses, program.ip());
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        for packet in packets(Ends { source, destination: program }, payload, is_near, id) {
            self.device.write(&packet);
        }
    }

    fn refuse(&self, program: SocketAddr, target: SocketAddr) {
        if let Some(error) = datagram_refusal(program, target) {
            self.device.write_bare(&error);
        }
    }
}

/// Returns a datagram as packets with their headers. It is whole if it stays on this host, or if routers may fragment it.
/// Nothing, if it is too long, or its ends are of two families.
fn packets(ends: Ends, payload: &[u8], is_near: bool, id: u32) -> Vec<Vec<u8>> {
    let length = HEADER + payload.len();
    let Ok(said) = u16::try_from(length) else { return Vec::new() };
    let mut datagram = Vec::with_capacity(length);
    datagram.extend(ends.source.port().to_be_bytes());
    datagram.extend(ends.destination.port().to_be_bytes());
    datagram.extend(said.to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    let sum = pseudo(ends.source.ip(), ends.destination.ip(), UDP, length).add(&datagram);
    // A zero would mean that there is none.
    let checksum = Some(sum.checksum()).filter(|sum| *sum != 0).unwrap_or(0xffff);
    datagram[6..HEADER].copy_from_slice(&checksum.to_be_bytes());
    match (ends.source.ip(), ends.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(to)) => {
            let addresses = [source.octets(), to.octets()].concat();
            whole_v4(&addresses, &datagram, id).into_iter().collect()
        }
        (IpAddr::V6(source), IpAddr::V6(to)) => {
            let addresses = [source.octets(), to.octets()].concat();
            if is_near || V6_HEADER + length <= LEAST_MTU {
                return vec![packet_v6(&addresses, UDP, &[], &datagram)];
            }
            in_parts(&addresses, &datagram, id)
        }
        _ => Vec::new(),
    }
}

fn whole_v4(addresses: &[u8], datagram: &[u8], id: u32) -> Option<Vec<u8>> {
    let length = u16::try_from(20 + datagram.len()).ok()?;
    let mut packet = NOTHING.to_vec();
    packet.extend([0x45, 0]);
    packet.extend(length.to_be_bytes());
    packet.extend((id as u16).to_be_bytes());
    // Routers may fragment it.
    packet.extend([0, 0, TTL, UDP, 0, 0]);
    packet.extend(addresses);
    let checksum = super::checksum::Sum::default().add(&packet[LENGTH..]).checksum();
    packet[LENGTH + 10..LENGTH + 12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(datagram);
    Some(packet)
}

fn packet_v6(addresses: &[u8], next: u8, extension: &[u8], payload: &[u8]) -> Vec<u8> {
    // A datagram has at most 65,535 bytes, and a part of one far fewer.
    let length = (extension.len() + payload.len()) as u16;
    let mut packet = NOTHING.to_vec();
    packet.extend([0x60, 0, 0, 0]);
    packet.extend(length.to_be_bytes());
    packet.extend([next, TTL]);
    packet.extend(addresses);
    packet.extend(extension);
    packet.extend(payload);
    packet
}

/// Routers of IPv6 fragment nothing.
fn in_parts(addresses: &[u8], datagram: &[u8], id: u32) -> Vec<Vec<u8>> {
    let size = (LEAST_MTU - V6_HEADER - FRAGMENT_HEADER) / 8 * 8;
    let parts = datagram.chunks(size).enumerate();
    let packets = parts.map(|(number, part)| {
        let offset = number * size;
        let more = offset + part.len() < datagram.len();
        let place = offset as u16 | u16::from(more);
        let mut extension = vec![UDP, 0];
        extension.extend(place.to_be_bytes());
        extension.extend(id.to_be_bytes());
        packet_v6(addresses, FRAGMENT, &extension, part)
    });
    packets.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::super::fragments::Fragments;
    use super::*;

    fn ends(is_v4: bool) -> Ends {
        let (source, destination) =
            if is_v4 { ("10.9.0.1:53", "10.1.0.2:4000") } else { ("[fd09::1]:53", "[fd01::2]:4000") };
        Ends { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    /// Returns the datagram that a host makes of packets.
    fn receive(all: &[Vec<u8>]) -> Option<(Ends, Vec<Bytes>)> {
        let mut fragments = Fragments::default();
        for packet in all {
            let packet = &packet[LENGTH..];
            let head = Head::parse(packet).unwrap();
            let payload = match head.fragment {
                Some(_) => fragments.add(&head, packet, Instant::now()),
                None => Some(packet[head.payload..head.end].to_vec()),
            };
            if let Some(payload) = payload {
                return parse(&head, &payload, false, None);
            }
        }
        None
    }

    #[test]
    fn datagrams_of_any_length_come_out_as_they_went_in() {
        for is_v4 in [true, false] {
            for is_near in [true, false] {
                for length in [0, 1, 1_231, 1_232, 1_233, 60_000, 65_507] {
                    let payload: Vec<u8> = (0..length).map(|at| (at * 31) as u8).collect();
                    let all = packets(ends(is_v4), &payload, is_near, 5);
                    assert!(is_v4 || is_near || all.iter().all(|packet| packet.len() <= LENGTH + LEAST_MTU));
                    assert_eq!(receive(&all), Some((ends(is_v4), vec![payload.into()])), "{length}");
                }
            }
            assert_eq!(packets(ends(is_v4), &[0; 65_528], true, 5), Vec::<Vec<u8>>::new());
        }
        assert!(packets(ends(true), &[0; 65_508], true, 5).is_empty(), "too long for a packet of IPv4");
    }

    #[test]
    fn what_is_broken_is_dropped() {
        for is_v4 in [true, false] {
            let packet = packets(ends(is_v4), b"hello", true, 5).remove(0);
            let head = Head::parse(&packet[LENGTH..]).unwrap();
            let payload = &packet[LENGTH + head.payload..];
            for at in 0..payload.len() {
                let mut broken = payload.to_vec();
                broken[at] ^= 0x40;
                assert_eq!(parse(&head, &broken, false, None), None, "{at}");
            }
            let mut bare = payload.to_vec();
            bare[6..8].copy_from_slice(&[0, 0]);
            assert_eq!(parse(&head, &bare, false, None).is_some(), is_v4, "IPv4 may leave the checksum out");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_no_reason_to_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), is_trusted: bool, size in 1..200usize,
        ) {
            let packet = packets(ends(true), &[], true, 5).remove(0);
            let head = Head::parse(&packet[LENGTH..]).unwrap();
            parse(&head, &bytes, is_trusted, Some(size));
        }
    }
}
