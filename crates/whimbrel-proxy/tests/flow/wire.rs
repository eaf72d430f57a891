//! Byte streams of a simulated session, plain or compressed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use whimbrel_proto::StreamId;
use whimbrel_proto::session::{Read, StreamError};
use whimbrel_proxy::compress::Method;
use whimbrel_proxy::flow::compressed::Compressed;
use whimbrel_proxy::flow::{Broken, Channel};
use whimbrel_proxy::protocol::codes;
use whimbrel_sim::pair::{End as Side, Pair};

/// Two processes and the link between them. One of them may end.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) pair: Rc<RefCell<Pair>>,
    /// Whether the peer cannot be reached, as the flow sees it.
    pub(crate) is_cut: Rc<Cell<bool>>,
    /// Whether the session is over, since the far process has ended.
    pub(crate) is_lost: Rc<Cell<bool>>,
}

/// A byte stream of the session, at one end.
pub(crate) struct SimChannel {
    pub(crate) world: World,
    pub(crate) side: Side,
    pub(crate) id: StreamId,
    finished: bool,
}

impl SimChannel {
    pub(crate) fn new(world: &World, side: Side, id: StreamId) -> Self {
        Self { world: world.clone(), side, id, finished: false }
    }

    pub(crate) fn read(&self, most: usize) -> Result<Read, StreamError> {
        self.world.pair.borrow_mut().session(self.side).read(self.id, most)
    }

    fn lost(&self) -> Result<(), Broken> {
        if self.world.is_lost.get() { Err(Broken::Lost) } else { Ok(()) }
    }
}

fn broken(error: StreamError) -> Broken {
    match error {
        StreamError::Stopped(code) => Broken::Reset(code),
        _ => Broken::Reset(codes::RESET),
    }
}

impl Channel for SimChannel {
    fn poll_read(&mut self, _: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        self.lost()?;
        match self.read(3_000) {
            Ok(Read::Data(data)) => {
                bytes.push(data);
                Poll::Ready(Ok(true))
            }
            Ok(Read::Finished) => Poll::Ready(Ok(false)),
            Ok(Read::Reset(code)) => Poll::Ready(Err(Broken::Reset(code))),
            Ok(Read::Blocked) => Poll::Pending,
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        self.lost()?;
        let mut pair = self.world.pair.borrow_mut();
        let now = pair.now();
        match pair.session(self.side).write(now, self.id, bytes.clone()) {
            Ok(0) => Poll::Pending,
            Ok(taken) => {
                drop(bytes.split_to(taken));
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        if self.world.is_lost.get() {
            return Poll::Ready(Broken::Lost);
        }
        match self.world.pair.borrow_mut().session(self.side).stopped(self.id) {
            Some(code) if !self.finished => Poll::Ready(Broken::Reset(code)),
            _ => Poll::Pending,
        }
    }

    fn is_reachable(&self) -> bool {
        !self.world.is_cut.get()
    }

    fn set_priority(&mut self, priority: Option<u8>) {
        let mut pair = self.world.pair.borrow_mut();
        pair.session(self.side).set_priority(self.id, priority.unwrap_or(100)).ok();
    }

    fn finish(&mut self) {
        self.finished = true;
        let mut pair = self.world.pair.borrow_mut();
        let now = pair.now();
        pair.session(self.side).finish(now, self.id).ok();
    }

    fn reset(&mut self, code: u64) {
        if !self.world.is_lost.get() {
            let mut pair = self.world.pair.borrow_mut();
            pair.session(self.side).reset(self.id, code).ok();
            pair.session(self.side).stop(self.id, code).ok();
        }
    }
}

/// A byte stream as both ends have agreed on it.
pub(crate) enum Wire {
    Plain(SimChannel),
    Compressed(Box<Compressed<SimChannel>>),
}

impl Wire {
    pub(crate) fn new(channel: SimChannel, method: Option<Method>) -> Self {
        match method {
            Some(method) => Self::Compressed(Box::new(Compressed::new(channel, method, None, 0, None))),
            None => Self::Plain(channel),
        }
    }

    fn channel(&mut self) -> &mut dyn Channel {
        match self {
            Self::Plain(channel) => channel,
            Self::Compressed(channel) => &mut **channel,
        }
    }
}

impl Channel for Wire {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        self.channel().poll_read(cx, bytes)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        self.channel().poll_write(cx, bytes)
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        self.channel().poll_stopped(cx)
    }

    fn poll_upkeep(&mut self, cx: &mut Context<'_>) {
        self.channel().poll_upkeep(cx);
    }

    fn is_reachable(&self) -> bool {
        match self {
            Self::Plain(channel) => channel.is_reachable(),
            Self::Compressed(channel) => channel.is_reachable(),
        }
    }

    fn set_priority(&mut self, priority: Option<u8>) {
        self.channel().set_priority(priority);
    }

    fn finish(&mut self) {
        self.channel().finish();
    }

    fn reset(&mut self, code: u64) {
        self.channel().reset(code);
    }
}
