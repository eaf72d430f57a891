//! Memory that a peer with valid keys makes a session hold, as the allocator sees it. It never exceeds the session's
//! limit and its share of the endpoint's budget, and a peer that wants more is closed. An honest peer never meets
//! either limit.
//!
//! This is a separate binary because of its allocator.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{MAX_SPAN, Outgoing, SendError, Session, SessionConfig, StreamKind};
use whimbrel_proto::wire::data::{self, DataHead, Extras, Length};
use whimbrel_proto::wire::skip::{NumberRange, RangesHead};
use whimbrel_proto::wire::{Reader, Writer, block};
use whimbrel_proto::{Budgets, Cause, PeerMisbehaved, Service, Side, StreamId, Time, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;
use whimbrel_testing::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const MIB: u64 = 1 << 20;
const WHOLE: u8 = data::BEGIN | data::END;
/// The bytes that the account may miss: half-empty nodes of maps, queues that have just grown, and the error's text.
const SLACK: u64 = MIB;

/// The memory that this thread holds of what was allocated in [`counted`].
fn live() -> u64 {
    counting::bytes().max(0) as u64
}

fn counted<T>(run: impl FnOnce() -> T) -> T {
    counting::switch(true);
    let result = run();
    counting::switch(false);
    result
}

fn feed(session: &mut Session, packet: &[u8]) -> Result<(), PeerMisbehaved> {
    let mut reader = Reader::new(Bytes::copy_from_slice(packet));
    counted(|| {
        while !reader.is_empty() {
            let kind = reader.u8()?;
            session.handle_block(Time::ZERO, kind, &mut reader, false)?;
        }
        Ok(())
    })
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut packet = Vec::new();
    write(&mut Writer::new(&mut packet, 100_000));
    packet
}

fn head(flags: u8, stream: u64, number: u64, offset: u64) -> DataHead {
    DataHead { flags, stream, number, offset, extras: Extras::NONE, message_length: None }
}

fn block_of(head: DataHead, payload: &[u8]) -> Vec<u8> {
    written(|out| {
        head.write(out, Length::Bytes(payload.len()));
        out.bytes(payload);
    })
}

fn skip(stream: u64, domain: u8, list: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let list: Vec<_> = list.collect();
    written(|out| {
        let mark = RangesHead::open(out, block::SKIP, stream, domain);
        let mut end = 0;
        for (first, count) in &list {
            end = NumberRange { first: *first, count: *count, value: 32 }.write(out, end, true);
        }
        RangesHead::close(out, mark, list.len());
    })
}

const SERVICES: [u8; 4] = [data::RELIABLE, data::RELIABLE | data::UNSEQUENCED, 0, data::UNSEQUENCED];

fn streams_and_services() -> impl Iterator<Item = (u64, u8)> {
    (0..128).flat_map(|stream| SERVICES.map(|service| (2 * stream, service)))
}

/// The result of an attack.
struct Outcome {
    fault: Option<PeerMisbehaved>,
    packets: u64,
    most: u64,
    session: Session,
}

/// Feeds a session until it refuses. At any time its account must match the memory held, and stay within the limit.
fn attack(name: &str, budgets: &Budgets, packets: impl Iterator<Item = Vec<u8>>) -> Outcome {
    let before = live();
    let config = SessionConfig::default();
    let session = counted(|| Session::new(Side::Server, config).drawing_on(budgets));
    let mut outcome = Outcome { fault: None, packets: 0, most: 0, session };
    let (mut out, mut carried) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    for packet in packets {
        outcome.fault = feed(&mut outcome.session, &packet).err();
        outcome.packets += 1;
        // The session is driven; its answers never arrive.
        counted(|| {
            while outcome.session.poll_event().is_some() {}
            outcome.session.fill(Time::ZERO, &mut Writer::new(&mut out, 1400), &mut carried, 0);
        });
        out.clear();
        carried.clear();
        let (really, said) = (live() - before, outcome.session.held());
        outcome.most = outcome.most.max(really);
        assert!(really <= said + SLACK, "{name}: {really} bytes are held, {said} are said to be");
        if outcome.fault.is_some() {
            break;
        }
        let charged = outcome.session.credit_used().1;
        assert!(really <= config.most_held() + charged + SLACK, "{name}: {really}");
    }
    let Outcome { fault, packets, most, .. } = &outcome;
    let charged = outcome.session.credit_used().1;
    println!("{name}: {packets} packets, {charged} charged, {} KiB at most; {fault:?}", most >> 10);
    outcome
}

fn is_refused(name: &str, packets: impl Iterator<Item = Vec<u8>>) {
    let fault = attack(name, &Budgets::unlimited(), packets).fault;
    assert_eq!(fault.map(|fault| fault.cause), Some(Cause::LimitExceeded), "{name}");
}

/// Checks that no more than `most` is held, and that the peer is refused by other limits, if at all.
fn takes_little(name: &str, most: u64, packets: impl Iterator<Item = Vec<u8>>) {
    let outcome = attack(name, &Budgets::unlimited(), packets);
    assert!(outcome.most <= most, "{name}: {}", outcome.most);
}

fn one_byte_parts() -> impl Iterator<Item = Vec<u8>> {
    streams_and_services().flat_map(|(stream, service)| {
        (0..MAX_SPAN).map(move |number| block_of(head(service, stream, number, 1), b"x"))
    })
}

#[test]
fn parts_of_a_byte_each() {
    is_refused("parts", one_byte_parts());
}

#[test]
fn parts_at_many_offsets() {
    let packets = streams_and_services().flat_map(|(stream, service)| {
        (0..200).flat_map(move |number| {
            (0..4000).map(move |at| block_of(head(service, stream, number, 20_000 + 2 * at), b"x"))
        })
    });
    is_refused("offsets", packets);
}

#[test]
fn empty_messages_behind_a_gap() {
    let runs = [0u64, 2, 4, 6].into_iter().flat_map(|stream| {
        [data::RELIABLE, 0].into_iter().flat_map(move |service| {
            (0..260).map(move |run| {
                block_of(head(service | WHOLE | data::MANY, stream, 1 + run * 1000, 0), &[0; 1000])
            })
        })
    });
    takes_little("runs behind a gap", 10 * MIB, runs);
}

#[test]
fn empty_messages_behind_gaps_of_their_own() {
    for (name, backwards) in [("gaps", false), ("gaps, backwards", true)] {
        let packets = (0..128u64).flat_map(|stream| {
            [data::RELIABLE, 0].into_iter().flat_map(move |service| {
                (1..MAX_SPAN / 2).map(move |at| {
                    let number = if backwards { MAX_SPAN - 2 * at } else { 2 * at };
                    block_of(head(service | WHOLE, 2 * stream, number, 0), b"")
                })
            })
        });
        if backwards {
            is_refused(name, packets);
        } else {
            let outcome = attack(name, &Budgets::unlimited(), packets);
            assert!(outcome.fault.is_some(), "{name}");
        }
    }
}

#[test]
fn numbers_far_ahead_everywhere() {
    let ahead = streams_and_services()
        .map(|(stream, service)| block_of(head(service | WHOLE, stream, MAX_SPAN - 1, 0), b""));
    takes_little("far ahead", 20 * MIB, ahead);
}

#[test]
fn ranges_passed_over_everywhere() {
    let ranges = streams_and_services().flat_map(|(stream, service)| {
        (0..4).map(move |part| skip(stream, service, (0..2000).map(move |at| (part * 4000 + at * 2 + 1, 1))))
    });
    takes_little("ranges", 70 * MIB, ranges);
}

#[test]
fn tags_without_end() {
    let tags = (0..200_000u64).map(|tag| {
        let extras = Extras { tag: Some(tag), ..Extras::NONE };
        block_of(DataHead { extras, ..head(data::RELIABLE | WHOLE, 0, tag, 0) }, b"")
    });
    takes_little("tags", 60 * MIB, tags);
}

#[test]
fn streams_opened_all_at_once() {
    let streams =
        [254u64].into_iter().map(|stream| block_of(head(data::RELIABLE | WHOLE, stream, 0, 0), b""));
    takes_little("streams", MIB / 2, streams);
}

#[test]
fn empty_messages_that_nobody_reads() {
    let unread = (0..128u64).flat_map(|stream| {
        (0..MAX_SPAN).map(move |number| block_of(head(data::UNSEQUENCED | WHOLE, 2 * stream, number, 0), b""))
    });
    let outcome = attack("unread", &Budgets::unlimited(), unread);
    assert!(outcome.fault.is_some());
}

#[test]
fn bytes_of_streams_one_by_one_and_out_of_order() {
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let pieces = (0..128u64).flat_map(|stream| {
        (0..8000u64).map(move |at| {
            let piece =
                DataHead { extras: bytes, ..head(data::RELIABLE, 2 * stream + 2, 0, 20_000 + 2 * at) };
            block_of(piece, b"x")
        })
    });
    is_refused("bytes", pieces);
}

#[test]
fn messages_begun_on_many_streams() {
    let begun = streams_and_services().map(|(stream, service)| {
        let first = DataHead { message_length: Some(1 << 20), ..head(service | data::BEGIN, stream, 0, 0) };
        block_of(first, b"x")
    });
    // Each stream may overdraw its credit by a message. All of them together reach the budget.
    let transport = TransportConfig::default();
    let budgets = Budgets::new(transport.credit_budget, transport.memory_budget, transport.send_budget);
    let outcome = attack("begun", &budgets, begun);
    assert_eq!(outcome.fault.map(|fault| fault.cause), Some(Cause::LimitExceeded));
    assert!(outcome.most <= transport.memory_budget / 8, "{}", outcome.most);
}

/// An attack that takes sixteen megabytes of zeros for 22 bytes.
#[test]
fn a_part_at_the_far_end_of_a_message() {
    let far = (0..2000u64).map(|number| {
        let part = block_of(head(data::RELIABLE, 0, number, (16 << 20) - 1), b"x");
        [part, skip_of(number, (16 << 20) + 32)].concat()
    });
    let outcome = attack("far", &Budgets::unlimited(), far);
    assert_eq!((outcome.fault, outcome.packets), (None, 2000));
    assert!(outcome.most <= MIB / 4, "{}", outcome.most);
}

fn skip_of(number: u64, charge: u64) -> Vec<u8> {
    written(|out| {
        let mark = RangesHead::open(out, block::SKIP, 0, data::RELIABLE);
        NumberRange { first: number, count: 1, value: charge }.write(out, 0, true);
        RangesHead::close(out, mark, 1);
    })
}

/// Each stream kept the chunks into which its messages were copied: 8 MiB per stream, although everything was read.
#[test]
fn what_was_read_is_not_held() {
    let before = live();
    let mut session = counted(|| Session::new(Side::Server, SessionConfig::default()));
    let mut most_unread = 0;
    for stream in 0..128u64 {
        for number in 0..14_000 {
            let one = head(data::UNSEQUENCED | WHOLE, 2 * stream, number, 0);
            feed(&mut session, &block_of(one, &[7; 250])).unwrap();
        }
        most_unread = most_unread.max(live() - before);
        counted(|| while session.recv(Time::ZERO).is_some() {});
        counted(|| session.fill(Time::ZERO, &mut Writer::new(&mut Vec::new(), 1400), &mut Vec::new(), 0));
    }
    println!("{} KiB at most, {} KiB when all was read", most_unread >> 10, (live() - before) >> 10);
    assert!(live() - before <= 12 * MIB + MIB / 2, "{}", live() - before);
}

/// Feeds one block that is alone in a packet of `size` bytes. The packet is allocated like a receive buffer, and held
/// by what is kept of it.
fn feed_padded(session: &mut Session, block: &[u8], size: usize) {
    counted(|| {
        let mut packet = Vec::with_capacity(size);
        packet.extend_from_slice(block);
        packet.resize(size, 0);
        let mut reader = Reader::new(packet.into());
        let kind = reader.u8().expect("it has a block");
        session.handle_block(Time::ZERO, kind, &mut reader, false).expect("within its credit");
    });
}

/// Messages and parts of byte streams just too long to be copied, each in a packet of its own: the session kept the
/// whole packets.
#[test]
fn little_in_large_packets_does_not_hold_the_packets() {
    let bytes = Extras { bytes: true, ..Extras::NONE };
    let messages: Vec<_> = (0..900)
        .map(|number| (head(data::RELIABLE | data::UNSEQUENCED | WHOLE, 0, number, 0), 257))
        .collect();
    let parts = (1..=120u64).flat_map(|stream| {
        (0..60).map(move |at| {
            let flags = if at == 0 { data::RELIABLE | data::BEGIN } else { data::RELIABLE };
            (DataHead { extras: bytes, ..head(flags, 2 * stream, 0, 1025 * at) }, 1025)
        })
    });
    let parts: Vec<_> = parts.collect();
    for (name, blocks) in [("messages", messages), ("parts", parts)] {
        for size in [1_440, 9_000, 60_000] {
            let before = live();
            let mut session = counted(|| Session::new(Side::Server, SessionConfig::default()));
            for (head, length) in &blocks {
                feed_padded(&mut session, &block_of(*head, &vec![7; *length]), size);
            }
            let (really, said) = (live() - before, session.held());
            println!(
                "{name} in packets of {size}: {} KiB are held, {} are said to be",
                really >> 10,
                said >> 10
            );
            assert!(really <= 2 * said, "{name} in packets of {size}: {really} bytes, {said} said");
        }
    }
}

/// A packet must not exceed the length that its receiver announced. Otherwise the memory held could be any multiple
/// of what is counted.
#[test]
fn a_sealed_packet_longer_than_announced_is_dropped_unopened() {
    let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms");
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    for (number, size) in [(0, 1_400), (1, 1_472), (2, 1_473), (3, 60_000)] {
        let mut blocks = block_of(head(data::RELIABLE | data::UNSEQUENCED | WHOLE, 0, number, 0), &[7; 300]);
        blocks.push(block::PADDING);
        let now = pair.now();
        // The head and tag are as long as those of a packet without blocks.
        let around = pair.connection(End::Client).seal_blocks(now, &[block::PADDING]).len() - 1;
        blocks.resize(size - around, 0);
        let packet = pair.connection(End::Client).seal_blocks(now, &blocks);
        assert_eq!(packet.len(), size);
        pair.world.inject(client, server, &packet);
    }
    let got: Vec<u64> = pair.recv(End::Server).iter().map(|message| message.id).collect();
    let dropped = pair.stats(End::Server).dropped;
    assert_eq!((got, dropped.long, dropped.forged), (vec![0, 1], 2, 0));
    assert_eq!(pair.closed(End::Server), None);
}

/// One endpoint with one budget, and many peers that want all of it.
#[test]
fn many_sessions_share_one_budget() {
    const BUDGET: u64 = 64 * MIB;
    let budgets = Budgets::new(u64::MAX, BUDGET, u64::MAX);
    let before = live();
    let session = |packets: u64| {
        let mut session =
            counted(|| Session::new(Side::Server, SessionConfig::default()).drawing_on(&budgets));
        for packet in one_byte_parts().take(packets as usize) {
            if let Err(fault) = feed(&mut session, &packet) {
                assert_eq!(fault.cause, Cause::LimitExceeded);
                break;
            }
        }
        session
    };
    let mut modest = session(50);
    let greedy: Vec<Session> = (0..60).map(|_| session(u64::MAX >> 1)).collect();
    let held = live() - before;
    println!(
        "{} sessions, {} KiB in use of {}, {} KiB held",
        greedy.len(),
        budgets.memory.used() >> 10,
        BUDGET >> 10,
        held >> 10
    );
    assert!(budgets.memory.used() <= BUDGET);
    assert!(held <= BUDGET + BUDGET / 8 + (greedy.len() as u64 + 1) * 128 * 1024 + SLACK, "{held}");
    for number in 50..100 {
        feed(&mut modest, &block_of(head(data::RELIABLE, 0, number, 1), b"x")).expect("others are untouched");
    }
    drop((greedy, modest));
    assert_eq!(budgets.memory.used(), 0);
}

fn send_much(pair: &mut Pair, from: End) {
    for number in 0..3000 {
        pair.send(from, Service::ReliableSequenced, vec![number as u8; 1000]);
    }
}

/// Settings with enough credit to hold everything that is sent here and not read.
fn roomy() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.session.stream_share = 4 << 20;
    transport
}

