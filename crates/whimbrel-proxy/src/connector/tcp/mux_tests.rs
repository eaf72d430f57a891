//! Tests of two ends of a link without a connection between them.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::*;

use super::frame::{Frame, Frames, LONGEST, MOST, Violation};
use super::half::SHARE;
use super::mux::{Event, MOST_STREAMS, Mux};
use super::outbox;
use crate::connector::failure::Failure;

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Two ends, and what goes between them.
struct Pair {
    ends: [Mux; 2],
    frames: [Frames; 2],
    opened: Vec<(u64, Bytes)>,
    messages: Vec<Bytes>,
}

impl Pair {
    fn new() -> Self {
        let ends = [Mux::new(true), Mux::new(false)];
        Self { ends, frames: Default::default(), opened: Vec::new(), messages: Vec::new() }
    }

    /// Carries everything from one end to the other. Returns whether there was something.
    fn carry(&mut self, from: usize) -> bool {
        let mut carried = false;
        while let Poll::Ready(Some(bytes)) = self.ends[from].poll_send(1_000, &mut cx()) {
            carried = true;
            self.frames[1 - from].buffer().extend_from_slice(&bytes);
            while let Some(frame) = self.frames[1 - from].next().unwrap() {
                match self.ends[1 - from].on_frame(frame).unwrap() {
                    Some(Event::Opened(stream, opening)) => self.opened.push((stream, opening)),
                    Some(Event::Message(message)) => self.messages.push(message),
                    Some(Event::Closed(_)) | None => {}
                }
            }
        }
        carried
    }

    fn settle(&mut self) {
        while self.carry(0) | self.carry(1) {}
    }

    fn read(&mut self, end: usize, stream: u64) -> Poll<Result<Bytes, Failure>> {
        self.ends[end].poll_read(stream, usize::MAX, &mut cx())
    }

    fn write(&mut self, end: usize, stream: u64, bytes: &[u8]) -> Poll<Result<usize, Failure>> {
        self.ends[end].poll_write(stream, &Bytes::copy_from_slice(bytes), &mut cx())
    }
}

#[test]
fn a_stream_has_an_opening_bytes_both_ways_and_two_ends() {
    let mut pair = Pair::new();
    let stream = pair.ends[0].open("where to".into()).unwrap();
    assert_eq!(pair.write(0, stream, b"early"), Poll::Ready(Ok(5)));
    pair.settle();
    assert_eq!(pair.opened, [(stream, "where to".into())]);
    assert_eq!(pair.read(1, stream), Poll::Ready(Ok("early".into())));
    pair.ends[0].finish(stream);
    pair.settle();
    assert_eq!(pair.read(1, stream), Poll::Ready(Ok(Bytes::new())), "the end");
    // The other direction goes on.
    assert_eq!(pair.write(1, stream, b"answer"), Poll::Ready(Ok(6)));
    pair.ends[1].finish(stream);
    pair.settle();
    assert_eq!(pair.read(0, stream), Poll::Ready(Ok("answer".into())));
    assert_eq!(pair.read(0, stream), Poll::Ready(Ok(Bytes::new())));
    assert_eq!(pair.write(0, stream, b"more"), Poll::Ready(Err(Failure::Ended)));
}

#[test]
fn codes_of_resets_and_stops_arrive() {
    let mut pair = Pair::new();
    let stream = pair.ends[0].open(Bytes::new()).unwrap();
    assert_eq!(pair.write(0, stream, b"lost"), Poll::Ready(Ok(4)));
    pair.settle();
    pair.ends[0].reset(stream, 7);
    pair.ends[0].stop(stream, MOST);
    pair.settle();
    assert_eq!(pair.read(1, stream), Poll::Ready(Err(Failure::Reset(7))), "what was not read is gone");
    assert_eq!(pair.ends[1].poll_stopped(stream, &mut cx()), Poll::Ready(Ok(MOST)));
    assert_eq!(pair.write(1, stream, b"x"), Poll::Ready(Err(Failure::Stopped(MOST))));
}

#[test]
fn who_does_not_read_holds_back_only_that_stream() {
    let mut pair = Pair::new();
    let [stuck, other] = [(); 2].map(|()| pair.ends[0].open(Bytes::new()).unwrap());
    let mut sent = 0;
    while let Poll::Ready(Ok(taken)) = pair.write(0, stuck, &[7; 50_000]) {
        sent += taken;
        pair.settle();
    }
    assert_eq!(sent, SHARE, "what nobody reads is limited");
    assert_eq!(pair.write(0, other, b"goes on"), Poll::Ready(Ok(7)));
    pair.settle();
    assert_eq!(pair.read(1, other), Poll::Ready(Ok("goes on".into())));
    // The window of who reads grows.
    let mut read = 0;
    while let Poll::Ready(Ok(bytes)) = pair.read(1, stuck) {
        read += bytes.len();
    }
    pair.settle();
    let mut ahead = 0;
    while let Poll::Ready(Ok(taken)) = pair.write(0, stuck, &[7; 50_000]) {
        ahead += taken;
        pair.settle();
    }
    assert!(read == SHARE && ahead > SHARE, "{read} bytes, then {ahead}");
}

