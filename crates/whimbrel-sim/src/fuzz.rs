//! The fuzz targets. Each accepts any bytes and panics if a guarantee is violated. `fuzz/` runs them with libFuzzer;
//! a smoke test runs them with the committed corpora and seeded changes of these.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use whimbrel_proto::handshake::Params;
use whimbrel_proto::session::{Outgoing, Session, SnapshotError, StreamKind};
use whimbrel_proto::wire::credit::Grant;
use whimbrel_proto::wire::data::{DataHead, Length};
use whimbrel_proto::wire::sack::Sack;
use whimbrel_proto::wire::skip::{NumberRange, RangesHead};
use whimbrel_proto::wire::stream_end::StreamEnd;
use whimbrel_proto::wire::{Reader, Writer, block, close, sack};
use whimbrel_proto::{Service, Side, StreamId, Suspended, TicketStore, Time, TransportConfig, Url};

use crate::checker;
use crate::pair::{End, Pair};
use crate::world::SERVER;

/// A fuzz target.
pub struct FuzzTarget {
    /// Its name, as in `fuzz/fuzz_targets` and `fuzz/corpus`.
    pub name: &'static str,
    /// The function that runs it on any bytes.
    pub run: fn(&[u8]),
    /// The number of inputs in a short run, chosen by what one costs.
    pub smoke: u32,
}

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "sack", run: sack_block, smoke: 20_000 },
    FuzzTarget { name: "data", run: data_block, smoke: 20_000 },
    FuzzTarget { name: "skip", run: skip_block, smoke: 20_000 },
    FuzzTarget { name: "taken", run: taken_block, smoke: 20_000 },
    FuzzTarget { name: "credit", run: credit_block, smoke: 20_000 },
    FuzzTarget { name: "stream_end", run: stream_end_block, smoke: 20_000 },
    FuzzTarget { name: "close", run: close_block, smoke: 20_000 },
    FuzzTarget { name: "params", run: params, smoke: 20_000 },
    FuzzTarget { name: "snapshot", run: snapshot, smoke: 3_000 },
    FuzzTarget { name: "suspended", run: suspended, smoke: 3_000 },
    FuzzTarget { name: "tickets", run: tickets, smoke: 20_000 },
    FuzzTarget { name: "url", run: url, smoke: 20_000 },
    FuzzTarget { name: "clear", run: clear_packets, smoke: 1_000 },
    FuzzTarget { name: "sealed", run: sealed_packets, smoke: 1_000 },
    FuzzTarget { name: "blocks", run: blocks_of_a_hostile_peer, smoke: 3_000 },
    FuzzTarget { name: "operations", run: operations, smoke: 400 },
];

/// Enough room to write any parsed block.
const ROOM: usize = 1 << 17;

fn reader(input: &[u8]) -> Reader {
    Reader::new(Bytes::copy_from_slice(input))
}

/// The bytes that `write` writes, without the type byte.
fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out, ROOM));
    out.split_off(1)
}

/// SACK: ranges ascend, are disjoint and not adjacent, and a rewritten block reads the same.
pub fn sack_block(input: &[u8]) {
    let mut read = Sack::default();
    if read.read(&mut reader(input)).is_err() {
        return;
    }
    assert!(read.ranges.len() <= sack::MAX_RANGES);
    assert!(read.ranges.iter().all(|range| range.start() <= range.end()));
    assert!(read.ranges.windows(2).all(|pair| pair[1].end() + 1 < *pair[0].start()), "{read:?}");
    let again = written(|out| {
        let (ranges, ecn) = (read.ranges.iter().cloned(), read.ecn.unwrap_or_default());
        assert!(sack::write(out, read.path, read.delay_us, ranges, read.duplicates, ecn));
    });
    let mut same = Sack::default();
    same.read(&mut reader(&again)).expect("what we write we read");
    assert_eq!((same.path, &same.ranges, same.duplicates), (read.path, &read.ranges, read.duplicates));
}

/// DATA: the length is within the packet, and a rewritten head reads the same.
pub fn data_block(input: &[u8]) {
    let mut reader_of_it = reader(input);
    let Ok((head, length)) = DataHead::read(&mut reader_of_it) else { return };
    assert!(length <= reader_of_it.remaining(), "{head:?}");
    let mut again = written(|out| head.write(out, Length::Bytes(length)));
    again.resize(again.len() + length, 0);
    let (same, same_length) = DataHead::read(&mut reader(&again)).expect("what we write we read");
    assert_eq!((same.stream, same.number, same.offset), (head.stream, head.number, head.offset));
    assert_eq!((same.extras, same_length), (head.extras, length));
}

