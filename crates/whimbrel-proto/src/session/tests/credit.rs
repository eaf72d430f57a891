use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::budget::Budgets;
use crate::{Service, StreamId};

const KIB: u64 = 1 << 10;

/// Returns a pipe whose ends have budgets of their own.
fn budgeted(seed: u64, config: SessionConfig, credit: u64) -> (Pipe, [Budgets; 2]) {
    let mut pipe = Pipe { window: 4096, ..Pipe::new(seed, config) };
    let budgets = [(); 2].map(|()| Budgets::new(credit, u64::MAX, u64::MAX));
    let mut ends = pipe.ends.into_iter();
    let mut next = |at: usize| ends.next().unwrap().drawing_on(&budgets[at]);
    pipe.ends = [next(0), next(1)];
    (pipe, budgets)
}

/// Writes as much as the stream takes, again and again, until `read` bytes of it were read.
fn stream_through(pipe: &mut Pipe, stream: StreamId, read: u64) {
    let mut got = 0;
    for _ in 0..10_000 {
        let now = pipe.now;
        pipe.ends[0].write(now, stream, vec![7; 256 << 10].into()).unwrap();
        pipe.run_for(Duration::from_millis(5));
        while got < read
            && let Ok(Read::Data(bytes)) = pipe.ends[1].read(stream, 16 << 10)
        {
            got += bytes.len() as u64;
        }
        if got >= read {
            return;
        }
    }
    panic!("{got} of {read} bytes");
}

/// Opens byte streams of which `read` bytes each are read, and then no more.
fn stall(pipe: &mut Pipe, streams: u64, read: u64) -> Vec<StreamId> {
    (0..streams)
        .map(|_| {
            let stream = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
            stream_through(pipe, stream, read);
            pipe.run_for(Duration::from_millis(300));
            stream
        })
        .collect()
}

fn credit(pipe: &Pipe, side: usize, stream: StreamId) -> StreamCredit {
    let all = pipe.ends[side].stream_credit(pipe.now);
    *all.iter().find(|credit| credit.stream == stream).unwrap()
}

fn news(pipe: &mut Pipe, side: usize) -> Vec<SessionEvent> {
    std::iter::from_fn(|| pipe.ends[side].poll_event()).collect()
}

#[test]
fn an_unread_inbox_stops_the_sender_and_reading_lets_it_go_on() {
    for service in Service::ALL {
        let mut pipe = Pipe { loss: 5, ..Pipe::plain() };
        for number in 0..3000 {
            pipe.send(0, numbered(service, number, 1000));
        }
        pipe.settle();
        let unread = pipe.ends[1].stats().unread;
        assert!((200..=260).contains(&unread), "{service:?}: {unread}");
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
    let mut pipe = Pipe::new(3, SessionConfig { stream_window: 256 << 10, ..SessionConfig::default() });
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
    let config = SessionConfig { stream_share: 2 << 20, ..SessionConfig::default() };
    let mut pipe = Pipe::new(1, config);
    pipe.ends = [Session::new(crate::Side::Client, config), Session::new(crate::Side::Server, config)];
    let streams: Vec<StreamId> =
        (0..8).map(|_| pipe.ends[0].open_stream(StreamKind::Bytes).unwrap()).collect();
    for stream in &streams {
        pipe.ends[0].write(pipe.now, *stream, vec![7; 100_000].into()).unwrap();
    }
    for number in 0..1000 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 1000));
    }
    let too_large = numbered(Service::ReliableSequenced, 0, 300_000);
    assert_eq!(pipe.ends[0].send(pipe.now, too_large), Err(SendError::TooLarge { limit: DEFAULT_CREDIT }));
    pipe.settle();
    // The limit holds for all streams together, and the last message may overdraw.
    let used = pipe.ends[0].credit_used().0;
    assert!((DEFAULT_CREDIT..DEFAULT_CREDIT + 1032).contains(&used), "{used}");
    assert_eq!(pipe.ends[0].stats().blocked_streams, 0, "no stream is out of its own credit");
    pipe.ends[0].set_peer_limits(limits(&config));
    pipe.settle();
    assert_eq!(pipe.ends[1].stats().unread, 1000);
    assert_eq!(pipe.recv_all(1)[0].stream, StreamId(0));
    assert!(streams.iter().all(|stream| credit(&pipe, 1, *stream).unread == 100_000));
}

