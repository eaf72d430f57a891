//! The core of flows, over ends that a seed decides: small buffers, stalls, and every order of data, FIN and RST.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use whimbrel_proxy::flow::{Broken, Channel, Ended, Flow, Program};

/// One direction of a connection or a stream, of limited size.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    room: usize,
    finished: bool,
    reset: Option<u64>,
    /// The reader takes nothing more.
    stopped: Option<u64>,
}

impl Pipe {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, u64> {
        assert!(!self.finished, "nothing is written after the end");
        if let Some(code) = self.stopped.or(self.reset) {
            return Err(code);
        }
        let taken = bytes.len().min(self.room - self.bytes.len().min(self.room));
        self.bytes.extend(&bytes[..taken]);
        Ok(taken)
    }

    /// Reads at most so much. `Ok(None)`: the end.
    fn read(&mut self, most: usize) -> Result<Option<Vec<u8>>, u64> {
        if let Some(code) = self.reset {
            return Err(code);
        }
        let taken: Vec<u8> = self.bytes.drain(..most.min(self.bytes.len())).collect();
        Ok(if taken.is_empty() && self.finished { None } else { Some(taken) })
    }
}

type Shared = Rc<RefCell<Pipe>>;

/// Both ends of a connection or a stream: what it reads, and what it writes.
#[derive(Clone, Debug)]
struct End {
    reads: Shared,
    writes: Shared,
}

fn connected(room: usize) -> (End, End) {
    let pipe = || Rc::new(RefCell::new(Pipe { room, ..Pipe::default() }));
    let (one, other) = (pipe(), pipe());
    (End { reads: one.clone(), writes: other.clone() }, End { reads: other, writes: one })
}

impl End {
    fn poll(&self, most: usize) -> Poll<Result<Option<Bytes>, Broken>> {
        match self.reads.borrow_mut().read(most) {
            Ok(Some(bytes)) if bytes.is_empty() => Poll::Pending,
            Ok(bytes) => Poll::Ready(Ok(bytes.map(Bytes::from))),
            Err(code) => Poll::Ready(Err(Broken::Reset(code))),
        }
    }

    fn push(&self, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        match self.writes.borrow_mut().write(bytes) {
            Ok(0) => Poll::Pending,
            Ok(taken) => {
                bytes.advance(taken);
                Poll::Ready(Ok(()))
            }
            Err(code) => Poll::Ready(Err(Broken::Reset(code))),
        }
    }

    fn end(&self) {
        self.writes.borrow_mut().finished = true;
    }

    fn abort(&self, code: u64) {
        self.writes.borrow_mut().reset.get_or_insert(code);
        self.reads.borrow_mut().stopped.get_or_insert(code);
    }
}

impl Program for End {
    fn poll_read(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        self.poll(700)
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<(), Broken>> {
        let written = self.push(&mut bytes[0]);
        bytes.retain(|bytes| !bytes.is_empty());
        written
    }

    fn finish(&mut self) {
        self.end();
    }

    fn reset(&mut self) {
        self.abort(0);
    }
}

impl Channel for End {
    fn poll_read(&mut self, _: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        self.poll(900).map_ok(|read| {
            let more = read.is_some();
            bytes.extend(read);
            more
        })
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        self.push(bytes)
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        let stopped = self.writes.borrow().stopped;
        stopped.map_or(Poll::Pending, |code| Poll::Ready(Broken::Reset(code)))
    }

    fn finish(&mut self) {
        self.end();
    }

    fn reset(&mut self, code: u64) {
        self.abort(code);
    }
}

/// A program that writes and reads as a seed decides.
struct Talker {
    end: End,
    wants: Vec<u8>,
    written: usize,
    read: Vec<u8>,
    has_finished: bool,
    read_end: bool,
    was_reset: bool,
}

impl Talker {
    fn new(end: End, rng: &mut ChaCha20Rng) -> Self {
        let length = rng.random_range(0..20_000);
        let wants = (0..length).map(|_| rng.random()).collect();
        let read = Vec::new();
        Self { end, wants, written: 0, read, has_finished: false, read_end: false, was_reset: false }
    }