/// SKIP and SKIP-ACK: ranges ascend and stay below the largest number.
pub fn skip_block(input: &[u8]) {
    ranges(input, true);
}

/// TAKEN: as [`skip_block`], without values.
pub fn taken_block(input: &[u8]) {
    ranges(input, false);
}

fn ranges(input: &[u8], valued: bool) {
    let mut reader_of_it = reader(input);
    let Ok(head) = RangesHead::read(&mut reader_of_it) else { return };
    let mut end = 0;
    for _ in 0..head.count {
        let Ok(range) = NumberRange::read(&mut reader_of_it, end, valued) else { return };
        assert!(range.first >= end && range.count > 0 && range.end() > end);
        let mut out = Vec::new();
        assert_eq!(range.write(&mut Writer::new(&mut out, ROOM), end, valued), range.end());
        assert_eq!(out.len(), range.len(end, valued));
        assert_eq!(NumberRange::read(&mut reader(&out), end, valued), Ok(range));
        end = range.end();
    }
}

/// MAX_STREAM_DATA and MAX_STREAMS, chosen by the first byte.
pub fn credit_block(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let kind = [block::MAX_STREAM_DATA, block::MAX_STREAMS][usize::from(kind % 2)];
    if let Ok(grant) = Grant::read(kind, &mut reader(rest)) {
        let again = written(|out| grant.write(out));
        assert_eq!(Grant::read(kind, &mut reader(&again)), Ok(grant));
    }
}

/// RESET, STOP and END, chosen by the first byte.
pub fn stream_end_block(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let kind = [block::RESET, block::STOP, block::END][usize::from(kind % 3)];
    if let Ok(end) = StreamEnd::read(kind, &mut reader(rest)) {
        let again = written(|out| end.write(out));
        assert_eq!(StreamEnd::read(kind, &mut reader(&again)), Ok(end));
    }
}

/// FIN, RST and ERROR, chosen by the first byte.
pub fn close_block(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let mut reader_of_it = reader(rest);
    match kind % 3 {
        0 => {
            if let Ok(reason) = close::read_fin(&mut reader_of_it) {
                assert!(
                    reason.text.raw().len() <= close::MAX_REASON * 3,
                    "as text, each byte is three at the most"
                );
            }
        }
        1 => drop(close::read_rst(&mut reader_of_it)),
        _ => drop(close::read_error(&mut reader_of_it)),
    }
}

/// The parameters of a handshake, from the side that the first byte chooses.
pub fn params(input: &[u8]) {
    let Some((side, rest)) = input.split_first() else { return };
    let side = if side % 2 == 0 { Side::Client } else { Side::Server };
    if let Ok(params) = Params::parse(side, Bytes::copy_from_slice(rest)) {
        assert!(params.max_packet >= Params::MIN_PACKET);
        assert!(params.protocol.len() <= Params::MAX_PROTOCOL);
    }
}

/// The session of an input of [`snapshot`].
pub fn restored(input: &[u8]) -> Result<Session, SnapshotError> {
    Session::restore(Time::ZERO, Duration::ZERO, Bytes::copy_from_slice(input))
}

/// A suspended session: any input that is accepted works and can be written again.
pub fn snapshot(input: &[u8]) {
    let Ok(mut session) = restored(input) else { return };
    let (mut now, mut packet, mut carried) = (Time::ZERO, Vec::new(), Vec::new());
    for round in 0..50 {
        packet.clear();
        carried.clear();
        now += Duration::from_millis(10);
        session.handle_timeout(now);
        session.fill(now, &mut Writer::new(&mut packet, 1200), &mut carried, round % 2);
        for item in &carried {
            if round % 3 == 0 { session.on_lost(now, item) } else { session.on_acked(now, item) }
        }
        while session.recv(now).is_some() {}
    }
    session.snapshot(now);
    session.end();
}

/// The state of an input of [`suspended`].
pub fn read_suspended(input: &[u8]) -> Result<Suspended, SnapshotError> {
    Suspended::from_bytes(&[input, digest(&SHA256, input).as_ref()].concat())
}

/// A suspended session with its peer, without the checksum, which a fuzzer would not guess. A rewritten session reads
/// the same.
pub fn suspended(input: &[u8]) {
    let Ok(read) = read_suspended(input) else { return };
    read.byte_streams().expect("it was read as a trial");
    let again = read.to_bytes();
    let same = Suspended::from_bytes(&again).expect("what we write we read");
    assert_eq!(same.to_bytes(), again);
}