#[test]
fn one_message_may_overdraw_and_no_second() {
    let mut pipe = Pipe::plain();
    for number in 0..3 {
        pipe.send(0, numbered(Service::ReliableUnsequenced, number, 4 << 20));
    }
    pipe.settle();
    assert_eq!(pipe.ends[1].stats().unread, 1);
    for _ in 0..2 {
        assert_eq!(pipe.recv_all(1).len(), 1);
        pipe.settle();
    }
    assert_eq!(pipe.recv_all(1).len(), 1);
    pipe.settle();
    pipe.assert_credit_agrees();
}

#[test]
fn windows_grow_with_what_is_read_as_far_as_the_reserve_goes() {
    let (mut pipe, budgets) = budgeted(1, SessionConfig::default(), 1 << 30);
    let first = stall(&mut pipe, 1, 0)[0];
    assert_eq!(credit(&pipe, 1, first).window, 64 * KIB, "nobody reads");
    stream_through(&mut pipe, first, 8 << 20);
    assert_eq!(credit(&pipe, 1, first).window, 4096 * KIB);
    // The endpoint's budget also limits the windows.
    let (mut small, [_, budget]) = budgeted(1, SessionConfig::default(), 512 * KIB);
    let streams = stall(&mut small, 2, 4 << 20);
    let windows: Vec<u64> = streams.iter().map(|stream| credit(&small, 1, *stream).window).collect();
    assert_eq!(windows, [(64 + 256) * KIB, (64 + 128) * KIB]);
    assert_eq!(budget.credit.used(), 384 * KIB);
    drop(pipe);
    drop(small);
    assert_eq!((budgets[1].credit.used(), budget.credit.used()), (0, 0));
}

#[test]
fn stalled_streams_leave_room_for_the_next_reader() {
    let (mut pipe, budgets) = budgeted(1, SessionConfig::default(), 1 << 30);
    let stalled = stall(&mut pipe, 20, 6 << 20);
    let held = budgets[1].credit.used();
    assert_eq!(held, pipe.ends[1].stats().credit_beyond_shares);
    assert!(held < 8 << 20, "{held}");
    let next = pipe.ends[0].open_stream(StreamKind::Bytes).unwrap();
    let begin = pipe.now;
    stream_through(&mut pipe, next, 4 << 20);
    // Each round trip of 10 ms carries the stream's share. Driving in steps takes a little longer.
    assert!(pipe.now - begin < Duration::from_millis(1500), "{:?}", pipe.now - begin);
    pipe.send(0, numbered(Service::ReliableSequenced, 1, 9));
    pipe.run_for(Duration::from_millis(11));
    assert_eq!(pipe.recv_all(1).len(), 1);
    // A stream that is read again continues, and streams that end give back what they had.
    stream_through(&mut pipe, stalled[0], 8 << 20);
    for stream in stalled.into_iter().chain([next]) {
        pipe.ends[0].reset(stream, 1).unwrap();
        pipe.ends[1].reset(stream, 1).unwrap();
        pipe.settle();
        for end in &mut pipe.ends {
            assert!(matches!(end.read(stream, 1), Ok(Read::Reset(1)) | Err(StreamError::UnknownStream)));
        }
        pipe.settle();
    }
    assert_eq!(pipe.ends[0].byte_streams(), []);
    assert_eq!(budgets[1].credit.used(), 0);
    pipe.assert_credit_agrees();
}

#[test]
fn a_stream_that_is_over_gives_back_what_is_read() {
    let (mut pipe, budgets) = budgeted(1, SessionConfig::default(), 1 << 30);
    let stream = stall(&mut pipe, 1, 8 << 20)[0];
    pipe.ends[0].finish(pipe.now, stream).unwrap();
    while pipe.ends[0].stream_credit(pipe.now)[1].blocked_for.is_some() {
        pipe.ends[1].read(stream, 1 << 20).unwrap();
        pipe.run_for(Duration::from_millis(50));
    }
    pipe.run_for(Duration::from_secs(1));
    while !matches!(pipe.ends[1].read(stream, 4 << 10), Ok(Read::Finished)) {}
    assert_eq!(pipe.ends[1].byte_streams(), [stream], "the other direction is open");
    assert_eq!(budgets[1].credit.used(), 0);
    let window = credit(&pipe, 1, stream).window;
    assert_eq!(window, 64 * KIB);
}

