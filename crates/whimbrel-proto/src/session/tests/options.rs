//! Settings of one stream: order, gap wait, credit, priority and route.

use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::{Service, StreamId, Tag};

const LATEST: StreamOptions = StreamOptions {
    credit: CreditPolicy::Latest { unread: 3 },
    cross_sequencing: None,
    gap_wait: None,
    priority: 100,
    window: None,
    route: RouteClass(0),
};

fn on(stream: StreamId, service: Service, number: u64, size: usize) -> Outgoing {
    Outgoing::new(stream, service, body(number, size))
}

fn read_stream(pipe: &mut Pipe, side: usize, stream: StreamId) -> Vec<u64> {
    std::iter::from_fn(|| pipe.ends[side].recv_on(pipe.now, stream))
        .map(|message| number_of(&message))
        .collect()
}

/// Returns a stream that both ends know and of which the receiver wants only the latest messages.
fn latest(pipe: &mut Pipe) -> StreamId {
    let stream = pipe.ends[0].open_messages(StreamOptions::default()).unwrap();
    pipe.send(0, on(stream, Service::ReliableUnsequenced, 0, 8));
    pipe.settle();
    assert_eq!(pipe.ends[1].set_stream_options(stream, LATEST), Err(StreamError::SharedInbox));
    pipe.ends[1].claim_stream(stream);
    pipe.ends[1].set_stream_options(stream, LATEST).unwrap();
    assert_eq!(read_stream(pipe, 1, stream), [0], "what waited in the shared inbox moved");
    stream
}

#[test]
fn a_reader_of_the_latest_finds_the_newest_and_stops_nobody() {
    for service in [Service::UnreliableSequenced, Service::UnreliableUnsequenced] {
        let mut pipe = Pipe::plain();
        let stream = latest(&mut pipe);
        // This is far more than any window, and nobody reads.
        for number in 1..=30_000 {
            pipe.send(0, on(stream, service, number, 1000));
            if number % 1000 == 0 {
                pipe.run_for(Duration::from_secs(1));
            }
        }
        pipe.settle();
        let (sender, receiver) = (pipe.ends[0].stats(), pipe.ends[1].stats());
        assert_eq!(sender.queue_messages, 0, "{service:?}: nothing waits for credit");
        assert_eq!((receiver.received, receiver.discarded, receiver.unread), (30_001, 29_997, 3));
        assert_eq!(read_stream(&mut pipe, 1, stream), [29_998, 29_999, 30_000]);
        assert_eq!(pipe.ends[1].stats().unread, 0);
        pipe.settle();
        pipe.assert_credit_agrees();
    }
}

#[test]
fn the_latest_are_bounded_in_bytes_too_and_the_newest_stays() {
    let mut pipe = Pipe::new(1, SessionConfig { stream_window: 262_144, ..SessionConfig::default() });
    let stream = latest(&mut pipe);
    let options = StreamOptions { credit: CreditPolicy::Latest { unread: 1_000 }, ..LATEST };
    pipe.ends[1].set_stream_options(stream, options).unwrap();
    for number in 1..=9 {
        pipe.send(0, on(stream, Service::UnreliableSequenced, number, 100_000));
        pipe.settle();
    }
    assert_eq!(read_stream(&mut pipe, 1, stream), [8, 9]);
    pipe.send(0, on(stream, Service::UnreliableSequenced, 10, 1 << 20));
    pipe.settle();
    assert_eq!(read_stream(&mut pipe, 1, stream), [10], "longer than the window, but the newest");
}

#[test]
fn reliable_messages_of_such_a_stream_wait_and_keep_their_place() {
    let mut pipe = Pipe::plain();
    let stream = latest(&mut pipe);
    let order = [
        Service::ReliableSequenced,
        Service::UnreliableSequenced,
        Service::UnreliableSequenced,
        Service::ReliableSequenced,
        Service::UnreliableSequenced,
        Service::UnreliableSequenced,
    ];
    for (number, service) in (1..).zip(order) {
        pipe.send(0, on(stream, service, number, 20));
        pipe.settle();
    }
    assert_eq!(read_stream(&mut pipe, 1, stream), [1, 3, 4, 5, 6], "2 made room, in order of arrival");
    // Many reliable messages still wait for their reader.
    for number in 7..=10_000 {
        pipe.send(0, on(stream, Service::ReliableUnsequenced, number, 1000));
    }
    pipe.settle();
    assert!(pipe.ends[0].is_blocked(), "credit ran out");
    let mut got = 0;
    while pipe.ends[0].stats().queue_messages > 0 || pipe.ends[1].stats().unread > 0 {
        got += read_stream(&mut pipe, 1, stream).len();
        pipe.settle();
    }
    assert_eq!(got, 9_994);
    pipe.assert_credit_agrees();
}

#[test]
fn policies_change_under_way_and_no_credit_leaks() {
    let mut pipe = Pipe::lossy(7);
    let stream = latest(&mut pipe);
    let wait = StreamOptions::default();
    for round in 0..40u64 {
        for number in 0..300 {
            let service = Service::ALL[(number % 4) as usize];
            pipe.send(0, on(stream, service, round * 300 + number + 1, 200));
        }
        pipe.run_for(Duration::from_millis(30));
        match round % 4 {
            0 => pipe.ends[1].set_stream_options(stream, wait).unwrap(),
            1 => pipe.ends[1].release_stream(stream),
            2 => {
                pipe.ends[1].claim_stream(stream);
                pipe.ends[1].set_stream_options(stream, LATEST).unwrap();
            }
            _ => {
                read_stream(&mut pipe, 1, stream);
            }
        }
        pipe.recv_all(1);
    }
    for _ in 0..20 {
        pipe.settle();
        read_stream(&mut pipe, 1, stream);
        pipe.recv_all(1);
    }
    assert_eq!(pipe.ends[1].stats().unread, 0);
    assert_eq!(pipe.ends[0].stats().queue_messages, 0);
    pipe.assert_credit_agrees();
}

