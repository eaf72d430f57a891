use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;

fn segment(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let ip = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => panic!("of one family"),
    };
    ip.tcp(source.port(), destination.port(), 7, 9).ack(3).write(&mut packet, payload).unwrap();
    packet
}

fn is_right(packet: &[u8]) -> bool {
    let head = Head::parse(packet).unwrap();
    let v4 = packet[0] >> 4 != 4 || Sum::default().add(&packet[..head.payload]).fold() == 0xffff;
    v4 && head.is_intact(&packet[head.payload..head.end])
}

fn ends(is_v4: bool) -> impl Strategy<Value = Ends> {
    let one = move || {
        (any::<u128>(), any::<u16>()).prop_map(move |(ip, port)| {
            let ip: IpAddr = if is_v4 { Ipv4Addr::from(ip as u32).into() } else { Ipv6Addr::from(ip).into() };
            SocketAddr::new(ip, port)
        })
    };
    (one(), one()).prop_map(|(source, destination)| Ends { source, destination })
}

fn two_ends() -> impl Strategy<Value = (Ends, Ends)> {
    prop_oneof![(ends(true), ends(true)), (ends(false), ends(false))]
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_no_reason_to_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(4u8), Just(6)],
        is_partial: bool,
        (to, _) in two_ends(),
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = version << 4 | *first & 0xf;
        }
        if let Some(head) = Head::parse(&bytes) {
            assert!(head.payload <= head.end && head.end <= bytes.len());
            head.ends(&bytes);
            let before = bytes.clone();
            if !readdress(&mut bytes, &head, to, is_partial) {
                assert_eq!(bytes, before);
            }
        }
    }

    #[test]
    fn new_ends_keep_checksums_right(
        (before, after) in two_ends(),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut packet = segment(before.source, before.destination, &payload);
        let whole = segment(after.source, after.destination, &payload);
        let head = Head::parse(&packet).unwrap();
        assert_eq!(head.tcp(&packet), Some(before));
        assert!(is_right(&packet));
        assert!(readdress(&mut packet, &head, after, false));
        assert!(is_right(&packet));
        let differs = packet.iter().zip(&whole).filter(|(a, b)| a != b).count();
        // Beside the two forms of a zero in each checksum, it is what would have been built.
        assert!(differs == 0 || differs % 2 == 0 && differs <= 4);
    }

    #[test]
    fn a_sum_of_the_pseudo_header_stays_one(
        (before, after) in two_ends(),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut packet = segment(before.source, before.destination, &payload);
        let head = Head::parse(&packet).unwrap();
        let length = head.end - head.payload;
        let sum = |ends: Ends| pseudo(ends.source.ip(), ends.destination.ip(), TCP, length).fold();
        let place = head.payload + TCP_CHECKSUM;
        packet[place..place + 2].copy_from_slice(&sum(before).to_be_bytes());
        assert!(readdress(&mut packet, &head, after, true));
        let now = u16::from_be_bytes([packet[place], packet[place + 1]]);
        assert_eq!(now % 0xffff, sum(after) % 0xffff);
    }
}

#[test]
fn ends_of_another_family_are_refused() {
    let v4: SocketAddr = ([10, 0, 0, 1], 1).into();
    let v6: SocketAddr = ([0xfd00, 0, 0, 0, 0, 0, 0, 1], 1).into();
    let mut packet = segment(v4, v4, b"x");
    let head = Head::parse(&packet).unwrap();
    assert!(!readdress(&mut packet, &head, Ends { source: v4, destination: v6 }, false));
}
