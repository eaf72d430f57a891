//! Saving and restoring sessions. The tests in `random` check that nothing is lost or doubled by it.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::*;
use super::pipe::*;
use crate::wire::{VARINT_MAX, Writer};
use crate::{Service, Side, StreamId, Tag, Time};

/// Returns the snapshot of a session in the middle of everything.
fn busy(seed: u64) -> Vec<u8> {
    let mut pipe = Pipe::lossy(seed);
    let bytes = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    let now = pipe.now;
    pipe.ends[0].write(now, bytes, vec![7; 5000].into()).unwrap();
    for side in 0..2 {
        for number in 0..300 {
            let service = Service::ALL[number as usize % 4];
            let size = if number % 17 == 0 { 4000 } else { 20 };
            let tracked = number % 3 == 0;
            let tag = (number % 5 == 0).then_some(Tag(number % 7));
            let lifetime = (number % 11 == 0).then_some(Duration::from_secs(1));
            pipe.send(side, Outgoing { tracked, tag, lifetime, ..numbered(service, number, size) });
        }
        pipe.run_for(Duration::from_millis(7));
    }
    let now = pipe.now;
    pipe.ends[seed as usize % 2].snapshot(now)
}

#[test]
fn what_is_written_again_is_the_same() {
    for seed in 0..20 {
        let bytes = busy(seed);
        let mut session = Session::restore(Time::ZERO, Duration::ZERO, bytes.clone().into()).unwrap();
        let again = session.snapshot(Time::ZERO);
        let once_more =
            Session::restore(Time::ZERO, Duration::ZERO, again.clone().into()).unwrap().snapshot(Time::ZERO);
        assert!(again == once_more, "seed {seed}");
    }
}

#[test]
fn figures_go_on_where_they_were() {
    for seed in 0..20 {
        let mut pipe = Pipe::lossy(seed);
        for round in 0..40 {
            for side in 0..2 {
                let service = Service::ALL[round as usize % 4];
                let lifetime = (round % 7 == 0).then_some(Duration::from_millis(20));
                let tag = (round % 3 == 0).then_some(Tag(round % 5));
                pipe.send(side, Outgoing { tag, lifetime, ..numbered(service, round, 30) });
            }
            pipe.run_for(Duration::from_millis(7));
            if round % 5 == 0 {
                pipe.recv_all(1);
            }
        }
        let now = pipe.now;
        for session in &mut pipe.ends {
            let (stats, tags) = (session.stats(), session.tag_stats());
            assert!(stats.total.sent > 20 && stats.received > 10 && tags.len() > 3, "{stats:?}");
            let bytes = session.snapshot(now).into();
            let restored = Session::restore(now, Duration::ZERO, bytes).unwrap();
            assert_eq!(restored.stats(), stats, "seed {seed}");
            assert_eq!(restored.tag_stats(), tags, "seed {seed}");
        }
    }
}

#[test]
fn foreign_old_and_short_ones_are_told_apart() {
    let bytes = busy(1);
    let read = |bytes: &[u8]| {
        Session::restore(Time::ZERO, Duration::ZERO, Bytes::copy_from_slice(bytes)).map(|_| ()).unwrap_err()
    };
    assert_eq!(read(b"GIF89a"), SnapshotError::NotOne);
    assert_eq!(read(b""), SnapshotError::NotOne);
    let mut other = bytes.clone();
    other[4] = 0;
    assert_eq!(read(&other), SnapshotError::Version { found: 0 });
    for end in 5..bytes.len() {
        read(&bytes[..end]);
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(read(&longer), SnapshotError::Corrupt(_)));
}

#[test]
fn lifetimes_run_on_while_nobody_is_there() {
    let mut pipe = Pipe::plain();
    pipe.blackout = true;
    let kept =
        Outgoing { lifetime: Some(Duration::from_secs(100)), ..numbered(Service::ReliableSequenced, 0, 10) };
    let gone =
        Outgoing { lifetime: Some(Duration::from_secs(5)), ..numbered(Service::ReliableSequenced, 1, 10) };
    let kept = pipe.send(0, Outgoing { tracked: true, ..kept });
    let gone = pipe.send(0, Outgoing { tracked: true, ..gone });
    pipe.suspend(1, Duration::from_secs(60));
    pipe.blackout = false;
    pipe.settle();
    let messages = pipe.recv_all(1);
    assert_eq!(messages.iter().map(number_of).collect::<Vec<_>>(), [0]);
    let mut outcomes = pipe.outcomes(0);
    outcomes.sort();
    assert_eq!(outcomes, [(kept, Outcome::Delivered), (gone, Outcome::Expired)]);
}

#[test]
fn what_was_read_and_not_taken_waits_again() {
    let mut pipe = Pipe::plain();
    for number in 0..3 {
        pipe.send(0, Outgoing { stream: StreamId(0), ..numbered(Service::ReliableSequenced, number, 10) });
    }
    pipe.settle();
    let messages = pipe.recv_all(1);
    pipe.ends[1].unread(messages.into_iter());
    pipe.suspend(2, Duration::ZERO);
    pipe.settle();
    assert_eq!(pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(), [0, 1, 2]);
    pipe.settle();
    pipe.assert_credit_agrees();
}

