//! Streams that nobody reads, as many as the peer may open. They stop no other stream or message, of an honest peer
//! or of the session. A peer that keeps sending regardless is closed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{OpenError, Outgoing, Read, SessionEvent, StreamCredit, StreamKind};
use whimbrel_proto::{Cause, CloseReason, Service, StreamId, Time, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

const LINK: &str = "rate=50mbit,delay=25ms,queue=100ms";
const RTT: Duration = Duration::from_millis(50);
/// As many streams as the peer may open, except one for the reader that must get through; stream 0 is one of the
/// client's.
const ALL_BUT_ONE: u64 = 126;
/// The bytes written into a stream that stalls: more than a window.
const FLOOD: usize = 6 << 20;

/// A sending client, a reading server, and how much the client has yet to write into each stream.
struct Scene {
    pair: Pair,
    kind: StreamKind,
    left: Vec<(StreamId, usize)>,
    got: usize,
}

impl Scene {
    fn new(kind: StreamKind) -> Self {
        let pair = Pair::connected(1, TransportConfig::default(), LINK);
        Self { pair, kind, left: Vec::new(), got: 0 }
    }

    fn open(&mut self, bytes: usize) -> StreamId {
        let stream = self.pair.session(End::Client).open_stream(self.kind).unwrap();
        self.left.push((stream, bytes));
        stream
    }

    /// The client writes as much as it can.
    fn write(&mut self) {
        const PIECE: usize = 50_000;
        let now = self.pair.now();
        for (stream, left) in &mut self.left {
            let session = self.pair.session(End::Client);
            let piece = Bytes::from(vec![7; PIECE.min(*left)]);
            while *left > 0 {
                let taken = match self.kind {
                    StreamKind::Bytes => session.write(now, *stream, piece.clone()).unwrap(),
                    StreamKind::Messages => {
                        let message = Outgoing::new(*stream, Service::ReliableSequenced, piece.clone());
                        if session.send(now, message).is_err() { 0 } else { piece.len() }
                    }
                };
                *left = left.saturating_sub(taken);
                if taken < piece.len() {
                    break;
                }
            }
        }
    }

    /// The server reads what arrived on a stream and returns its length.
    fn read(&mut self, stream: StreamId) -> usize {
        let now = self.pair.now();
        let session = self.pair.session(End::Server);
        let mut got = 0;
        match self.kind {
            StreamKind::Bytes => {
                while let Ok(Read::Data(bytes)) = session.read(stream, 16 << 10) {
                    got += bytes.len();
                }
            }
            StreamKind::Messages => {
                session.claim_stream(stream);
                got = std::iter::from_fn(|| session.recv_on(now, stream)).map(|it| it.payload.len()).sum();
            }
        }
        got
    }

    /// Reads a stream until `bytes` arrived. Returns how long that took.
    fn pass(&mut self, stream: StreamId, bytes: usize, limit: Duration) -> Duration {
        let begin = self.pair.now();
        let end = begin + limit;
        self.got = 0;
        while self.got < bytes {
            self.write();
            self.got += self.read(stream);
            let (got, holders) = (self.got, self.holders());
            assert!(self.pair.now() < end, "{got} of {bytes} bytes: {holders:?}");
            self.pair.run(Duration::from_millis(2));
        }
        self.pair.now() - begin
    }

    /// Lets time pass in which the client writes and nobody reads.
    fn stall(&mut self, time: Duration) {
        let end = self.pair.now() + time;
        while self.pair.now() < end {
            self.write();
            self.pair.run(Duration::from_millis(10));
        }
    }

    fn holders(&mut self) -> Vec<StreamCredit> {
        let now = self.pair.now();
        self.pair.session(End::Server).stream_credit(now)
    }

    /// Opens streams that are read up to `read` and then no more.
    fn stalled(&mut self, streams: u64, read: usize) -> Vec<StreamId> {
        let mut stalled = Vec::new();
        for _ in 0..streams {
            let stream = self.open(read + FLOOD);
            self.claim(stream);
            if read > 0 {
                self.pass(stream, read, Duration::from_secs(20));
                self.stall(RTT);
            }
            stalled.push(stream);
        }
        // Long enough for everything in the window to be sent or delivered.
        self.stall(Duration::from_secs(5));
        let out: Vec<_> = self.holders().into_iter().filter(|it| it.unread_for.is_some()).collect();
        assert_eq!(out.len() as u64, streams, "{out:?}");
        assert_eq!(self.pair.session(End::Client).stats().blocked_streams, streams);
        assert_eq!(self.pair.session(End::Server).stats().unread_streams, streams);
        stalled
    }

    /// The server has a reader for the stream, which may never read.
    fn claim(&mut self, stream: StreamId) {
        self.stall(RTT);
        if self.kind == StreamKind::Messages {
            assert!(self.pair.session(End::Server).claim_stream(stream));
        }
    }

    fn command_arrives(&mut self) {
        self.pair.send(End::Client, Service::ReliableSequenced, "a command");
        let arrived = self.pair.run_until(RTT * 3, |pair| !pair.recv(End::Server).is_empty());
        assert!(arrived, "{:?}", self.holders());
    }

    fn credit_used(&mut self) -> [u64; 2] {
        End::BOTH.map(|end| {
            let node = self.pair.node(end);
            self.pair.world.endpoint(node).budgets().credit.used()
        })
    }

    /// Checks that neither end was closed, and that nothing is held once both are.
    fn close(mut self) {
        assert_eq!(End::BOTH.map(|end| self.pair.closed(end)), [None, None]);
        let now = self.pair.now();
        self.pair.connection(End::Client).abort(now, 0, "");
        assert!(self.pair.run_until(Duration::from_secs(1), Pair::both_closed));
        assert_eq!(self.credit_used(), [0, 0]);
    }
}

fn others_get_through(kind: StreamKind, streams: u64, read: usize) {
    let mut scene = Scene::new(kind);
    let stalled = scene.stalled(streams, read);
    scene.command_arrives();
    let next = scene.open(1 << 20);
    let took = scene.pass(next, 1 << 20, Duration::from_secs(3));
    // It gets at least its share of 64 KiB each round trip; with messages, the last may overdraw.
    assert!(took < RTT * 25, "{kind:?}, {streams} stalled after {read} bytes: {took:?}");
    scene.command_arrives();
    // A stalled stream continues when it is read.
    let more = scene.pass(stalled[0], FLOOD / 2, Duration::from_secs(10));
    assert!(more < Duration::from_secs(6), "{more:?}");
    scene.close();
}

#[test]
fn byte_streams_that_were_never_read_hold_back_no_other() {
    for streams in [1, 2, 20, ALL_BUT_ONE] {
        others_get_through(StreamKind::Bytes, streams, 0);
    }
}

#[test]
fn byte_streams_that_were_read_and_then_not_hold_back_no_other() {
    for streams in [1, 2, 20] {
        others_get_through(StreamKind::Bytes, streams, 4 << 20);
    }
    others_get_through(StreamKind::Bytes, ALL_BUT_ONE, 200_000);
}

#[test]
fn message_streams_that_nobody_reads_hold_back_no_other() {
    for (streams, read) in [(1, 0), (2, 0), (2, 4 << 20), (20, 0), (20, 1 << 20), (ALL_BUT_ONE, 0)] {
        others_get_through(StreamKind::Messages, streams, read);
    }
}

#[test]
fn both_ends_say_whose_reader_stalled() {
    let mut scene = Scene::new(StreamKind::Bytes);
    let stream = scene.stalled(1, 0)[0];
    let unread = scene.holders()[1].unread;
    assert!(scene.pair.news(End::Server).contains(&SessionEvent::ReaderStalled { stream, unread }));
    assert!(scene.pair.news(End::Client).contains(&SessionEvent::SendBlocked(stream)));
    scene.stall(Duration::from_secs(10));
    assert_eq!(scene.pair.news(End::Server), [], "once");
    assert_eq!(scene.pair.news(End::Client), []);
}

/// The block that begins DATA of a byte stream at an offset, with one byte.
fn byte_at(stream: u8, offset: u32) -> Bytes {
    // The flags RELIABLE and EXTRAS; stream, number 0, offset in four bytes; the extra for a byte stream.
    let head = [0x48, stream, 0];
    let offset = (offset | 0x8000_0000).to_be_bytes();
    [&head[..], &offset, &[16], &[7]].concat().into()
}

#[test]
fn a_peer_that_sends_beyond_its_credit_is_closed() {
    for (offset, ends) in [(65_535, false), (65_536, true)] {
        let mut pair = Pair::connected(1, TransportConfig::default(), LINK);
        let now = pair.now();
        let mut block = vec![0x00];
        block.extend_from_slice(&byte_at(2, offset));
        pair.connection(End::Server).handle_blocks(now, block.into());
        pair.run(RTT);
        let why = pair.closed(End::Server).map(|why| match why {
            CloseReason::PeerMisbehaved(why) => why.cause,
            other => panic!("{other:?}"),
        });
        assert_eq!(why, ends.then_some(Cause::Credit), "{offset}");
    }
}

/// Nobody reads as many streams as are allowed, each with all the credit that it begins with. What both ends allow by
/// default must not end the session for want of memory.
#[test]
fn streams_that_are_unread_within_their_shares_end_no_session() {
    const STREAMS: u64 = 4096;
    let mut pair = Pair::connected(3, TransportConfig::default(), "delay=1ms,rate=2gbit");
    let (mut opened, mut sent) = (0, 0);
    let begin = pair.now();
    while opened < STREAMS - 1 {
        let now = pair.now();
        let session = pair.session(End::Client);
        match session.open_stream(StreamKind::Bytes) {
            Ok(id) => {
                let share = if id.index() < 128 { 64 << 10 } else { 16 << 10 };
                assert_eq!(session.write(now, id, vec![7; share].into()), Ok(share));
                (opened, sent) = (opened + 1, sent + share as u64);
                if opened % 16 == 0 {
                    pair.run(Duration::from_millis(2));
                }
            }
            Err(error) => {
                assert_eq!(error, OpenError::Limit);
                pair.run(Duration::from_millis(2));
                assert!(pair.now() - begin < Duration::from_secs(20), "{opened} streams");
            }
        }
    }
    let written = pair.run_until(Duration::from_secs(20), |pair| {
        pair.session(End::Server).stream_credit(Time::ZERO).iter().map(|it| it.unread).sum::<u64>() == sent
    });
    let held = pair.session(End::Server).held();
    println!("{} MiB unread on {opened} streams, {} MiB held", sent >> 20, held >> 20);
    assert!(written && pair.closed(End::Server).is_none());
    pair.send(End::Client, Service::ReliableSequenced, "still there");
    assert!(pair.run_until(RTT * 3, |pair| !pair.recv(End::Server).is_empty()));
}