#[test]
fn a_stream_is_cross_sequenced_by_who_opened_it_and_the_other_end_follows() {
    let mut pipe = Pipe::plain();
    let cross = StreamOptions { cross_sequencing: Some(true), ..StreamOptions::default() };
    let crossed = pipe.ends[0].open_messages(cross).unwrap();
    let plain = pipe.ends[0].open_messages(StreamOptions::default()).unwrap();
    for (stream, shared) in [(crossed, true), (plain, false)] {
        for side in [0, 1] {
            pipe.send(side, on(stream, Service::ReliableSequenced, 1, 8));
            pipe.send(side, on(stream, Service::UnreliableSequenced, 2, 8));
            pipe.settle();
            let got = pipe.recv_all(1 - side);
            let numbers: Vec<u64> = got.iter().map(|message| message.id).collect();
            assert_eq!(numbers, if shared { [0, 1] } else { [0, 0] }, "{stream:?} from {side}");
            assert!(got.iter().all(|message| message.stream == stream));
        }
    }
}

#[test]
fn a_stream_waits_for_its_gaps_as_long_as_it_is_told() {
    let mut pipe = Pipe::plain();
    let stream = pipe.ends[0].open_messages(StreamOptions::default()).unwrap();
    pipe.send(0, on(stream, Service::UnreliableSequenced, 0, 8));
    pipe.settle();
    let patient = StreamOptions { gap_wait: Some(Duration::from_secs(2)), ..StreamOptions::default() };
    pipe.ends[1].set_stream_options(stream, patient).unwrap();
    for stream in [stream, StreamId(0)] {
        pipe.blackout = true;
        pipe.send(0, on(stream, Service::UnreliableSequenced, 1, 8));
        pipe.flush();
        pipe.blackout = false;
        pipe.send(0, on(stream, Service::UnreliableSequenced, 2, 8));
        pipe.flush();
    }
    // Only time can tell the receiver of the loss, because SKIP is cut off.
    pipe.blackout = true;
    pipe.recv_all(1);
    pipe.run_for(Duration::from_millis(200));
    let got: Vec<StreamId> = pipe.recv_all(1).iter().map(|message| message.stream).collect();
    assert_eq!(got, [StreamId(0)], "100 ms have passed, 2 s have not");
    pipe.run_for(Duration::from_secs(2));
    assert_eq!(pipe.recv_all(1).len(), 1);
}

#[test]
fn a_stream_has_a_priority_and_message_and_tag_go_before_it() {
    let mut pipe = Pipe::plain();
    let options = StreamOptions { priority: 30, ..StreamOptions::default() };
    let stream = pipe.ends[0].open_messages(options).unwrap();
    let settings = TagSettings { priority: Some(60), ..TagSettings::default() };
    pipe.ends[0].tag_settings(pipe.now, stream, Tag(1), settings).unwrap();
    let plain = on(stream, Service::ReliableUnsequenced, 1, 8);
    pipe.send(0, plain.clone());
    assert!(pipe.ends[0].send_copy(pipe.now, &plain, &plain.payload));
    pipe.send(0, Outgoing { tag: Some(Tag(1)), ..plain.clone() });
    pipe.send(0, Outgoing { priority: 200, ..plain });
    pipe.settle();
    let mut got: Vec<u8> = pipe.recv_all(1).iter().map(|message| message.priority).collect();
    got.sort_unstable();
    assert_eq!(got, [30, 30, 60, 200]);
}

#[test]
fn the_connection_is_told_the_route_of_what_goes_next() {
    let mut pipe = Pipe::plain();
    assert_eq!(pipe.ends[0].next_route(), None);
    let options = StreamOptions { route: RouteClass(3), ..StreamOptions::default() };
    let stream = pipe.ends[0].open_messages(options).unwrap();
    let plain = on(stream, Service::ReliableSequenced, 1, 8);
    pipe.send(0, plain.clone());
    assert_eq!(pipe.ends[0].next_route(), Some(RouteClass(3)));
    pipe.ends[0].set_stream_options(stream, StreamOptions { route: RouteClass(4), ..options }).unwrap();
    assert_eq!(pipe.ends[0].next_route(), Some(RouteClass(4)), "changed while it waits");
    pipe.settle();
    assert_eq!(pipe.ends[0].next_route(), None);
    let routed = Outgoing { route: Some(RouteClass(9)), ..plain };
    assert!(!pipe.ends[0].send_copy(pipe.now, &routed, &routed.payload));
    pipe.send(0, routed);
    assert_eq!(pipe.ends[0].next_route(), Some(RouteClass(9)), "its own goes before the stream's");
    // A lost message is sent again by the same route.
    pipe.blackout = true;
    pipe.run_for(Duration::from_millis(6));
    pipe.window = 0;
    pipe.run_for(Duration::from_secs(1));
    assert_eq!(pipe.ends[0].next_route(), Some(RouteClass(9)));
}

#[test]
fn options_of_what_is_no_message_stream_are_refused() {
    let mut pipe = Pipe::plain();
    let bytes = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    assert_eq!(pipe.ends[0].set_stream_options(bytes, LATEST), Err(StreamError::WrongKind));
    assert_eq!(pipe.ends[0].set_stream_options(StreamId(77), LATEST), Err(StreamError::UnknownStream));
    assert_eq!(pipe.ends[0].stream_options(StreamId(0)), Some(StreamOptions::default()));
}
