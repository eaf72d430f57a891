use bytes::Bytes;
use proptest::prelude::*;

use super::super::*;
use super::pipe::*;
use crate::wire::data::{self, DataHead, Extras, Length};
use crate::wire::skip::{NumberRange, RangesHead};
use crate::wire::{Reader, VARINT_MAX, Writer, block};
use crate::{Cause, PeerMisbehaved, Service, Side, Time};

pub(super) fn server() -> Session {
    Session::new(Side::Server, SessionConfig::default())
}

pub(super) fn feed(session: &mut Session, packet: Vec<u8>) -> Result<(), PeerMisbehaved> {
    let mut reader = Reader::new(packet.into());
    while !reader.is_empty() {
        let kind = reader.u8()?;
        session.handle_block(Time::ZERO, kind, &mut reader, false)?;
    }
    Ok(())
}

pub(super) fn head(flags: u8, number: u64, offset: u64) -> DataHead {
    DataHead { flags, stream: 0, number, offset, extras: Extras::NONE, message_length: None }
}

pub(super) fn block_of(head: DataHead, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut out = Writer::new(&mut packet, 100_000);
    head.write(&mut out, Length::Bytes(payload.len()));
    out.bytes(payload);
    packet
}

pub(super) fn cause(result: Result<(), PeerMisbehaved>) -> Cause {
    result.expect_err("was taken").cause
}

const FIRST: u8 = data::RELIABLE | data::BEGIN;
const WHOLE: u8 = data::RELIABLE | data::BEGIN | data::END;

#[test]
fn overlapping_parts_make_one_message() {
    let mut session = server();
    let text = b"the quick brown fox jumps over the lazy dog";
    let first = DataHead { message_length: Some(text.len() as u64), ..head(FIRST, 0, 0) };
    feed(&mut session, block_of(head(data::RELIABLE, 0, 10), &text[10..30])).unwrap();
    feed(&mut session, block_of(head(data::RELIABLE, 0, 5), &text[5..25])).unwrap();
    feed(&mut session, block_of(first, &text[..12])).unwrap();
    feed(&mut session, block_of(head(data::RELIABLE | data::END, 0, 28), &text[28..])).unwrap();
    assert_eq!(session.recv(Time::ZERO).unwrap().payload, Bytes::from_static(text));
    assert_eq!(session.credit_used().1, text.len() as u64 + MESSAGE_CHARGE);
}

#[test]
fn contradictions_are_misbehaviour() {
    let first = |length| DataHead { message_length: Some(length), ..head(FIRST, 0, 0) };
    let cases: [Vec<Vec<u8>>; 5] = [
        vec![block_of(first(100), b"abc"), block_of(first(90), b"abc")],
        vec![block_of(first(100), b"abc"), block_of(head(data::RELIABLE, 0, 99), b"ab")],
        vec![block_of(first(100), b"abc"), block_of(head(data::RELIABLE | data::END, 0, 50), b"a")],
        vec![block_of(head(data::RELIABLE, 0, 200), b"a"), block_of(first(100), b"abc")],
        vec![block_of(first(100), b"abc"), block_of(head(WHOLE, 0, 0), b"abc")],
    ];
    for case in cases {
        let mut session = server();
        let (last, before) = case.split_last().unwrap();
        for packet in before {
            feed(&mut session, packet.clone()).unwrap();
        }
        assert_eq!(cause(feed(&mut session, last.clone())), Cause::Inconsistent);
    }
}

#[test]
fn credit_is_verified() {
    // Empty messages are charged too.
    let mut session = server();
    let bound = (DEFAULT_CREDIT + (16 << 20) + 32) / MESSAGE_CHARGE;
    let mut taken = 0;
    let fault = loop {
        match feed(&mut session, block_of(head(WHOLE | data::UNSEQUENCED, taken, 0), b"")) {
            Ok(()) => taken += 1,
            Err(fault) => break fault,
        }
    };
    assert_eq!(fault.cause, Cause::Credit);
    assert!(taken <= bound, "{taken}");
    // A byte stream may not overdraw.
    let mut session = server();
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let beyond = DataHead { stream: 4, extras: bytes, ..head(data::RELIABLE, 0, DEFAULT_SHARE) };
    assert_eq!(cause(feed(&mut session, block_of(beyond, b"x"))), Cause::Credit);
}

/// Before the peer is proven, all streams together are limited to one stream's credit and one message.
#[test]
fn early_data_is_bounded_over_all_streams() {
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let part = |stream| DataHead { stream, extras: bytes, ..head(data::RELIABLE, 0, DEFAULT_SHARE - 1) };
    let fault = |early| {
        let mut session = server();
        (1..100).find_map(|stream| {
            let mut reader = Reader::new(block_of(part(stream * 2), b"x").into());
            let kind = reader.u8().unwrap();
            let fault = session.handle_block(Time::ZERO, kind, &mut reader, early).err();
            fault.map(|fault| (stream, fault.cause))
        })
    };
    assert_eq!(fault(true), Some((9, Cause::Credit)));
    assert_eq!(fault(false), None);
}