/// Exported tickets: valid ones are exported again and read the same.
pub fn tickets(input: &[u8]) {
    let (now, wall) = (Time::ZERO, Duration::from_secs(1_700_000_000));
    let mut read = TicketStore::default();
    // Tickets before an error count.
    read.import(now, wall, input).ok();
    let written = read.export(now, wall);
    let mut same = TicketStore::default();
    assert_eq!(same.import(now, wall, &written).expect("what we write we read"), read.len());
    assert_eq!(same.export(now, wall), written);
}

/// A peer's URL: a parsed URL displays as text that parses the same.
pub fn url(input: &[u8]) {
    let Ok(Ok(read)) = std::str::from_utf8(input).map(str::parse::<Url>) else { return };
    assert_eq!(read.to_string().parse(), Ok(read));
}

/// Handshake packets to either side of a handshake in progress; an even first byte sends to the server. The genuine
/// handshake still succeeds, unless the packet contains something that only the server can send.
pub fn clear_packets(input: &[u8]) {
    let Some((to, rest)) = input.split_first() else { return };
    // The corpus is from another world. In the same world its PING would use the client's own ephemeral key with
    // other contents. Only the holder of that key can make such a PING, and the PONG answers whichever arrives first.
    let mut pair = Pair::new(2, TransportConfig::default(), "delay=10ms");
    let at = Duration::from_millis(u64::from(to >> 4) * 3);
    pair.run(at);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    let mut packet = rest.to_vec();
    if let Some(first) = packet.first_mut() {
        *first |= 0x80;
    }
    match to % 2 {
        0 => pair.world.inject(client, server, &packet),
        _ => pair.world.inject(server, client, &packet),
    }
    pair.send(End::Client, Service::ReliableSequenced, "hello");
    assert!(pair.settle(Duration::from_secs(5)), "{:?}", pair.events(End::Client));
    assert_eq!(pair.world.endpoint(SERVER).connections(), 1);
}

/// A connection with traffic of every kind in progress.
fn busy_pair() -> Pair {
    let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms,rate=20mbit");
    for end in End::BOTH {
        let stream = pair.session(end).open_stream(StreamKind::Bytes).expect("there is room");
        let now = pair.now();
        pair.session(end).write(now, stream, Bytes::from_static(b"some bytes")).expect("it is open");
        for service in Service::ALL {
            let message =
                Outgoing { tracked: true, ..Outgoing::new(StreamId(0), service, vec![7; 2_000].into()) };
            pair.try_send(end, message).expect("there is room");
        }
    }
    pair.run(Duration::from_millis(12));
    pair
}

/// Checks what a hostile peer must not cause, whatever it sends: unlimited time, unlimited memory, or silence.
fn bear(mut pair: Pair, at: End) {
    pair.run(Duration::from_millis(500));
    let stats = pair.session(at).stats();
    assert!(stats.unread <= 1 << 18, "{stats:?}");
    for end in End::BOTH {
        drop(pair.recv(end));
        drop(pair.news(end));
    }
    let now = pair.now();
    pair.connection(at).abort(now, 1, "enough");
    pair.run(Duration::from_secs(100));
    assert!(pair.closed(at).is_some());
    assert!(pair.closed(at.other()).is_some());
}

/// Sealed packets made up without the keys. The first byte chooses the receiver; the rest follows the connection id.
pub fn sealed_packets(input: &[u8]) {
    let Some((to, rest)) = input.split_first() else { return };
    let at = if to % 2 == 0 { End::Server } else { End::Client };
    let mut pair = busy_pair();
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    let id = pair.connection(at).local_id();
    let mut packet = vec![to & 0x7f];
    packet.extend_from_slice(&id.to_bytes());
    packet.extend_from_slice(rest);
    let (from, target) = if at == End::Server { (client, server) } else { (server, client) };
    pair.world.inject(from, target, &packet);
    assert_eq!(pair.closed(at), None, "who has no keys ends nothing");
    bear(pair, at);
}

/// Blocks of a peer that has the keys: up to four packets, each with a length of four times its first byte.
pub fn blocks_of_a_hostile_peer(input: &[u8]) {
    let mut pair = busy_pair();
    let mut rest = input;
    for _ in 0..4 {
        let Some((length, following)) = rest.split_first() else { break };
        let (blocks, following) = following.split_at(following.len().min(usize::from(*length) * 4));
        rest = following;
        let now = pair.now();
        pair.connection(End::Server).handle_blocks(now, Bytes::copy_from_slice(blocks));
        pair.run(Duration::from_millis(5));
    }
    bear(pair, End::Server);
}

/// Operations on both ends, checked by the model.
pub fn operations(input: &[u8]) {
    checker::run(&mut checker::FromBytes::new(input), checker::INPUT_SEED);
}
