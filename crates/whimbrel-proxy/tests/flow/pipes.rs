//! Connections in memory, of limited size.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use whimbrel_proxy::flow::{Broken, Channel, Program};

/// One direction of a connection or a stream, of limited size.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    room: usize,
    finished: bool,
    reset: Option<u64>,
    /// The reader takes nothing more.
    stopped: Option<u64>,
}

impl Pipe {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, u64> {
        assert!(!self.finished, "nothing is written after the end");
        if let Some(code) = self.stopped.or(self.reset) {
            return Err(code);
        }
        let taken = bytes.len().min(self.room - self.bytes.len().min(self.room));
        self.bytes.extend(&bytes[..taken]);
        Ok(taken)
    }

    /// Reads at most so much. `Ok(None)`: the end.
    pub(crate) fn read(&mut self, most: usize) -> Result<Option<Vec<u8>>, u64> {
        if let Some(code) = self.reset {
            return Err(code);
        }
        let taken: Vec<u8> = self.bytes.drain(..most.min(self.bytes.len())).collect();
        Ok(if taken.is_empty() && self.finished { None } else { Some(taken) })
    }
}

pub(crate) type Shared = Rc<RefCell<Pipe>>;

/// Both ends of a connection or a stream: what it reads, and what it writes.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) reads: Shared,
    pub(crate) writes: Shared,
}

pub(crate) fn connected(room: usize) -> (End, End) {
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

    pub(crate) fn end(&self) {
        self.writes.borrow_mut().finished = true;
    }

    pub(crate) fn abort(&self, code: u64) {
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