#[test]
fn both_ends_hear_of_a_stall_once() {
    let mut pipe = Pipe::plain();
    let stream = stall(&mut pipe, 1, 100 << 10)[0];
    let began = pipe.now;
    assert!(!news(&mut pipe, 0).contains(&SessionEvent::SendBlocked(stream)));
    pipe.settle();
    assert!(pipe.now - began >= Duration::from_millis(500));
    let unread = credit(&pipe, 1, stream).unread;
    assert!(unread >= 64 * KIB, "{unread}");
    assert_eq!(news(&mut pipe, 0), [SessionEvent::SendBlocked(stream)]);
    let told = news(&mut pipe, 1);
    assert!(told.contains(&SessionEvent::ReaderStalled { stream, unread }), "{told:?}");
    let stats = |pipe: &Pipe| (pipe.ends[0].stats().blocked_streams, pipe.ends[1].stats().unread_streams);
    assert_eq!(stats(&pipe), (1, 1));
    assert!(credit(&pipe, 0, stream).blocked_for >= Some(Duration::from_secs(1)));
    assert!(credit(&pipe, 1, stream).unread_for >= Some(Duration::from_secs(1)));
    pipe.run_for(Duration::from_secs(100));
    assert_eq!(news(&mut pipe, 0), []);
    // The stream is read again, and stalls again.
    while let Ok(Read::Data(_)) = pipe.ends[1].read(stream, 1000) {}
    pipe.run_for(Duration::from_millis(15));
    assert_eq!(stats(&pipe), (0, 0));
    stream_through(&mut pipe, stream, 500 << 10);
    pipe.settle();
    assert!(news(&mut pipe, 0).contains(&SessionEvent::SendBlocked(stream)));
    assert_eq!(stats(&pipe), (1, 1));
}

#[test]
fn the_books_are_right_over_suspending() {
    let (mut pipe, budgets) = budgeted(1, SessionConfig::default(), 1 << 30);
    let stalled = stall(&mut pipe, 3, 4 << 20);
    let held = budgets[1].credit.used();
    assert!(held > 1 << 20);
    pipe.suspend(2, Duration::from_secs(5));
    assert_eq!(budgets[1].credit.used(), 0, "it has left");
    let [near, far] = pipe.ends;
    pipe.ends = [near, far.drawing_on(&budgets[0])];
    assert_eq!(budgets[0].credit.used(), held);
    stream_through(&mut pipe, stalled[0], 8 << 20);
    pipe.settle();
    pipe.assert_credit_agrees();
    for end in &mut pipe.ends {
        end.end();
    }
    assert_eq!(budgets[0].credit.used(), 0, "nothing comes any more");
    while let Ok(Read::Data(_)) = pipe.ends[1].read(stalled[1], 1 << 20) {}
    assert_eq!(budgets[0].credit.used(), 0);
}

#[test]
fn a_queue_full_of_what_is_not_read_takes_what_others_send() {
    let config = SessionConfig { send_queue_messages: 50, ..SessionConfig::default() };
    let mut pipe = Pipe::new(1, config);
    let stalled = pipe.ends[0].open_stream(StreamKind::Messages).unwrap();
    let unread = Outgoing { stream: stalled, ..numbered(Service::ReliableSequenced, 0, 10_000) };
    pipe.send(0, unread.clone());
    pipe.run_for(Duration::from_millis(50));
    assert!(pipe.ends[1].claim_stream(stalled));
    while pipe.ends[0].send(pipe.now, unread.clone()).is_ok() {
        pipe.run_for(Duration::from_millis(1));
    }
    news(&mut pipe, 0);
    for number in 0..100 {
        pipe.send(0, numbered(Service::ReliableSequenced, number, 9));
        let second = numbered(Service::ReliableSequenced, number, 10_000);
        assert!(matches!(pipe.ends[0].send(pipe.now, second), Err(SendError::QueueFull(_))), "one at a time");
        pipe.run_for(Duration::from_millis(20));
        assert_eq!(pipe.recv_all(1).len(), 1);
        assert!(news(&mut pipe, 0).iter().filter(|event| **event == SessionEvent::Writable).count() == 1);
        assert!(pipe.ends[0].send(pipe.now, unread.clone()).is_err());
        pipe.run_for(Duration::from_millis(20));
        assert!(!news(&mut pipe, 0).contains(&SessionEvent::Writable), "nothing has changed for it");
    }
}