    fn act(&mut self, rng: &mut ChaCha20Rng) {
        if self.was_reset {
            return;
        }
        if rng.random_ratio(2, 3) && !self.has_finished {
            let most = (self.written + rng.random_range(1..3_000)).min(self.wants.len());
            match self.end.writes.borrow_mut().write(&self.wants[self.written..most]) {
                Ok(taken) => self.written += taken,
                Err(_) => return self.was_reset = true,
            }
            if self.written == self.wants.len() {
                self.end.end();
                self.has_finished = true;
            }
        }
        if rng.random_ratio(1, 2) && !self.read_end {
            match self.end.reads.borrow_mut().read(rng.random_range(1..2_000)) {
                Ok(Some(bytes)) => self.read.extend(bytes),
                Ok(None) => self.read_end = true,
                Err(_) => self.was_reset = true,
            }
        }
    }

    fn is_done(&self) -> bool {
        self.was_reset || self.has_finished && self.read_end
    }
}

/// What happened in a run.
#[derive(Debug, Default)]
struct Tally {
    clean: u32,
    resets: u32,
    given_up: u32,
}

fn run(seed: u64, tally: &mut Tally) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut room = || [1, 50, 1_000, 30_000][rng.random_range(0..4)];
    let ((program, near_program), (server, far_program)) = (connected(room()), connected(room()));
    let (near_channel, far_channel) = connected(room());
    let mut near = Flow::new(near_program, near_channel);
    let mut far = Flow::new(far_program, far_channel);
    let (mut program, mut server) = (Talker::new(program, &mut rng), Talker::new(server, &mut rng));
    let reset_at = rng.random_ratio(1, 4).then(|| rng.random_range(0..60));
    let give_up_at = rng.random_ratio(1, 8).then(|| rng.random_range(0..60));
    let mut cx = Context::from_waker(Waker::noop());
    let mut ended = [None, None];
    for step in 0..2_000_000_u32 {
        if reset_at == Some(step) {
            let who = if rng.random() { &mut program } else { &mut server };
            who.end.abort(0);
            who.was_reset = true;
        }
        if give_up_at == Some(step) && ended[0].is_none() {
            ended[0] = Some(near.give_up(7));
        }
        match rng.random_range(0..4) {
            0 => program.act(&mut rng),
            1 => server.act(&mut rng),
            2 => ended[0] = ended[0].or(ready(near.poll(&mut cx))),
            _ => ended[1] = ended[1].or(ready(far.poll(&mut cx))),
        }
        // Whatever happens, nothing is read that was not written, or in another order.
        assert!(server.read.len() <= program.written && program.read.len() <= server.written, "seed {seed}");
        if program.is_done() && server.is_done() && ended.iter().all(Option::is_some) {
            break;
        }
    }
    assert!(
        program.wants.starts_with(&server.read) && server.wants.starts_with(&program.read),
        "seed {seed}"
    );
    let disturbed = reset_at.is_some() || give_up_at.is_some();
    match ended {
        [Some(Ended::Finished), Some(Ended::Finished)] => {
            assert_eq!(server.read.len(), program.wants.len(), "seed {seed}");
            assert_eq!(program.read.len(), server.wants.len(), "seed {seed}");
            assert_eq!(near.bytes(), (program.wants.len() as u64, server.wants.len() as u64), "seed {seed}");
            tally.clean += 1;
        }
        [Some(one), Some(other)] => {
            assert!(disturbed, "seed {seed}: {one:?}, {other:?}");
            // One end's reset is the other's, unless that had ended.
            assert!(program.is_done() && server.is_done(), "seed {seed}: {one:?}, {other:?}");
            tally.resets += u32::from(give_up_at.is_none());
            tally.given_up += u32::from(one == Ended::GivenUp(7));
        }
        _ => panic!("seed {seed}: it does not end: {ended:?}"),
    }
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn every_order_of_data_fin_and_rst_ends_well() {
    let mut tally = Tally::default();
    for seed in 0..2_000 {
        run(seed, &mut tally);
    }
    println!("seeds 0 to 1999: {tally:?}");
    assert!(tally.clean > 1_000 && tally.resets > 100 && tally.given_up > 50, "{tally:?}");
}
