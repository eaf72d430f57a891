use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::{Service, StreamId};

#[test]
fn an_unread_inbox_stops_the_sender_and_reading_lets_it_go_on() {
    let config =
        SessionConfig { session_window: 1 << 20, stream_window: 512 << 10, ..SessionConfig::default() };
    for service in Service::ALL {
        let mut pipe = Pipe { loss: 5, ..Pipe::new(2, config) };
        for number in 0..3000 {
            pipe.send(0, numbered(service, number, 1000));
        }
        pipe.settle();
        let unread = pipe.ends[1].stats().unread;
        assert!((400..=520).contains(&unread), "{service:?}: {unread}");
        let mut got = 0;
        loop {
            let read = pipe.recv_all(1).len();
            pipe.settle();
            if read == 0 {
                break;
            }
            got += read;
        }
        if service.is_reliable() {
            assert_eq!(got, 3000);
        }
        assert!(pipe.ends[0].is_drained(), "{service:?}");
        pipe.assert_credit_agrees();
    }
}

#[test]
fn a_stalled_reader_holds_back_only_its_stream() {
    let config =
        SessionConfig { session_window: 2 << 20, stream_window: 256 << 10, ..SessionConfig::default() };
    let mut pipe = Pipe::new(3, config);
    let stalled = pipe.ends[0].open_stream(StreamKind::Messages).unwrap();
    pipe.send(0, Outgoing { stream: stalled, ..numbered(Service::ReliableSequenced, 0, 1000) });
    pipe.run_for(Duration::from_millis(20));
    assert!(pipe.ends[1].claim_stream(stalled));
    for number in 1..2000 {
        pipe.send(0, Outgoing { stream: stalled, ..numbered(Service::ReliableSequenced, number, 1000) });
    }
    let mut got = 0;
    for number in 0..5000 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 1000));
        if number % 100 == 0 {
            pipe.run_for(Duration::from_millis(20));
            got += pipe.recv_all(1).len();
        }
    }
    for _ in 0..50 {
        pipe.run_for(Duration::from_millis(100));
        got += pipe.recv_all(1).len();
    }
    assert_eq!(got, 5000);
    let mut late = 0;
    loop {
        let read = std::iter::from_fn(|| pipe.ends[1].recv_on(pipe.now, stalled)).count();
        pipe.settle();
        if read == 0 {
            break;
        }
        late += read;
    }
    assert_eq!(late, 2000);
    pipe.assert_credit_agrees();
}

#[test]
fn early_credit_is_the_default_and_grows_with_the_handshake() {
    let config = SessionConfig::default();
    let mut pipe = Pipe::new(1, config);
    pipe.ends = [Session::new(crate::Side::Client, config), Session::new(crate::Side::Server, config)];
    for number in 0..1000 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 1000));
    }
    let too_large = numbered(Service::ReliableSequenced, 0, 300_000);
    assert_eq!(pipe.ends[0].send(pipe.now, too_large), Err(SendError::TooLarge { limit: DEFAULT_CREDIT }));
    pipe.settle();
    let before = pipe.ends[1].stats().unread;
    assert!((200..300).contains(&before), "{before}");
    pipe.ends[0].set_peer_limits(limits(&config));
    pipe.settle();
    assert_eq!(pipe.ends[1].stats().unread, 1000);
    assert_eq!(pipe.recv_all(1)[0].stream, StreamId(0));
}

#[test]
fn one_message_may_overdraw_and_no_second() {
    let config =
        SessionConfig { session_window: 1 << 20, stream_window: 1 << 20, ..SessionConfig::default() };
    let mut pipe = Pipe::new(1, config);
    for number in 0..3 {
        pipe.send(0, numbered(Service::ReliableUnsequenced, number, 4 << 20));
    }
    pipe.settle();
    assert_eq!(pipe.ends[1].stats().unread, 1);
    for _ in 0..3 {
        assert_eq!(pipe.recv_all(1).len(), 1);
        pipe.settle();
    }
    pipe.assert_credit_agrees();
}
