//! Packets of strangers.

use proptest::prelude::*;

use super::*;

/// Valid packets, one of each kind that clients send.
fn samples() -> Vec<(u8, Vec<u8>, Option<Version>)> {
    let v5 = Some(Version::V5);
    let connect = [
        &b"\0\x04MQTT\x05\xc6\0\x3c\x05\x11\0\0\0\x3c\0\x01a"[..],
        b"\x05\x18\0\0\0\x01\0\x01w\0\x01p\0\x01u\0\x01s",
    ]
    .concat();
    vec![
        (0x10, connect, None),
        (0x10, b"\0\x04MQTT\x04\x02\0\x3c\0\x01a".to_vec(), None),
        (0x3d, b"\0\x01t\0\x07\x0f\x02\0\0\0\x05\x23\0\x01\x26\0\x01a\0\x01bpayload".to_vec(), v5),
        (0x40, b"\0\x07\x10\0".to_vec(), v5),
        (0x50, b"\0\x07\x80\0".to_vec(), v5),
        (0x50, b"\0\x07".to_vec(), Some(Version::V3)),
        (0x62, b"\0\x07".to_vec(), v5),
        (0x70, b"\0\x07\x92\0".to_vec(), v5),
        (0x82, b"\0\x07\x02\x0b\x05\0\x03a/#\x2d\0\x01b\0".to_vec(), v5),
        (0x82, b"\0\x07\0\x03a/#\x01".to_vec(), Some(Version::V3)),
        (0xa2, b"\0\x07\0\0\x03a/#".to_vec(), v5),
        (0xc0, Vec::new(), v5),
        (0xe0, b"\x04\x05\x11\0\0\0\x3c".to_vec(), v5),
    ]
}

#[test]
fn one_packet_of_each_kind_is_read() {
    for (first, body, version) in samples() {
        let packet = Packet::read(first, &body, version);
        assert!(packet.is_ok(), "{first:x} {body:x?}: {packet:?}");
        // A packet that is cut has a fault, or means less; it is never read beyond its end.
        for end in 0..body.len() {
            drop(Packet::read(first, &body[..end], version));
        }
        let longer = [&body[..], b"\0"].concat();
        // A payload may be longer, a filter may follow, and a reason may follow a bare identifier.
        if !matches!(first >> 4, 3 | 6 | 8) {
            assert!(Packet::read(first, &longer, version).is_err(), "{first:x}: something behind the end");
        }
    }
}

#[test]
fn a_packet_is_found_by_its_length() {
    assert_eq!(frame(b"", 100), Ok(None));
    assert_eq!(frame(b"\xc0", 100), Ok(None));
    assert_eq!(frame(b"\x30\x80", 100), Ok(None));
    let long = frame(b"\x30\xc8\x01", 1_000).unwrap().unwrap();
    assert_eq!((long.body, long.end), (3, 203));
    assert_eq!(frame(b"\x30\xc8\x01", 202).unwrap_err().reason, Reason::TOO_LARGE);
    assert_eq!(frame(b"\x30\x80\x80\x80\x80", 1_000).unwrap_err().reason, Reason::MALFORMED);
    assert_eq!(frame(b"\x30\x80\x00", 1_000).unwrap_err().reason, Reason::MALFORMED, "MQTT-1.5.5-1");
}

#[test]
fn the_faults_of_the_standard_have_its_codes() {
    let reason = |first, body: &[u8]| Packet::read(first, body, Some(Version::V5)).unwrap_err().reason;
    for (what, first, body, expected) in [
        ("MQTT-3.8.3-2, no filter", 0x82, &b"\0\x01\0"[..], Reason::PROTOCOL_ERROR),
        ("MQTT-3.8.3-5, reserved options", 0x82, b"\0\x01\0\0\x01a\x40", Reason::MALFORMED),
        ("retain handling 3", 0x82, b"\0\x01\0\0\x01a\x30", Reason::PROTOCOL_ERROR),
        ("subscription identifier 0", 0x82, b"\0\x01\x02\x0b\0\0\x01a\0", Reason::PROTOCOL_ERROR),
        ("MQTT-3.3.1-2, DUP at QoS 0", 0x38, b"\0\x01a\0", Reason::MALFORMED),
        ("MQTT-3.3.4-6, a subscription identifier", 0x30, b"\0\x01a\x02\x0b\x01", Reason::PROTOCOL_ERROR),
        ("MQTT-1.5.4-2, U+0000", 0x30, b"\0\x01\0\0", Reason::MALFORMED),
        ("MQTT-3.6.1-1, flags of PUBREL", 0x60, b"\0\x01", Reason::MALFORMED),
        ("payload format 2", 0x30, b"\0\x01a\x02\x01\x02", Reason::PROTOCOL_ERROR),
        ("a number that is no property", 0x30, b"\0\x01a\x02\x7f\x02", Reason::PROTOCOL_ERROR),
    ] {
        assert_eq!(reason(first, body), expected, "{what}");
    }
    let many = [&b"\0\x01a"[..], &[0x8e, 0x0e], &b"\x26\0\x01a\0\x01b".repeat(258)].concat();
    assert_eq!(reason(0x30, &many), Reason::IMPLEMENTATION);
}

#[test]
fn packets_are_left_out_or_shortened_for_clients_that_take_little() {
    let mut out = Out::new(Version::V5);
    out.limit(20, true);
    assert!(!out.publish("topic", (Qos::AtMostOnce, 0), false, &PropertyList::default(), &[0; 20]));
    assert_eq!(out.len(), 0);
    assert!(out.publish("t", (Qos::AtLeastOnce, 1), false, &PropertyList::default(), b"x"));
    assert_eq!(&out.bytes()[..], b"\x32\x07\0\x01t\0\x01\0x");
    out.bytes().clear();
    out.acknowledge(Acknowledged::Publish, 1, Reason::QUOTA, "a sentence that does not fit");
    assert_eq!(&out.bytes()[..], b"\x40\x04\0\x01\x97\0");
    out.bytes().clear();
    assert!(out.publish("t", (Qos::ExactlyOnce, 258), true, &PropertyList::default(), b"x"));
    out.acknowledge(Acknowledged::Release, 258, Reason::SUCCESS, "");
    assert_eq!(&out.bytes()[..], b"\x35\x07\0\x01t\x01\x02\0x\x62\x02\x01\x02");
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(first: u8, body in proptest::collection::vec(any::<u8>(), 0..64)) {
        for version in [None, Some(Version::V3), Some(Version::V5)] {
            drop(Packet::read(first, &body, version));
        }
        drop(frame(&body, 1_000));
        drop(Properties::of_message(&body));
    }

    #[test]
    fn changed_packets_panic_nowhere(which: prop::sample::Index, at: prop::sample::Index, to: u8, cut: prop::sample::Index) {
        let (first, mut body, version) = samples().swap_remove(which.index(13));
        if !body.is_empty() {
            let at = at.index(body.len());
            body[at] = to;
            body.truncate(cut.index(body.len() + 1).max(at));
        }
        drop(Packet::read(first, &body, version));
    }
}