#[test]
fn a_full_outbox_lets_streams_wait_and_wakes_them() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut pair = Pair::new();
    let streams: Vec<_> = (0..4).map(|_| pair.ends[0].open(Bytes::new()).unwrap()).collect();
    let woken = Arc::new(Count::default());
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    let mut written = 0;
    for stream in &streams {
        while let Poll::Ready(Ok(taken)) =
            pair.ends[0].poll_write(*stream, &vec![7; 50_000].into(), &mut context)
        {
            written += taken;
        }
    }
    assert!(written <= outbox::ROOM && !pair.ends[0].send("no room".into(), None));
    pair.carry(0);
    assert!(woken.0.load(Ordering::Relaxed) >= 2, "those that waited for room are woken");
    assert!(pair.ends[0].send("room".into(), None));
}

#[test]
fn what_a_peer_must_not_do_is_refused() {
    let refused = |frames: Vec<Frame>| {
        let mut mux = Mux::new(false);
        frames.into_iter().try_for_each(|frame| mux.on_frame(frame).map(drop))
    };
    let open = || Frame::Open(0, Bytes::new());
    let long = || Frame::Data(0, Bytes::from(vec![0; LONGEST.min(SHARE)]));
    for frames in [
        vec![Frame::Open(1, Bytes::new())],
        vec![open(), open()],
        vec![Frame::Data(0, Bytes::new())],
        vec![Frame::Credit(1, 7)],
        vec![open(), long(), Frame::Data(0, "x".into())],
        vec![open(), Frame::Finish(0), Frame::Data(0, "x".into())],
        vec![open(), Frame::Finish(0), Frame::Reset(0, 1)],
    ] {
        assert!(refused(frames.clone()).is_err(), "{frames:?}");
    }
    assert_eq!(refused(vec![open(), long(), Frame::Credit(0, MOST), Frame::Credit(0, MOST)]), Ok(()));
}

#[test]
fn streams_and_answers_of_a_peer_are_limited() {
    let mut pair = Pair::new();
    let streams: Vec<_> = (0..=MOST_STREAMS).map(|_| pair.ends[0].open(Bytes::new()).unwrap()).collect();
    pair.settle();
    assert_eq!(pair.opened.len(), MOST_STREAMS);
    let last = streams[MOST_STREAMS];
    let limit = crate::protocol::codes::LIMIT;
    assert_eq!(pair.read(0, last), Poll::Ready(Err(Failure::Reset(limit))));
    // One that is gone makes room for another.
    pair.ends[1].drop_reader(streams[0]);
    pair.ends[1].drop_writer(streams[0]);
    pair.ends[0].open(Bytes::new()).unwrap();
    pair.settle();
    assert_eq!(pair.opened.len(), MOST_STREAMS + 1);
    // Who asks and reads no answer is given up.
    let mut mux = Mux::new(false);
    let refused = (0..10 * outbox::MOST).map(|_| mux.on_frame(Frame::Ping)).find(Result::is_err);
    assert!(matches!(refused, Some(Err(Violation(_)))));
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(
        steps in proptest::collection::vec((0..2_usize, 0..3_usize, 0..3_u8, 1..90_000_usize), 1..200)
    ) {
        let mut pair = Pair::new();
        let streams: Vec<_> = (0..3).map(|_| pair.ends[0].open(Bytes::new()).unwrap()).collect();
        pair.settle();
        let mut told = [[(0_usize, 0_usize); 3]; 2];
        for (end, at, step, length) in steps {
            match step {
                0 => {
                    let sent = told[end][at].0;
                    let bytes: Vec<u8> = (sent..sent + length).map(|byte| (byte % 251) as u8).collect();
                    if let Poll::Ready(taken) = pair.write(end, streams[at], &bytes) {
                        told[end][at].0 += taken.unwrap();
                    }
                }
                1 => {
                    if let Poll::Ready(bytes) = pair.read(1 - end, streams[at]) {
                        for byte in bytes.unwrap() {
                            prop_assert_eq!(byte, (told[end][at].1 % 251) as u8);
                            told[end][at].1 += 1;
                        }
                    }
                }
                _ => drop(pair.carry(end)),
            }
        }
        for (end, told) in told.iter_mut().enumerate() {
            for (told, stream) in told.iter_mut().zip(&streams) {
                pair.settle();
                while let Poll::Ready(bytes) = pair.read(1 - end, *stream) {
                    told.1 += bytes.unwrap().len();
                    pair.settle();
                }
                prop_assert_eq!(told.0, told.1);
            }
        }
    }
}
