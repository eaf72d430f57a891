use std::collections::BTreeSet;
use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::{Service, StreamId, Time};

fn exchange(seed: u64, service: Service, repeats: u8) -> (Pipe, Vec<u64>) {
    let mut pipe = Pipe { repeats, ..Pipe::lossy(seed) };
    let mut got = Vec::new();
    for number in 0..600 {
        let size = 8 + pipe.rng.below(if number % 50 == 0 { 20_000 } else { 200 }) as usize;
        pipe.send(0, numbered(service, number, size));
        if number % 7 == 0 {
            pipe.run_for(Duration::from_millis(2));
            got.extend(pipe.recv_all(1).iter().map(number_of));
        }
    }
    pipe.settle();
    got.extend(pipe.recv_all(1).iter().map(number_of));
    pipe.settle();
    pipe.assert_credit_agrees();
    assert!(pipe.ends[0].is_drained());
    (pipe, got)
}

#[test]
fn reliable_sequenced_arrive_all_in_order() {
    for seed in 0..20 {
        let (pipe, got) = exchange(seed, Service::ReliableSequenced, (seed % 3) as u8);
        assert_eq!(got, (0..600).collect::<Vec<_>>(), "seed {seed}");
        assert!(pipe.ends[0].stats().retransmitted > 0);
        assert!(pipe.ends[1].stats().duplicates > 0);
    }
}

#[test]
fn reliable_unsequenced_arrive_all_once() {
    let mut disordered = false;
    for seed in 0..20 {
        let (_, got) = exchange(seed, Service::ReliableUnsequenced, (seed % 3) as u8);
        disordered |= got.windows(2).any(|pair| pair[0] > pair[1]);
        let set: BTreeSet<_> = got.iter().copied().collect();
        assert_eq!((got.len(), set.len()), (600, 600), "seed {seed}");
    }
    assert!(disordered, "a message waited for another");
}

#[test]
fn unreliable_sequenced_arrive_in_order_or_not_at_all() {
    for seed in 0..20 {
        let (pipe, got) = exchange(seed, Service::UnreliableSequenced, 0);
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}");
        assert!((300..600).contains(&got.len()), "seed {seed}: {}", got.len());
        let stats = pipe.ends[0].stats();
        assert_eq!(stats.retransmitted, 0);
        assert_eq!(stats.total.lost + stats.total.delivered, 600);
    }
}

#[test]
fn unreliable_unsequenced_arrive_once_or_not_at_all() {
    for seed in 0..20 {
        let (_, got) = exchange(seed, Service::UnreliableUnsequenced, 0);
        let set: BTreeSet<_> = got.iter().copied().collect();
        assert_eq!(set.len(), got.len(), "seed {seed}");
        assert!((300..600).contains(&got.len()), "seed {seed}: {}", got.len());
    }
}

#[test]
fn repeats_spare_small_unreliable_messages_from_loss() {
    let count = |repeats| {
        let mut pipe = Pipe { loss: 20, repeats, ..Pipe::new(3, SessionConfig::default()) };
        for number in 0..500 {
            pipe.send(0, numbered(Service::UnreliableUnsequenced, number, 50));
            pipe.run_for(Duration::from_millis(1));
        }
        pipe.settle();
        let got = pipe.recv_all(1).len();
        pipe.settle();
        pipe.assert_credit_agrees();
        got
    };
    let (once, thrice) = (count(0), count(2));
    assert!(once < 430, "{once}");
    assert!(thrice > 480, "{thrice}");
}

#[test]
fn a_repeat_never_rides_with_its_original() {
    let mut pipe = Pipe { repeats: 2, ..Pipe::plain() };
    pipe.send(0, numbered(Service::ReliableUnsequenced, 0, 50));
    let (mut packet, mut carried) = (Vec::new(), Vec::new());
    pipe.ends[0].fill(Time::ZERO, &mut crate::wire::Writer::new(&mut packet, 1400), &mut carried, 2);
    assert_eq!(carried.len(), 1);
    assert!(pipe.ends[0].wants_repeat(2));
    for copy in 2..=3 {
        packet.clear();
        pipe.ends[0].fill(Time::ZERO, &mut crate::wire::Writer::new(&mut packet, 1400), &mut carried, 2);
        assert_eq!(carried.len(), copy);
    }
    assert!(!pipe.ends[0].wants_repeat(2));
    // It is lost only when no copy is in flight.
    pipe.ends[0].on_lost(Time::ZERO, &carried[0]);
    pipe.ends[0].on_lost(Time::ZERO, &carried[1]);
    assert!(!pipe.ends[0].wants_to_send());
    pipe.ends[0].on_lost(Time::ZERO, &carried[2]);
    assert!(pipe.ends[0].wants_to_send());
    // A late acknowledgement makes the retransmission unnecessary.
    pipe.ends[0].on_acked(Time::ZERO, &carried[1]);
    packet.clear();
    assert!(!pipe.ends[0].fill(
        Time::ZERO,
        &mut crate::wire::Writer::new(&mut packet, 1400),
        &mut carried,
        2
    ));
    assert!(pipe.ends[0].is_drained());
}

