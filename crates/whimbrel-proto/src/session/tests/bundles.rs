//! Small messages that travel together keep every promise of those that travel alone.

use super::super::*;
use super::pipe::*;
use crate::wire::{Reader, Writer};
use crate::{Service, StreamId, Time};

fn send_small(pipe: &mut Pipe, service: Service, numbers: std::ops::Range<u64>) {
    let template = numbered(service, 0, 8);
    for number in numbers {
        // The lengths differ, so that each message needs its own length field.
        let payload = body(number, 8 + number as usize % 90);
        assert!(pipe.ends[0].send_copy(pipe.now, &template, &payload));
    }
}

/// Returns one packet of at most `mtu` bytes, and what it carried.
fn packet(pipe: &mut Pipe, mtu: usize) -> (Vec<u8>, Vec<Carried>) {
    let (mut packet, mut carried) = (Vec::new(), Vec::new());
    pipe.ends[0].fill(pipe.now, &mut Writer::new(&mut packet, mtu), &mut carried, 0);
    (packet, carried)
}

fn handle(pipe: &mut Pipe, to: usize, packet: Vec<u8>) {
    let mut reader = Reader::new(packet.into());
    while !reader.is_empty() {
        let kind = reader.u8().unwrap();
        pipe.ends[to].handle_block(pipe.now, kind, &mut reader, false).unwrap();
    }
}

fn numbers_received(pipe: &mut Pipe) -> Vec<u64> {
    pipe.recv_all(1).iter().map(number_of).collect()
}

#[test]
fn they_share_a_packet_and_one_note_of_it() {
    let mut pipe = Pipe::plain();
    send_small(&mut pipe, Service::ReliableSequenced, 0..20);
    let (bytes, carried) = packet(&mut pipe, 1400);
    assert!(matches!(carried[..], [Carried::Run { first: 0, count: 20, .. }]), "{carried:?}");
    handle(&mut pipe, 1, bytes);
    assert_eq!(numbers_received(&mut pipe), Vec::from_iter(0..20));
    pipe.ends[0].on_acked(pipe.now, &carried[0]);
    let stats = pipe.ends[0].stats();
    assert_eq!((stats.outstanding, stats.total.delivered), (0, 20));
}

#[test]
fn lost_together_they_go_again_in_smaller_packets() {
    let mut pipe = Pipe::plain();
    send_small(&mut pipe, Service::ReliableSequenced, 0..20);
    let (_, carried) = packet(&mut pipe, 1400);
    pipe.ends[0].on_lost(pipe.now, &carried[0]);
    // Some of these packets are smaller than some of the messages.
    let mut received = Vec::new();
    for mtu in std::iter::repeat_n(90, 10).chain(std::iter::repeat(300)) {
        let (bytes, carried) = packet(&mut pipe, mtu);
        if bytes.is_empty() {
            break;
        }
        assert!(bytes.len() <= mtu);
        handle(&mut pipe, 1, bytes);
        received.extend(numbers_received(&mut pipe));
        carried.iter().for_each(|item| pipe.ends[0].on_acked(pipe.now, item));
    }
    assert_eq!(received, Vec::from_iter(0..20));
    assert!(pipe.ends[0].is_drained());
    pipe.assert_credit_agrees();
}

#[test]
fn a_lost_copy_of_what_has_arrived_says_nothing_of_what_came_after() {
    for service in Service::ALL {
        let mut pipe = Pipe::plain();
        let mut packets = Vec::new();
        for numbers in [0..20, 20..40] {
            send_small(&mut pipe, service, numbers);
            packets.push(packet(&mut pipe, 4000));
        }
        let first = packets[0].1[0];
        pipe.ends[0].on_acked(pipe.now, &first);
        pipe.ends[0].on_lost(pipe.now, &first);
        pipe.ends[0].send_again(&first);
        assert!(!pipe.ends[0].wants_to_send(), "{service:?}");
        pipe.ends[0].on_acked(pipe.now, &packets[1].1[0]);
        assert_eq!(pipe.ends[0].stats().total.delivered, 40);
    }
}

