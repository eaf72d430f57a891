//! A peer with valid keys that tries to use up time and memory. Where the work must not grow with what a block names,
//! the block is repeated so often that otherwise the test would not end.

use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use super::hostile::*;
use super::pipe::*;
use crate::wire::data::{self, DataHead, Extras};
use crate::wire::{Reader, Writer, block};
use crate::{Cause, Service, Side, Time};

const OFTEN: usize = 20_000;
const WHOLE: u8 = data::BEGIN | data::END;

/// Each number of a range that had been skipped or delivered was looked at again: 20 ms of work for twelve bytes.
#[test]
fn regression_a_repeated_skip_costs_the_same_however_many_it_names() {
    for first in [0, 1] {
        let mut session = server();
        let skip = ranges(block::SKIP, &[(first, MAX_SPAN - first, MESSAGE_CHARGE)]);
        for _ in 0..OFTEN {
            feed(&mut session, skip.clone()).unwrap();
        }
        assert_eq!(session.credit_used().1, (MAX_SPAN - first) * MESSAGE_CHARGE, "charged once");
    }
}

/// Waiting answers were searched from the end.
#[test]
fn regression_many_questions_do_not_make_the_next_one_dear() {
    let mut session = server();
    feed(&mut session, ranges(block::SKIP, &[(0, 40_000, MESSAGE_CHARGE)])).unwrap();
    session.fill(Time::ZERO, &mut Writer::new(&mut Vec::new(), 1400), &mut Vec::new(), 0);
    for number in (0..16_000).rev() {
        feed(&mut session, ranges(block::SKIP, &[(number * 2, 1, MESSAGE_CHARGE)])).unwrap();
    }
    for _ in 0..10 * OFTEN {
        feed(&mut session, ranges(block::SKIP, &[(0, 1, MESSAGE_CHARGE)])).unwrap();
    }
    let (mut packet, mut carried) = (Vec::new(), Vec::new());
    session.fill(Time::ZERO, &mut Writer::new(&mut packet, 1400), &mut carried, 0);
    assert!(packet.len() > 1390 && carried.len() > 400, "answers fill a packet: {}", carried.len());
    for number in 16_000..20_000 {
        let fed = feed(&mut session, ranges(block::SKIP, &[(number * 2, 1, MESSAGE_CHARGE)]));
        if let Err(fault) = fed {
            return assert_eq!(fault.cause, Cause::LimitExceeded);
        }
    }
    panic!("questions without end");
}

/// Each number of an answer that the sender still had in its ring was looked at, behind one that was not answered.
#[test]
fn regression_answers_are_looked_up_among_what_was_asked() {
    let (mut session, mut now) = (server(), Time::ZERO);
    session.set_peer_limits(PeerLimits { max_stream_data: 1 << 40, ..PeerLimits::default() });
    let mut carried = Vec::new();
    for number in 0..100_000 {
        let confirm =
            Outgoing { tracked: true, confirm: true, ..numbered(Service::ReliableSequenced, number, 20) };
        session.send(now, confirm).unwrap();
        session.fill(now, &mut Writer::new(&mut Vec::new(), 1400), &mut carried, 0);
    }
    now += Duration::from_secs(1);
    for item in &carried[1..] {
        session.on_acked(now, item);
    }
    assert_eq!(session.stats().outstanding, 1);
    for kind in [block::SKIP_ACK, block::TAKEN] {
        for _ in 0..2 * OFTEN {
            feed(&mut session, ranges(kind, &[(0, 100_000, 1)])).unwrap();
        }
    }
    let taken = std::iter::from_fn(|| session.poll_event())
        .filter(|event| matches!(event, SessionEvent::Outcome(_, Outcome::Taken)));
    assert_eq!(taken.count(), 100_000);
    assert_eq!(session.stats().outstanding, 0);
}

fn far_ahead(floor: u64) -> Vec<u8> {
    block_of(head(WHOLE, floor + MAX_SPAN - 1, 0), b"")
}

/// Every number of a gap was recorded as passed over, 5 ms of work for ten bytes. The record was bounded only against
/// SKIP.
#[test]
fn regression_gaps_are_passed_over_whole_and_only_so_many() {
    let mut session = server();
    let (mut now, mut floor, mut gaps) = (Time::ZERO, 0, 0);
    let fault = loop {
        match feed(&mut session, far_ahead(floor)) {
            Ok(()) => gaps += 1,
            Err(fault) => break fault,
        }
        assert!(gaps <= MAX_RANGES + 1, "no end of gaps");
        now += Duration::from_secs(1);
        session.handle_timeout(now);
        assert!(session.recv(now).is_some());
        floor += MAX_SPAN;
    };
    assert_eq!(fault.cause, Cause::LimitExceeded);
}

/// After each gap all messages in parts were looked at, wherever they were.
#[test]
fn regression_many_gaps_and_many_parts_do_not_multiply() {
    let mut session = server();
    let half = MAX_SPAN / 2;
    for number in (1..half).step_by(2) {
        feed(&mut session, block_of(head(WHOLE, number, 0), b"")).unwrap();
    }
    for number in half..MAX_SPAN {
        feed(&mut session, block_of(head(0, number, 0), b"x")).unwrap();
    }
    session.handle_timeout(Time::ZERO + Duration::from_secs(1));
    assert_eq!(session.stats().received, half / 2);
}