#[test]
fn sixteen_mebibytes_cross_under_loss() {
    for service in [Service::ReliableSequenced, Service::ReliableUnsequenced] {
        let mut pipe = Pipe { loss: 5, jitter: 3, window: 400, ..Pipe::new(9, SessionConfig::default()) };
        for number in 0..2 {
            pipe.send(0, numbered(service, number, 16 << 20));
        }
        let mut got = BTreeSet::new();
        for _ in 0..10 {
            pipe.settle();
            got.extend(pipe.recv_all(1).iter().map(number_of));
        }
        assert_eq!(got.len(), 2);
        pipe.assert_credit_agrees();
    }
}

#[test]
fn a_shrinking_packet_size_cuts_what_was_whole() {
    let mut pipe = Pipe { blackout: true, ..Pipe::plain() };
    for number in 0..20 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 1200 - number as usize));
    }
    pipe.run_for(Duration::from_millis(8));
    pipe.blackout = false;
    pipe.mtu = 300;
    pipe.settle();
    assert_eq!(pipe.recv_all(1).iter().map(number_of).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    pipe.settle();
    assert!(pipe.ends[0].is_drained());
    pipe.assert_credit_agrees();
}

#[test]
fn extras_arrive() {
    let mut pipe = Pipe::plain();
    let message = Outgoing {
        tag: Some(crate::Tag(1 << 40)),
        priority: 7,
        ppid: Some(9),
        ..numbered(Service::ReliableUnsequenced, 3, 10)
    };
    for _ in 0..5 {
        pipe.send(0, message.clone());
    }
    pipe.send(0, Outgoing { payload: body(1, 5000), ..message });
    pipe.settle();
    let got = pipe.recv_all(1);
    assert_eq!(got.len(), 6);
    for read in got {
        assert_eq!((read.tag, read.priority, read.ppid), (Some(crate::Tag(1 << 40)), 7, Some(9)));
        assert_eq!(read.service, Service::ReliableUnsequenced);
        assert_eq!(read.stream, StreamId(0));
    }
}

#[test]
fn empty_messages_are_messages() {
    let mut pipe = Pipe::lossy(4);
    for _ in 0..1000 {
        pipe.send(0, Outgoing::new(StreamId(0), Service::ReliableSequenced, bytes::Bytes::new()));
    }
    pipe.settle();
    assert_eq!(pipe.recv_all(1).len(), 1000);
}

fn cross() -> SessionConfig {
    SessionConfig { cross_sequencing: true, ..SessionConfig::default() }
}

#[test]
fn cross_sequenced_services_share_one_order() {
    for seed in 0..30 {
        let mut pipe = Pipe { loss: 10, spurious: 5, jitter: 8, ..Pipe::new(seed, cross()) };
        let mut reliable = BTreeSet::new();
        for number in 0..500 {
            let service =
                if pipe.rng.chance(40) { Service::ReliableSequenced } else { Service::UnreliableSequenced };
            if service.is_reliable() {
                reliable.insert(number);
            }
            let size = 8 + pipe.rng.below(if number % 20 == 0 { 5000 } else { 100 }) as usize;
            pipe.send(0, numbered(service, number, size));
            if number % 3 == 0 {
                pipe.run_for(Duration::from_millis(1));
            }
        }
        pipe.settle();
        let got: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
        pipe.settle();
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}");
        let set: BTreeSet<u64> = got.iter().copied().collect();
        assert!(reliable.is_subset(&set), "seed {seed}");
        assert!(set.len() < 500, "seed {seed}: nothing was lost");
        pipe.assert_credit_agrees();
    }
}

#[test]
fn a_gap_is_waited_for_so_long_and_a_reliable_one_always() {
    for (first, waits) in [(Service::UnreliableSequenced, false), (Service::ReliableSequenced, true)] {
        let mut pipe = Pipe::new(1, cross());
        let mut packets = Vec::new();
        for (number, service) in [(0, first), (1, Service::UnreliableSequenced)] {
            pipe.send(0, numbered(service, number, 20));
            let mut packet = Vec::new();
            pipe.ends[0].fill(
                Time::ZERO,
                &mut crate::wire::Writer::new(&mut packet, 1400),
                &mut Vec::new(),
                0,
            );
            packets.push(packet);
        }
        let deliver = |pipe: &mut Pipe, packet: Vec<u8>| {
            let mut reader = crate::wire::Reader::new(packet.into());
            let kind = reader.u8().unwrap();
            pipe.ends[1].handle_block(pipe.now, kind, &mut reader, false).unwrap();
        };
        deliver(&mut pipe, packets.remove(1));
        assert!(pipe.ends[1].recv(pipe.now).is_none());
        pipe.now = Time::ZERO + Duration::from_millis(99);
        pipe.ends[1].handle_timeout(pipe.now);
        assert!(pipe.ends[1].recv(pipe.now).is_none());
        pipe.now = Time::ZERO + Duration::from_millis(100);
        assert_eq!(pipe.ends[1].poll_timeout(), (!waits).then_some(pipe.now));
        pipe.ends[1].handle_timeout(pipe.now);
        assert_eq!(pipe.ends[1].recv(pipe.now).is_some(), !waits);
        deliver(&mut pipe, packets.remove(0));
        let rest: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
        assert_eq!(rest, if waits { vec![0, 1] } else { vec![] });
        assert_eq!(pipe.ends[1].stats().late, u64::from(!waits));
        pipe.assert_credit_agrees();
    }
}
