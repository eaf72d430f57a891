use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::{Service, StreamId, Time};

fn prioritised(number: u64, priority: u8) -> Outgoing {
    Outgoing { priority, ..numbered(Service::ReliableUnsequenced, number, 1000) }
}

/// Sends one packet every millisecond, like a slow link, and returns the order of arrival.
fn trickle(pipe: &mut Pipe, packets: usize) -> Vec<u64> {
    let mut order = Vec::new();
    for _ in 0..packets {
        let mut packet = Vec::new();
        let mut carried = Vec::new();
        pipe.now += Duration::from_millis(1);
        pipe.ends[0].fill(pipe.now, &mut crate::wire::Writer::new(&mut packet, 1100), &mut carried, 0);
        let mut reader = crate::wire::Reader::new(packet.into());
        while !reader.is_empty() {
            let kind = reader.u8().unwrap();
            pipe.ends[1].handle_block(pipe.now, kind, &mut reader, false).unwrap();
        }
        for item in &carried {
            pipe.ends[0].on_acked(pipe.now, item);
        }
        order.extend(pipe.recv_all(1).iter().map(number_of));
    }
    order
}

#[test]
fn the_urgent_go_first() {
    let mut pipe = Pipe::plain();
    for number in 0..20 {
        pipe.send(0, prioritised(number, 50));
    }
    pipe.send(0, prioritised(100, 150));
    assert_eq!(trickle(&mut pipe, 3)[..2], [100, 0]);
}

#[test]
fn waiting_outgrows_priority() {
    let mut pipe = Pipe::plain();
    pipe.send(0, prioritised(7777, 100));
    let mut number = 0;
    let mut waited = None;
    for step in 0..400 {
        // There are always more messages of priority 110 than the link can carry.
        pipe.send(0, prioritised(number, 110));
        pipe.send(0, prioritised(number + 1, 110));
        number += 2;
        if trickle(&mut pipe, 1).contains(&7777) {
            waited = Some(step);
            break;
        }
    }
    // Ten levels of priority are worth 20 ms each.
    assert!((190..=210).contains(&waited.unwrap()), "{waited:?}");
}

#[test]
fn equals_share() {
    let mut pipe = Pipe::plain();
    let other = pipe.ends[0].open_stream(StreamKind::Messages).unwrap();
    for number in 0..100 {
        pipe.send(0, Outgoing { stream: StreamId(0), ..numbered(Service::ReliableSequenced, number, 1000) });
    }
    for number in 100..200 {
        pipe.send(0, Outgoing { stream: other, ..numbered(Service::ReliableSequenced, number, 1000) });
    }
    let order = trickle(&mut pipe, 60);
    let first = order.iter().filter(|number| **number < 100).count();
    assert!((28..=32).contains(&first), "{first} of {}", order.len());
}

#[test]
fn an_urgent_message_lifts_those_before_it() {
    let mut pipe = Pipe::plain();
    for number in 0..5 {
        pipe.send(0, Outgoing { priority: 50, ..numbered(Service::ReliableSequenced, number, 1000) });
    }
    for number in 10..15 {
        pipe.send(0, prioritised(number, 100));
    }
    pipe.send(0, Outgoing { priority: 200, ..numbered(Service::ReliableSequenced, 5, 1000) });
    assert_eq!(trickle(&mut pipe, 6)[..6], [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_small_message_is_not_cut_to_fit() {
    let mut pipe = Pipe::plain();
    for number in 0..3 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 800));
    }
    pipe.settle();
    assert_eq!(pipe.recv_all(1).len(), 3);
    assert_eq!(pipe.packets - 3, 0, "one message a packet");
}

#[test]
fn a_full_queue_takes_a_few_urgent_messages_and_sends_them_first() {
    let config = SessionConfig { send_queue_bytes: 50_000, ..SessionConfig::default() };
    let mut pipe = Pipe::new(1, config);
    let bulk = |number| numbered(Service::ReliableSequenced, number, 1000);
    let urgent =
        |number, size| Outgoing { priority: 200, ..numbered(Service::ReliableUnsequenced, number, size) };
    let filled = (0..).take_while(|number| pipe.ends[0].send(Time::ZERO, bulk(*number)).is_ok()).count();
    assert_eq!(filled, 50);
    assert!(
        matches!(pipe.ends[0].send(Time::ZERO, urgent(0, 1100)), Err(SendError::QueueFull(_))),
        "not small"
    );
    assert!(pipe.ends[0].has_room(&urgent(0, 64)) && !pipe.ends[0].has_room(&bulk(0)));
    let taken =
        (1000..).take_while(|number| pipe.ends[0].send(Time::ZERO, urgent(*number, 1000)).is_ok()).count();
    assert_eq!(taken, 4);
    pipe.window = 1;
    pipe.run_for(Duration::from_millis(45));
    let first: Vec<u64> = pipe.recv_all(1).iter().map(number_of).collect();
    assert_eq!(first[..4], [1000, 1001, 1002, 1003], "{first:?}");
}

#[test]
fn the_queue_is_bounded_and_says_when_there_is_room() {
    let config = SessionConfig { send_queue_messages: 100, ..SessionConfig::default() };
    let mut pipe = Pipe::new(1, config);
    for number in 0..100 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 500));
    }
    assert_eq!(pipe.ends[0].queue_room().0, 0);
    let refused = pipe.ends[0].send(Time::ZERO, numbered(Service::ReliableSequenced, 100, 500));
    let Err(SendError::QueueFull(message)) = refused else { panic!("{refused:?}") };
    assert_eq!(message.payload, body(100, 500));
    assert_eq!(pipe.ends[0].poll_event(), None);
    pipe.settle();
    assert_eq!(
        std::iter::from_fn(|| pipe.ends[0].poll_event()).collect::<Vec<_>>(),
        [SessionEvent::Writable]
    );
    let too_large = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![0; (16 << 20) + 1].into());
    assert_eq!(pipe.ends[0].send(Time::ZERO, too_large), Err(SendError::TooLarge { limit: 16 << 20 }));
    let unknown = Outgoing { stream: StreamId(40), ..numbered(Service::ReliableSequenced, 0, 8) };
    assert_eq!(pipe.ends[0].send(Time::ZERO, unknown), Err(SendError::UnknownStream));
}