#[test]
fn limits_are_kept() {
    let mut session = server();
    let far = DataHead { stream: 2 * SessionConfig::default().max_streams, ..head(WHOLE, 0, 0) };
    assert_eq!(cause(feed(&mut session, block_of(far, b"x"))), Cause::StreamLimit);
    let ours = DataHead { stream: 1, ..head(WHOLE, 0, 0) };
    assert_eq!(cause(feed(&mut session, block_of(ours, b"x"))), Cause::WrongStream);
    for number in [MAX_SPAN, VARINT_MAX] {
        for service in [0, data::RELIABLE, data::UNSEQUENCED] {
            let flags = data::BEGIN | data::END | service;
            assert_eq!(
                cause(feed(&mut session, block_of(head(flags, number, 0), b"x"))),
                Cause::LimitExceeded
            );
            assert_eq!(
                cause(feed(&mut session, block_of(head(service, number, 5), b"x"))),
                Cause::LimitExceeded
            );
        }
    }
    assert!(feed(&mut session, block_of(head(WHOLE, MAX_SPAN - 1, 0), b"x")).is_ok());
    let large = DataHead { message_length: Some((16 << 20) + 1), ..head(FIRST, 1, 0) };
    assert_eq!(cause(feed(&mut session, block_of(large, b"x"))), Cause::MessageTooLarge);
    let mut session = server();
    assert_eq!(
        cause(feed(&mut session, block_of(head(data::RELIABLE, 1, VARINT_MAX - 1), b"x"))),
        Cause::MessageTooLarge
    );
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let beyond = DataHead { stream: 4, extras: bytes, ..head(data::RELIABLE, 0, VARINT_MAX - 1) };
    assert_eq!(cause(feed(&mut session, block_of(beyond, b"x"))), Cause::Credit);
}

pub(super) fn ranges(kind: u8, list: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut out = Writer::new(&mut packet, 10_000);
    let mark = RangesHead::open(&mut out, kind, 0, data::RELIABLE);
    let mut end = 0;
    for (first, count, value) in list {
        let range = NumberRange { first: *first, count: *count, value: *value };
        end = range.write(&mut out, end, kind != block::TAKEN);
    }
    RangesHead::close(&mut out, mark, list.len());
    packet
}

#[test]
fn notices_to_the_maximum_are_refused() {
    let mut session = server();
    assert_eq!(cause(feed(&mut session, ranges(block::SKIP, &[(0, VARINT_MAX, 32)]))), Cause::LimitExceeded);
    assert_eq!(cause(feed(&mut server(), ranges(block::SKIP, &[(0, MAX_SPAN, 1 << 20)]))), Cause::Credit);
    assert_eq!(cause(feed(&mut server(), ranges(block::SKIP, &[(0, 1, 31)]))), Cause::InvalidField);
    for kind in [block::SKIP_ACK, block::TAKEN] {
        assert_eq!(cause(feed(&mut server(), ranges(kind, &[(0, 1, 1)]))), Cause::AckOfUnsent);
        assert_eq!(cause(feed(&mut server(), ranges(kind, &[(0, VARINT_MAX, 0)]))), Cause::AckOfUnsent);
    }
    let mut session = server();
    session.send(Time::ZERO, numbered(Service::ReliableSequenced, 0, 20)).unwrap();
    session.fill(Time::ZERO, &mut Writer::new(&mut Vec::new(), 1400), &mut Vec::new(), 0);
    assert_eq!(cause(feed(&mut session, ranges(block::TAKEN, &[(0, 2, 0)]))), Cause::AckOfUnsent);
    // An answer to a SKIP that was not sent changes nothing.
    feed(&mut session, ranges(block::SKIP_ACK, &[(0, 1, 0)])).unwrap();
    assert_eq!(session.stats().outstanding, 1);
}

#[test]
fn a_skip_that_charges_less_than_was_seen_is_inconsistent() {
    let mut session = server();
    feed(&mut session, block_of(head(data::RELIABLE, 0, 1000), b"abc")).unwrap();
    assert_eq!(cause(feed(&mut session, ranges(block::SKIP, &[(0, 1, 100)]))), Cause::Inconsistent);
}