#[test]
fn the_budget_is_given_back_when_a_session_is_read_or_gone() {
    let mut pair = Pair::connected(1, roomy(), "delay=10ms,rate=100mbit");
    let memory = pair.world.endpoint(SERVER).budgets().memory.clone();
    for round in 0..2 {
        send_much(&mut pair, End::Client);
        pair.run(Duration::from_secs(2));
        assert!(memory.used() >= 2 * MIB, "{}", memory.used());
        if round == 0 {
            assert_eq!(pair.recv(End::Server).len(), 3000);
            assert!(memory.used() <= MIB, "{}", memory.used());
        }
    }
    drop(pair);
    assert_eq!(memory.used(), 0);
}

/// A session whose peer is out of reach also keeps what waits for the peer.
#[test]
fn what_waits_is_counted_while_the_peer_is_out_of_reach() {
    let mut transport = roomy();
    transport.idle_timeout = Duration::from_secs(10);
    let mut pair = Pair::connected(1, transport, "delay=10ms,rate=100mbit");
    let memory = pair.world.endpoint(SERVER).budgets().memory.clone();
    pair.send(End::Client, Service::ReliableSequenced, "hello");
    pair.run(Duration::from_secs(1));
    pair.relink("delay=10ms,rate=100mbit,loss=100%");
    send_much(&mut pair, End::Server);
    pair.run(Duration::from_secs(5));
    assert_eq!(memory.used(), 0, "the queue of a live connection is this side's own affair");
    pair.run(Duration::from_secs(30));
    assert!(memory.used() >= 2 * MIB, "{}", memory.used());
    pair.relink("delay=10ms,rate=100mbit");
    assert!(
        pair.run_until(Duration::from_secs(60), |pair| pair.session(End::Client).stats().received == 3000)
    );
    assert!(memory.used() <= MIB / 8, "{}", memory.used());
}