#[test]
fn each_of_a_lost_bundle_has_its_own_outcome() {
    let mut pipe = Pipe::plain();
    send_small(&mut pipe, Service::UnreliableUnsequenced, 0..20);
    let (_, carried) = packet(&mut pipe, 1400);
    pipe.ends[0].on_lost(pipe.now, &carried[0]);
    // The SKIPs go in packets so small that the answers come one after another.
    let mut lost = 0;
    for _ in 0..20 {
        let (bytes, _) = packet(&mut pipe, 40);
        handle(&mut pipe, 1, bytes);
        let (mut answer, mut carried) = (Vec::new(), Vec::new());
        pipe.ends[1].fill(pipe.now, &mut Writer::new(&mut answer, 1400), &mut carried, 0);
        handle(&mut pipe, 0, answer);
        let now = pipe.ends[0].stats();
        assert_eq!(now.outstanding + now.total.lost, 20);
        assert!(now.total.lost >= lost);
        lost = now.total.lost;
    }
    assert_eq!(lost, 20);
    assert!(pipe.ends[0].is_drained());
    pipe.assert_credit_agrees();
}

#[test]
fn what_has_wishes_of_its_own_keeps_its_place_among_them() {
    let mut pipe = Pipe::plain();
    send_small(&mut pipe, Service::ReliableSequenced, 0..5);
    let id = pipe.send(0, Outgoing { tracked: true, ..numbered(Service::ReliableSequenced, 5, 20) });
    send_small(&mut pipe, Service::ReliableSequenced, 6..9);
    pipe.settle();
    assert_eq!(numbers_received(&mut pipe), Vec::from_iter(0..9));
    assert_eq!(pipe.outcomes(0), [(id, Outcome::Delivered)]);
}

#[test]
fn no_more_begin_than_credit_covers() {
    let mut pipe = Pipe::plain();
    let window = DEFAULT_CREDIT;
    let each = 50 + MESSAGE_CHARGE;
    let template = numbered(Service::ReliableSequenced, 0, 50);
    for _ in 0..window / each + 100 {
        if !pipe.ends[0].send_copy(pipe.now, &template, &template.payload) {
            packet(&mut pipe, 1400);
        }
    }
    while !packet(&mut pipe, 1400).0.is_empty() {}
    // Only the last message may overdraw.
    assert_eq!(pipe.ends[0].credit_used().0, window.div_ceil(each) * each);
}

#[test]
fn a_session_that_ends_counts_each_as_unknown() {
    let mut pipe = Pipe::plain();
    send_small(&mut pipe, Service::UnreliableUnsequenced, 0..30);
    let (_, carried) = packet(&mut pipe, 500);
    pipe.ends[0].on_lost(pipe.now, &carried[0]);
    packet(&mut pipe, 500);
    pipe.ends[0].end();
    let stats = pipe.ends[0].stats();
    assert_eq!((stats.total.unknown, stats.outstanding, stats.queue_messages), (30, 0, 0));
}

#[test]
fn what_is_not_plain_is_not_copied() {
    let mut session = Session::new(crate::Side::Client, SessionConfig::default());
    session.set_peer_limits(limits(&SessionConfig::default()));
    let plain = numbered(Service::ReliableSequenced, 0, 8);
    let odd = [
        Outgoing { tag: Some(crate::Tag(1)), ..plain.clone() },
        Outgoing { lifetime: Some(std::time::Duration::from_secs(1)), ..plain.clone() },
        Outgoing { tracked: true, ..plain.clone() },
        Outgoing { confirm: true, ..plain.clone() },
        Outgoing { ppid: Some(1), ..plain.clone() },
        Outgoing { stream: StreamId(8), ..plain.clone() },
    ];
    for odd in &odd {
        assert!(!session.send_copy(Time::ZERO, odd, &odd.payload), "{odd:?}");
    }
    assert!(!session.send_copy(Time::ZERO, &plain, &[0; 257]));
    assert!(session.send_copy(Time::ZERO, &plain, &plain.payload));
}
