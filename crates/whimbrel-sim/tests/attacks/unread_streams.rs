//! A peer that stops reading leaves everything written for it in this end's buffers: up to `stream_send_buffer` for
//! each of thousands of streams, and a full queue. `send_budget` bounds them together, for all sessions of an
//! endpoint. What one peer leaves unread takes nothing from another.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{
    Outgoing, PeerLimits, Read, SendError, Session, SessionConfig, SessionEvent, StreamKind,
};
use whimbrel_proto::{Budgets, Service, Side, StreamId, Time, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

const MIB: u64 = 1 << 20;
const OF_STREAM: u64 = 16 << 10;

/// A session whose peer allows many streams, and reads none of them.
fn session(budgets: &Budgets) -> Session {
    let mut session = Session::new(Side::Server, SessionConfig::default()).drawing_on(budgets);
    session.set_peer_limits(PeerLimits { max_streams: 4096, ..PeerLimits::default() });
    session
}

/// Writes on this many streams until none takes more. Returns the bytes taken.
fn fill(session: &mut Session, streams: u64) -> u64 {
    let piece = Bytes::from(vec![7; MIB as usize]);
    (0..streams)
        .map(|_| {
            let id = session.open_stream(StreamKind::Bytes).expect("the peer allows it");
            session.write(Time::ZERO, id, piece.clone()).expect("the stream is open") as u64
        })
        .sum()
}

#[test]
fn thousands_of_unread_streams_have_a_budget_together() {
    let budgets = Budgets::new(u64::MAX, u64::MAX, 64 * MIB);
    let mut unread = session(&budgets);
    let taken = fill(&mut unread, 4096);
    assert!(taken > 8 * MIB && taken <= 8 * MIB + 4096 * OF_STREAM + MIB / 8, "{} KiB", taken >> 10);
    // Another peer is served as before.
    let other = fill(&mut session(&budgets), 10);
    assert!(other >= 10 * OF_STREAM, "{} KiB", other >> 10);
    drop(unread);
    assert_eq!(budgets.send.used(), 0);
    assert!(fill(&mut session(&budgets), 7) >= 7 * MIB);
    assert_eq!(budgets.send.used(), 0);
}

#[test]
fn whoever_is_unread_others_have_room() {
    let budgets = Budgets::new(u64::MAX, u64::MAX, 64 * MIB);
    let mut unread: Vec<Session> = (0..100).map(|_| session(&budgets)).collect();
    let taken: u64 = unread.iter_mut().map(|session| fill(session, 64)).sum();
    assert!(taken <= 64 * MIB + 100 * (64 * OF_STREAM + 64 * 1024), "{} MiB", taken / MIB);
    let mut fresh = session(&budgets);
    let id = fresh.open_stream(StreamKind::Bytes).unwrap();
    assert!(fresh.write(Time::ZERO, id, vec![7; 64 << 10].into()).unwrap() == 64 << 10);
    let message = || Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![7; 64 << 10].into());
    assert!(fresh.send(Time::ZERO, message()).is_ok(), "a stream with nothing waiting may queue one");
    let refused = (0..1000).find_map(|_| fresh.send(Time::ZERO, message()).err());
    assert!(matches!(refused, Some(SendError::QueueFull(_))));
}

#[test]
fn a_reset_stream_gives_its_buffer_back() {
    let budgets = Budgets::new(u64::MAX, u64::MAX, 64 * MIB);
    let mut session = session(&budgets);
    let ids: Vec<StreamId> = (0..8).map(|_| session.open_stream(StreamKind::Bytes).unwrap()).collect();
    for id in &ids {
        session.write(Time::ZERO, *id, vec![7; MIB as usize].into()).unwrap();
    }
    assert!(budgets.send.used() >= 7 * MIB);
    ids.iter().for_each(|id| session.reset(*id, 1).unwrap());
    session.trim();
    assert_eq!(budgets.send.used(), 0);
}

/// With no budget at all, sessions have what they are assured of. All they send arrives, whichever streams are unread.
#[test]
fn without_a_budget_everything_still_arrives() {
    let mut transport = TransportConfig::default();
    transport.send_budget = 0;
    let mut pair = Pair::connected(11, transport, "delay=20ms,rate=50mbit,loss=3%");
    let ids: Vec<StreamId> =
        (0..12).map(|_| pair.session(End::Client).open_stream(StreamKind::Bytes).unwrap()).collect();
    // The first half of the streams is not read for a long time.
    let (mut written, mut read) = ([0u64; 12], [0u64; 12]);
    let (mut sent, mut received) = (0, 0);
    let done = pair.run_until(Duration::from_secs(120), |pair| {
        let now = pair.now();
        let client = pair.session(End::Client);
        while client.poll_event().is_some() {}
        for (stream, id) in ids.iter().enumerate() {
            while written[stream] < 2 * MIB {
                let rest = (2 * MIB - written[stream]).min(50_000) as usize;
                let taken = client.write(now, *id, vec![7; rest].into()).unwrap();
                written[stream] += taken as u64;
                if taken < rest {
                    break;
                }
            }
        }
        let message =
            |number| Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![number; 5000].into());
        while sent < 500 && client.send(now, message(sent as u8)).is_ok() {
            sent += 1;
        }
        let client = pair.node(End::Client);
        let used = pair.world.endpoint(client).budgets().send.used();
        assert!(used <= 12 * OF_STREAM + MIB / 16 + 5000, "{used}: beside the streams one message");
        if pair.place(End::Server).is_none() {
            return false;
        }
        let late = read[6..].iter().all(|read| *read == 2 * MIB) && received == 500;
        let server = pair.session(End::Server);
        received += std::iter::from_fn(|| server.recv(now)).count();
        for (stream, id) in ids.iter().enumerate().filter(|(stream, _)| late || *stream >= 6) {
            while let Ok(Read::Data(bytes)) = server.read(*id, 1 << 20) {
                read[stream] += bytes.len() as u64;
            }
        }
        read == [2 * MIB; 12]
    });
    assert!(done, "{received} of {sent} messages, read {read:?}, written {written:?}");
    assert_eq!(received, 500);
}

/// A sender that was refused for want of memory is told of room.
#[test]
fn who_was_refused_is_told_of_room() {
    let mut transport = TransportConfig::default();
    transport.send_budget = 0;
    let mut pair = Pair::connected(12, transport, "delay=20ms,rate=50mbit");
    let message = || Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![7; 5000].into());
    let now = pair.now();
    let queued = (0..1000).take_while(|_| pair.session(End::Client).send(now, message()).is_ok()).count();
    assert!((12..=30).contains(&queued), "{queued}: 64 KiB, and what had left at once");
    pair.news(End::Client);
    let told = pair
        .run_until(Duration::from_secs(1), |pair| pair.news(End::Client).contains(&SessionEvent::Writable));
    assert!(told);
}