/// A session that moves to another endpoint, through bytes or not, takes its use of the budget along.
#[test]
fn a_session_draws_on_the_budget_of_where_it_is() {
    let [first, second] = [0; 2].map(|_| Budgets::new(u64::MAX, 64 * MIB, u64::MAX));
    let mut session = Session::new(Side::Server, SessionConfig::default()).drawing_on(&first);
    for packet in one_byte_parts().take(10_000) {
        feed(&mut session, &packet).unwrap();
    }
    let used = first.memory.used();
    assert!(used >= 2 * MIB && used <= session.held(), "{used}");
    let state = session.snapshot(Time::ZERO);
    let session = session.drawing_on(&second);
    assert_eq!(first.memory.used(), 0);
    assert!(second.memory.used().abs_diff(used) <= MIB / 4);
    let again = Session::restore(Time::ZERO, Duration::ZERO, state.into()).unwrap().drawing_on(&first);
    assert!(first.memory.used().abs_diff(used) <= MIB / 4, "{} and {used}", first.memory.used());
    drop((session, again));
    assert_eq!((first.memory.used(), second.memory.used()), (0, 0));
}

/// Small messages of all services and parts of larger ones, over a link that loses a fifth, to a reader that hardly
/// reads.
#[test]
fn an_honest_peer_never_meets_the_limit() {
    const LINK: &str = "delay=300ms,rate=50mbit,loss=20%";
    let mut pair = Pair::connected(7, TransportConfig::default(), LINK);
    let streams: Vec<StreamId> = (0..20)
        .map(|_| pair.session(End::Client).open_stream(StreamKind::Messages).expect("there is room"))
        .collect();
    let (mut sent, mut received, mut most) = (0u64, 0u64, 0);
    for round in 0..400u64 {
        let now = pair.now();
        for one in 0..400u64 {
            let service = Service::ALL[(one % 4) as usize];
            let stream = if one % 5 == 0 { streams[(round % 20) as usize] } else { StreamId(0) };
            let length = if one % 100 == 0 { 5000 } else { (one % 4) as usize };
            let message = Outgoing::new(stream, service, vec![7; length].into());
            match pair.session(End::Client).send(now, message) {
                Ok(_) => sent += u64::from(service.is_reliable()),
                Err(SendError::QueueFull(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pair.run(Duration::from_millis(20));
        let now = pair.now();
        let session = pair.session(End::Server);
        most = most.max(session.held());
        let few = (0..20).map_while(|_| session.recv(now));
        received += few.filter(|message| message.service.is_reliable()).count() as u64;
    }
    let all = pair.run_until(Duration::from_secs(600), |pair| {
        let now = pair.now();
        most = most.max(pair.session(End::Server).held());
        while let Some(message) = pair.session(End::Server).recv(now) {
            received += u64::from(message.service.is_reliable());
        }
        received == sent
    });
    println!("{sent} reliable messages, {} KiB held at most", most >> 10);
    assert!(all, "{received} of {sent}, {:?}", pair.closed(End::Client));
    assert_eq!(pair.closed(End::Server), None);
}

/// Source and repair symbols of a hostile peer, in packets as long as any: the memory is the part of the budget that was
/// set aside for them, and is free again once the peer is quiet.
#[test]
fn a_decoder_takes_no_more_than_it_says() {
    /// What is set aside, and what was held before.
    const MOST: u64 = (768 << 10) + SLACK;
    let mut pair = Pair::connected(1, TransportConfig::default(), "rate=100mbit,delay=5ms");
    let now = pair.now();
    let server = pair.connection(End::Server);
    let mut dice = 7_u64;
    let mut most = 0;
    for round in 0..4_000_u64 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The odd ones never come, and are too many for the sums that are kept.
        let number = 2 * round;
        let length = [9, 1_400, 60_000][(dice >> 32) as usize % 3];
        let mut blocks = Vec::new();
        let mut out = Writer::new(&mut blocks, 100_000);
        if dice >> 60 < 8 {
            out.u8(block::SOURCE);
            out.varint(number);
            out.bytes(&[&[block::PADDING][..], &vec![0; length]].concat());
        } else {
            out.u8(block::REPAIR);
            out.varint(number);
            out.varint(150 + dice % 43);
            out.bytes(&dice.to_be_bytes()[..2]);
            out.bytes(&vec![dice as u8; length]);
        }
        counted(|| server.handle_blocks(now, Bytes::copy_from_slice(&blocks)));
        most = most.max(live());
    }
    let closed = server.poll_event();
    assert!(closed.is_none(), "{closed:?}");
    assert!(!server.is_closed() && server.stats(now).coding.recovered == 0);
    println!("at most {most} bytes");
    assert!((200 << 10..MOST).contains(&most), "{most} bytes");
}