/// When a message in parts was passed over, its charge counted as read, but its entry stayed in memory that no credit
/// covered.
#[test]
fn regression_parts_of_messages_passed_over_are_bounded() {
    let mut session = Session::new(Side::Server, SessionConfig::default());
    let mut now = Time::ZERO;
    let fault = (0..3 * MAX_RANGES as u64).find_map(|pair| {
        let part = DataHead { offset: 5, ..head(0, pair * 2, 0) };
        let fed = feed(&mut session, block_of(part, b"x"))
            .and_then(|()| feed(&mut session, block_of(head(WHOLE, pair * 2 + 1, 0), b"")));
        now += Duration::from_secs(1);
        session.handle_timeout(now);
        while session.recv(now).is_some() {}
        session.fill(now, &mut Writer::new(&mut Vec::new(), 1400), &mut Vec::new(), 0);
        fed.err()
    });
    assert_eq!(fault.map(|fault| fault.cause), Some(Cause::LimitExceeded));
}

/// A message held behind a gap, or unread, held the receive buffer it came in: 64 KB for 300 bytes of credit. A small
/// one held its arena's chunk, although everything else in it had been read.
#[test]
fn regression_what_waits_holds_its_own_bytes_only() {
    let mut session = server();
    let take = |session: &mut Session, head, length| {
        let packet = Bytes::from(block_of(head, &vec![7; length]));
        let mut reader = Reader::new(packet.clone());
        reader.skip(1).unwrap();
        session.handle_block(Time::ZERO, block::DATA, &mut reader, false).unwrap();
        drop(reader);
        !packet.is_unique()
    };
    assert!(
        take(&mut session, head(WHOLE | data::UNSEQUENCED, 0, 0), 300),
        "read at once, no copy is needed"
    );
    assert!(!take(&mut session, head(WHOLE | data::RELIABLE, 1, 0), 300), "a gap before it");
    let held =
        (1..2000).filter(|number| take(&mut session, head(WHOLE | data::UNSEQUENCED, *number, 0), 300));
    assert!(held.count() <= 1024);
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let part = |offset| DataHead { stream: 4, extras: bytes, ..head(data::RELIABLE, 0, offset) };
    assert!(!take(&mut session, part(0), 300));
    assert!(take(&mut session, part(300), 1300));
}

/// Eleven bytes can name nearly all numbers of a span, and a packet has room for 130 such blocks.
#[test]
fn regression_a_skip_does_not_go_through_what_it_names() {
    const SPAN: u64 = MAX_SPAN - 1;
    const BLOCKS: u64 = 130;
    let skip = |first, count| ranges(block::SKIP, &[(first, count, MESSAGE_CHARGE)]);
    // All numbers but the lowest are finished, so none falls below the floor.
    let mut session = server();
    feed(&mut session, skip(1, SPAN - 1)).unwrap();
    let packet = skip(1, SPAN - 1).repeat(BLOCKS as usize);
    assert!(packet.len() <= 1450, "{}", packet.len());
    receive::window::looks::take();
    feed(&mut session, packet).unwrap();
    let looks = receive::window::looks::take();
    assert!(looks <= 100 * BLOCKS, "{looks} words for nothing new");
    // A block with something new costs no more: the highest number, all between, and the lowest.
    let mut session = server();
    for packet in [skip(SPAN, 1), skip(1, SPAN - 1), skip(0, 1)] {
        feed(&mut session, packet).unwrap();
        let looks = receive::window::looks::take();
        assert!(looks <= 250, "{looks} words");
    }
    let state =
        session.recv_state(super::super::numbers::StreamSlot(0), super::super::numbers::Domain(0)).unwrap();
    assert_eq!((state.floor(), state.finished.is_flush()), (MAX_SPAN, true));
}

/// A session at its share of memory once freed what it could for each message, which costs as much as it has streams.
/// The chunk that the next message was copied to brought it to its share again.
#[test]
fn regression_a_session_at_its_share_does_not_tidy_up_for_each_message() {
    use crate::budget::{Budget, Budgets};
    const STREAMS: u64 = 1_000;
    let config = SessionConfig { max_streams: 1 << 20, ..SessionConfig::default() };
    let budgets = Budgets { first: Budget::new(0), ..Budgets::new(1 << 40, 1 << 30, u64::MAX) };
    let mut session = Session::new(Side::Server, config).drawing_on(&budgets);
    for stream in 1..=STREAMS {
        let mut packet = Vec::new();
        let mut out = Writer::new(&mut packet, 100);
        out.u8(block::MAX_STREAM_DATA);
        out.varint(stream * 2);
        out.varint(1);
        feed(&mut session, packet).unwrap();
    }
    session.trim();
    // Others have the rest of the budget, and the peer leaves parts of messages until little of its share is free.
    while budgets.memory.take(64 << 10) {}
    let (mut low, mut high) = (0_u64, 1 << 40);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if session.account.held.covers(middle) { low = middle } else { high = middle }
    }
    let mut stream = 1;
    while low - session.held() > 3_000 {
        let length = (low - session.held() - 2_000).min(60_000);
        let head = head(data::RELIABLE | data::BEGIN, 0, 0);
        feed(
            &mut session,
            block_of(DataHead { stream: stream * 2, message_length: Some(length), ..head }, b"x"),
        )
        .unwrap();
        session.trim();
        stream += 1;
    }
    let (mut tidied, slots) = (0, session.streams.slots().count());
    for number in 0..STREAMS {
        feed(&mut session, block_of(head(data::RELIABLE | WHOLE | data::UNSEQUENCED, number, 0), &[7; 100]))
            .unwrap();
        // The first are left unread, until there is no memory for another chunk.
        if session.arenas.closed_for > 0 {
            assert_eq!(session.recv(Time::ZERO).unwrap().payload, [7; 100][..]);
        }
        tidied += usize::from(session.arenas.closed_for == slots);
    }
    assert!(session.arenas.closed_for > 0, "it was at its share");
    assert!(tidied <= 2, "everything was gone through for {tidied} of {STREAMS} messages");
}