#[test]
fn a_skip_frees_a_message_half_received_and_is_answered_the_same_twice() {
    let mut session = server();
    feed(&mut session, block_of(head(data::RELIABLE, 0, 1000), b"abc")).unwrap();
    feed(&mut session, block_of(head(WHOLE, 1, 0), b"next")).unwrap();
    assert!(session.recv(Time::ZERO).is_none());
    for _ in 0..2 {
        feed(&mut session, ranges(block::SKIP, &[(0, 2, 5000)])).unwrap();
        let (mut packet, mut carried) = (Vec::new(), Vec::new());
        session.fill(Time::ZERO, &mut Writer::new(&mut packet, 1400), &mut carried, 0);
        let told: Vec<_> = carried
            .iter()
            .filter_map(|item| {
                if let Carried::SkipAck { first, count, delivered, .. } = item {
                    Some((*first, *count, *delivered))
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(told, [(0, 1, false), (1, 1, true)]);
    }
    assert_eq!(&session.recv(Time::ZERO).unwrap().payload[..], b"next");
    assert_eq!(session.credit_used().1, 5000 + 4 + MESSAGE_CHARGE);
}

#[test]
fn byte_stream_ends_must_agree() {
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let part = |flags, offset| DataHead { stream: 4, extras: bytes, ..head(flags, 0, offset) };
    let end = block_of(part(data::RELIABLE | data::END, 10), b"abc");
    for bad in [
        block_of(part(data::RELIABLE, 12), b"abc"),
        block_of(part(data::RELIABLE | data::END, 9), b"abc"),
        vec![block::RESET, 4, 1, 12],
        vec![block::RESET, 4, 1, 14],
    ] {
        let mut session = server();
        feed(&mut session, end.clone()).unwrap();
        assert_eq!(cause(feed(&mut session, bad)), Cause::Inconsistent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn garbage_never_panics(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..12), kinds: [u8; 12]) {
        const KINDS: [u8; 9] = [0, 0, 14, 15, 16, 17, 19, 20, 24];
        let mut session = server();
        for number in 0..4 {
            session.send(Time::ZERO, numbered(Service::ALL[number], number as u64, 40)).unwrap();
        }
        session.fill(Time::ZERO, &mut Writer::new(&mut Vec::new(), 1400), &mut Vec::new(), 0);
        for (packet, kind) in packets.into_iter().zip(kinds) {
            let mut bytes = vec![KINDS[usize::from(kind) % KINDS.len()]];
            bytes.extend(packet);
            // Low stream ids and message numbers reach the most code.
            for byte in bytes.iter_mut().skip(2).take(2) {
                *byte &= 0x07;
            }
            let _outcome = feed(&mut session, bytes);
            session.handle_timeout(Time::MAX);
            session.fill(Time::ZERO, &mut Writer::new(&mut Vec::new(), 1400), &mut Vec::new(), 0);
            while session.recv(Time::ZERO).is_some() {}
        }
    }
}

/// An opening is limited in length, only the opener may send one, and all blocks of a stream must agree on whether
/// there is one.
#[test]
fn openings_that_contradict_are_refused() {
    let extras = |opening| Extras { bytes: true, opening, ..Extras::NONE };
    let part = |stream, offset, flags, opening| {
        let begin = if offset == 0 { data::BEGIN } else { 0 };
        DataHead { stream, extras: extras(opening), ..head(data::RELIABLE | begin | flags, 0, offset) }
    };
    let fault = |blocks: &[(DataHead, &[u8])]| {
        let mut session = server();
        let mut faults = blocks.iter().map(|(head, payload)| feed(&mut session, block_of(*head, payload)));
        faults.find_map(Result::err).map(|fault| fault.cause)
    };
    assert_eq!(fault(&[(part(4, 0, 0, true), b"\x02h"), (part(4, 2, 0, true), b"i!")]), None);
    let too_long = (part(4, 0, 0, true), &b"\x44\x01"[..]);
    assert_eq!(fault(&[too_long]), Some(Cause::InvalidField), "1,025 bytes");
    assert_eq!(fault(&[(part(4, 0, data::END, true), b"\x03hi")]), Some(Cause::Inconsistent), "cut short");
    assert_eq!(fault(&[(part(4, 0, data::END, true), b"")]), Some(Cause::Inconsistent), "not even a length");
    for first in [true, false] {
        let blocks = [(part(4, 0, 0, first), &b"\x02h"[..]), (part(4, 2, 0, !first), &b"i"[..])];
        assert_eq!(fault(&blocks), Some(Cause::Inconsistent));
    }
    let mut session = server();
    session.set_peer_limits(PeerLimits::default());
    let own = session.open_stream(StreamKind::Bytes).unwrap();
    let answered = feed(&mut session, block_of(part(own.0, 0, 0, true), b"\x02hi"));
    assert_eq!(answered.map_err(|fault| fault.cause), Err(Cause::InvalidField), "on a stream that is ours");
}
