//! A peer that opens very many streams. Work for one stream must not search all of them, or these tests would not end.

use std::time::Duration;

use super::super::*;
use super::hostile::*;
use crate::wire::credit::Grant;
use crate::wire::data::{self, DataHead};
use crate::wire::skip::{NumberRange, RangesHead};
use crate::wire::stream_end::StreamEnd;
use crate::wire::{Writer, block};
use crate::{Service, Side, Time};

const STREAMS: u64 = 100_000;

fn roomy() -> Session {
    Session::new(Side::Server, SessionConfig { max_streams: 2 * STREAMS, ..SessionConfig::default() })
}

/// Fills packets until no control blocks wait, and returns what they carried.
fn drain(session: &mut Session) -> Vec<Carried> {
    let (mut packet, mut all) = (Vec::new(), Vec::new());
    while session.has_control() {
        packet.clear();
        session.fill(Time::ZERO, &mut Writer::new(&mut packet, 1400), &mut all, 0);
    }
    all
}

#[test]
fn regression_a_notice_is_not_looked_for_among_those_of_all_streams() {
    let mut session = roomy();
    for stream in 1..STREAMS {
        let mut packet = Vec::new();
        StreamEnd::Stop { stream: 2 * stream, code: 7 }.write(&mut Writer::new(&mut packet, 100));
        feed(&mut session, packet).unwrap();
    }
    let resets = drain(&mut session);
    let resets = resets.iter().filter(|item| matches!(item, Carried::Reset { .. }));
    assert_eq!(resets.count() as u64, STREAMS - 1);
}

#[test]
fn regression_a_timer_does_not_look_at_the_gaps_of_all_streams() {
    let mut session = roomy();
    for stream in 1..STREAMS {
        let behind = DataHead { stream: 2 * stream, ..head(data::BEGIN | data::END, 1, 0) };
        feed(&mut session, block_of(behind, b"")).unwrap();
        assert!(session.poll_timeout().is_some());
        session.handle_timeout(Time::ZERO);
    }
    session.handle_timeout(Time::ZERO + SessionConfig::default().gap_wait);
    assert_eq!((session.stats().received, session.poll_timeout()), (STREAMS - 1, None));
}

#[test]
fn regression_an_end_is_not_looked_for_among_all_that_are_wanted() {
    let mut session = roomy();
    session.set_peer_limits(PeerLimits { max_streams: 2 * STREAMS, ..PeerLimits::default() });
    let (mut packet, mut carried) = (Vec::new(), Vec::new());
    for at in 0..STREAMS / 2 {
        let now = Time::ZERO + Duration::from_millis(at);
        let id = session.open_stream(StreamKind::Messages).unwrap();
        let message = Outgoing::new(id, Service::ReliableSequenced, "x".into());
        session.send(now, message).unwrap();
        session.end_messages(id);
        packet.clear();
        session.fill(now, &mut Writer::new(&mut packet, 1400), &mut carried, 0);
    }
    assert!(!session.has_control(), "nothing has arrived");
    for item in &carried {
        session.on_acked(Time::ZERO, item);
    }
    assert_eq!(drain(&mut session).len() as u64, STREAMS / 2);
}

fn skip_on(stream: u64) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut out = Writer::new(&mut packet, 100);
    let mark = RangesHead::open(&mut out, block::SKIP, stream, data::RELIABLE);
    NumberRange { first: 0, count: 1, value: MESSAGE_CHARGE }.write(&mut out, 0, true);
    RangesHead::close(&mut out, mark, 1);
    packet
}

#[test]
fn regression_questions_on_all_streams_do_not_make_the_next_one_dear() {
    let mut session = roomy();
    for stream in 0..MAX_NOTICES as u64 {
        feed(&mut session, skip_on(2 * stream)).unwrap();
    }
    for _ in 0..STREAMS {
        feed(&mut session, ranges(block::SKIP, &[(0, 1, MESSAGE_CHARGE)])).unwrap();
    }
    // One more, for more streams, is granted on the way.
    assert!((MAX_NOTICES..=MAX_NOTICES + 1).contains(&drain(&mut session).len()));
}

/// All unread messages were moved for each stream that was accepted.
#[test]
fn regression_claiming_a_stream_does_not_look_at_what_others_have_unread() {
    let mut session = roomy();
    for number in 0..STREAMS {
        let unread = head(data::UNSEQUENCED | data::BEGIN | data::END, number, 0);
        feed(&mut session, block_of(unread, b"")).unwrap();
        let unread = DataHead { stream: 2 * number, ..head(data::RELIABLE | data::BEGIN | data::END, 0, 0) };
        feed(&mut session, block_of(unread, b"")).unwrap();
    }
    for number in 1..STREAMS {
        assert!(session.claim_stream(crate::StreamId(2 * number)));
        assert!(session.recv_on(Time::ZERO, crate::StreamId(2 * number)).is_some());
    }
    assert_eq!(session.stats().unread, STREAMS + 1);
}

#[test]
fn regression_opening_a_stream_does_not_look_at_what_is_sent_on_all() {
    let mut session = roomy();
    session.set_peer_limits(PeerLimits { max_streams: 2 * STREAMS, ..PeerLimits::default() });
    for _ in 0..STREAMS {
        let id = session.open_stream(StreamKind::Bytes).unwrap();
        assert_eq!(session.write(Time::ZERO, id, "x".into()), Ok(1));
        assert_eq!(session.poll_timeout(), None);
    }
}

/// A grant, a timer and a report of one stream without credit searched all of them.
#[test]
fn regression_a_stream_without_credit_is_not_looked_for_among_all_that_have_none() {
    let config = SessionConfig { send_queue_messages: 2 * STREAMS as usize, ..SessionConfig::default() };
    let mut session = Session::new(Side::Server, config);
    session.set_peer_limits(PeerLimits { max_streams: 2 * STREAMS, ..PeerLimits::default() });
    let all_credit = bytes::Bytes::from(vec![7; (DEFAULT_SHARE - MESSAGE_CHARGE) as usize]);
    let (mut packet, mut carried) = (Vec::new(), Vec::new());
    let mut ids = Vec::new();
    for _ in 0..STREAMS {
        let id = session.open_stream(StreamKind::Messages).unwrap();
        for payload in [all_credit.clone(), "x".into()] {
            session.send(Time::ZERO, Outgoing::new(id, Service::ReliableSequenced, payload)).unwrap();
        }
        packet.clear();
        session.fill(Time::ZERO, &mut Writer::new(&mut packet, 70_000), &mut carried, 0);
        assert!(session.poll_timeout().is_some());
        ids.push(id);
    }
    let later = Time::ZERO + Duration::from_secs(1);
    session.handle_timeout(later);
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    assert!(events.into_iter().eq(ids.iter().map(|id| SessionEvent::SendBlocked(*id))));
    let credit = session.stream_credit(later);
    assert_eq!(credit.iter().filter(|credit| credit.blocked_for.is_some()).count() as u64, STREAMS);
    for id in &ids {
        let mut packet = Vec::new();
        Grant::StreamData { stream: id.0, limit: 2 * DEFAULT_SHARE }
            .write(&mut Writer::new(&mut packet, 100));
        feed(&mut session, packet).unwrap();
    }
    assert_eq!((session.stats().blocked_streams, session.poll_timeout()), (0, None));
}