/// Counts of a tag that was listed several times were added up, and no longer fitted into 64 bits.
#[test]
fn regression_a_tag_that_is_counted_twice_is_refused() {
    /// Not found elsewhere in the snapshot.
    const TAG: u64 = 0x1bad_cafe;
    let listed = |count: u64| {
        let mut list = Vec::new();
        let mut out = Writer::new(&mut list, usize::MAX);
        out.varint(count);
        (0..count).for_each(|_| [0, TAG, VARINT_MAX, VARINT_MAX].into_iter().for_each(|it| out.varint(it)));
        list
    };
    let mut session = Session::new(Side::Server, SessionConfig::default());
    assert!(session.incoming.received_tags.restore(0, TAG, (VARINT_MAX, VARINT_MAX)));
    let (written, once) = (session.snapshot(Time::ZERO), listed(1));
    let at = written.windows(once.len()).position(|part| part == once).unwrap();
    let with = |list: Vec<u8>| {
        let bytes = [&written[..at], &list, &written[at + once.len()..]].concat();
        Session::restore(Time::ZERO, Duration::ZERO, bytes.into())
    };
    assert_eq!(with(once.clone()).unwrap().tag_stats()[0].received, VARINT_MAX);
    for count in [2, 5] {
        assert!(matches!(with(listed(count)), Err(SnapshotError::Corrupt(_))), "{count} times");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn changed_bytes_are_refused_or_make_a_session_that_works(
        seed in 0u64..8, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = busy(seed);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(mut session) = Session::restore(Time::ZERO, Duration::ZERO, bytes.into()) {
            exercise(&mut session);
        }
    }
}

/// Sends everything the session has, and reads from it.
fn exercise(session: &mut Session) {
    let (mut now, mut packet, mut carried) = (Time::ZERO, Vec::new(), Vec::new());
    for round in 0..200 {
        packet.clear();
        carried.clear();
        now += Duration::from_millis(10);
        session.handle_timeout(now);
        session.fill(now, &mut crate::wire::Writer::new(&mut packet, 1200), &mut carried, round % 2);
        for item in &carried {
            if round % 3 == 0 { session.on_lost(now, item) } else { session.on_acked(now, item) }
        }
        while session.recv(now).is_some() {}
    }
    session.snapshot(now);
    session.end();
}

#[test]
fn openings_windows_and_unheard_streams_go_with_the_session() {
    let mut pipe = Pipe::plain();
    let now = pipe.now;
    let ids: Vec<StreamId> = (0..4).map(|_| pipe.ends[0].open_stream(StreamKind::Bytes).unwrap()).collect();
    let opened = pipe.ends[0].open_stream_with(now, b"the target").unwrap();
    pipe.ends[0].write(now, opened, Bytes::from_static(b"first bytes")).unwrap();
    pipe.ends[0].set_priority(opened, 7).unwrap();
    pipe.ends[0].set_window(opened, Some(123_456)).unwrap();
    let away = Duration::ZERO;
    for sent in [false, true] {
        if sent {
            pipe.settle();
        }
        for side in 0..2 {
            let bytes = pipe.ends[side].snapshot(now);
            pipe.ends[side] = Session::restore(now, away, bytes.into()).unwrap();
        }
    }
    let options = pipe.ends[0].stream_options(opened).unwrap();
    assert_eq!((options.priority, options.window), (7, Some(123_456)));
    assert_eq!(pipe.ends[1].take_opening(opened).unwrap(), "the target");
    assert_eq!(pipe.ends[1].read(opened, 99), Ok(Read::Data(Bytes::from_static(b"first bytes"))));
    for id in ids {
        pipe.ends[0].write(now, id, Bytes::from_static(b"late")).unwrap();
        pipe.settle();
        assert_eq!(
            pipe.ends[1].read(id, 99),
            Ok(Read::Data(Bytes::from_static(b"late"))),
            "{id:?} is not over"
        );
    }
}

/// Both ends of a session in the middle of traffic, written in format 3 (revision a58db22). The client had written
/// 5,000 bytes on a stream and sent 300 messages, and the server had sent 300.
const OF_FORMAT_3: [&[u8]; 2] =
    [include_bytes!("fixtures/session-v3-0.bin"), include_bytes!("fixtures/session-v3-1.bin")];

#[test]
fn a_session_of_the_format_before_goes_on() {
    let mut pipe = Pipe::plain();
    let now = pipe.now;
    for (side, written) in OF_FORMAT_3.into_iter().enumerate() {
        assert_eq!(written[4], 3);
        pipe.ends[side] = Session::restore(now, Duration::ZERO, Bytes::from_static(written)).unwrap();
    }
    pipe.settle();
    let sent: Vec<u64> = (0..300).collect();
    let got: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
    assert_eq!(got, sent, "in order, each once");
    let mut got: Vec<u64> = pipe.recv_all(0).iter().map(number_of).collect();
    got.sort_unstable();
    assert_eq!(got, sent);
    let stream = pipe.ends[1].byte_streams()[0];
    let mut bytes = Vec::new();
    while let Ok(Read::Data(read)) = pipe.ends[1].read(stream, 10_000) {
        bytes.extend_from_slice(&read);
    }
    assert!(bytes == body(9, 5000));
    // It is saved in the current format, and both ends continue.
    let written = pipe.ends[0].snapshot(pipe.now);
    assert_eq!(written[4], SNAPSHOT_VERSION);
    pipe.ends[0] = Session::restore(pipe.now, Duration::ZERO, written.into()).unwrap();
    pipe.ends.iter_mut().for_each(|end| end.set_peer_limits(limits(&SessionConfig::default())));
    let opened = pipe.ends[0].open_stream_with(pipe.now, b"after the update").unwrap();
    pipe.settle();
    assert_eq!(pipe.ends[1].take_opening(opened).unwrap(), "after the update");
}
