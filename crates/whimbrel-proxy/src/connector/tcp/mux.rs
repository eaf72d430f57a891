//! Many streams and messages over one link: pure, without a socket.

use std::collections::BTreeMap;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::frame::{Frame, LONGEST, Violation};
use super::half::{IncomingHalf, OutgoingHalf};
use super::outbox::Outbox;
use crate::connector::failure::Failure;
use crate::protocol::codes;

/// The most streams of the peer at a time. Further ones are reset.
pub(super) const MOST_STREAMS: usize = 10_000;
/// The credit that all windows of a link may have beyond their shares, in bytes.
pub(super) const POOL: usize = 16 << 20;
/// The longest piece of a stream in one frame, so that streams take turns.
const PIECE: usize = 16 * 1024;

/// The streams of a link, and what waits to be sent.
#[derive(Debug)]
pub(super) struct Mux {
    streams: BTreeMap<u64, StreamState>,
    /// The next stream of this end, and the least that the peer may open. One of both ends has the odd numbers.
    next: u64,
    next_of_peer: u64,
    of_peer: usize,
    pool: usize,
    outbox: Outbox,
    is_over: bool,
}

#[derive(Debug, Default)]
struct StreamState {
    incoming: IncomingHalf,
    outgoing: OutgoingHalf,
    is_of_peer: bool,
}

/// The meaning of a frame for those who use the link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The peer has opened this stream.
    Opened(u64, Bytes),
    Message(Bytes),
    /// The peer ends the link.
    Closed(Bytes),
}

impl Mux {
    /// Returns whether a stream is open.
    pub(super) fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// A link without streams.
    pub(super) fn new(is_dialler: bool) -> Self {
        let (next, next_of_peer) = if is_dialler { (0, 1) } else { (1, 0) };
        let streams = BTreeMap::new();
        Self {
            streams,
            next,
            next_of_peer,
            of_peer: 0,
            pool: POOL,
            outbox: Outbox::default(),
            is_over: false,
        }
    }

    /// Takes a frame of the peer.
    pub(super) fn on_frame(&mut self, frame: Frame) -> Result<Option<Event>, Violation> {
        match frame {
            Frame::Open(stream, opening) => {
                if stream % 2 != self.next_of_peer % 2 || stream < self.next_of_peer {
                    return Err(Violation("a stream has a number that it cannot have"));
                }
                self.next_of_peer = stream + 2;
                if self.of_peer < MOST_STREAMS {
                    self.of_peer += 1;
                    self.streams.insert(stream, StreamState { is_of_peer: true, ..StreamState::default() });
                    return Ok(Some(Event::Opened(stream, opening)));
                }
                self.outbox.push(Frame::Reset(stream, codes::LIMIT), None);
                self.outbox.push(Frame::Stop(stream, codes::LIMIT), None);
            }
            Frame::Data(stream, bytes) => self.of(stream, |state| state.incoming.on_data(&bytes))?,
            Frame::Finish(stream) => self.of(stream, |state| state.incoming.on_end(None))?,
            Frame::Reset(stream, code) => self.of(stream, |state| state.incoming.on_end(Some(code)))?,
            Frame::Stop(stream, code) => self.of(stream, |state| {
                state.outgoing.on_stop(code);
                Ok(())
            })?,
            Frame::Credit(stream, bytes) => self.of(stream, |state| {
                state.outgoing.on_credit(bytes);
                Ok(())
            })?,
            Frame::Message(bytes) => return Ok(Some(Event::Message(bytes))),
            Frame::Ping => self.outbox.push(Frame::Pong, None),
            Frame::Pong => {}
            Frame::Close(why) => return Ok(Some(Event::Closed(why))),
        }
        match self.outbox.overflows() {
            true => Err(Violation("it does not read what it is answered")),
            false => Ok(None),
        }
    }

    /// Does something to a stream. One that is gone here may still be there for the peer.
    fn of(
        &mut self,
        stream: u64,
        act: impl FnOnce(&mut StreamState) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let is_own = stream % 2 == self.next % 2;
        if stream >= if is_own { self.next } else { self.next_of_peer } {
            return Err(Violation("a stream that was never opened"));
        }
        self.streams.get_mut(&stream).map_or(Ok(()), act)
    }

    /// Opens a stream.
    pub(super) fn open(&mut self, opening: Bytes) -> Result<u64, Failure> {
        if self.is_over || opening.len() > LONGEST {
            return Err(Failure::Over);
        }
        let stream = self.next;
        self.next += 2;
        self.streams.insert(stream, StreamState::default());
        self.outbox.push(Frame::Open(stream, opening), None);
        Ok(stream)
    }

    /// Sends a message, unless there is no room. One with a time is not sent later. Returns whether it will be.
    pub(super) fn send(&mut self, message: Bytes, until: Option<Instant>) -> bool {
        let fits = !self.is_over && message.len() <= LONGEST && self.outbox.room() > 0;
        if fits {
            self.outbox.push(Frame::Message(message), until);
        }
        fits
    }

    /// Sends a message that must arrive. It needs no room, since what makes them is limited.
    pub(super) fn send_surely(&mut self, message: Bytes) -> bool {
        let fits = !self.is_over && message.len() <= LONGEST && !self.outbox.overflows();
        if fits {
            self.outbox.push(Frame::Message(message), None);
        }
        fits
    }

    pub(super) fn ping(&mut self) {
        self.outbox.push(Frame::Ping, None);
    }

    /// Reads a stream: at most so many bytes, none at the end.
    pub(super) fn poll_read(
        &mut self,
        stream: u64,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Failure>> {
        let Some(state) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Failure::Ended)) };
        match state.incoming.take(most) {
            Some(read) => {
                if let Some(credit) = state.incoming.grant(&mut self.pool) {
                    self.outbox.push(Frame::Credit(stream, credit), None);
                }
                Poll::Ready(read)
            }
            None if self.is_over => Poll::Ready(Err(Failure::Over)),
            None => {
                state.incoming.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Writes to a stream. Returns the number of bytes that were taken.
    pub(super) fn poll_write(
        &mut self,
        stream: u64,
        bytes: &Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Failure>> {
        let Some(state) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Failure::Ended)) };
        let outgoing = &mut state.outgoing;
        outgoing.check()?;
        if self.is_over {
            return Poll::Ready(Err(Failure::Over));
        }
        let credit = usize::try_from(outgoing.credit).unwrap_or(usize::MAX);
        let room = self.outbox.room();
        let taken = bytes.len().min(credit).min(room).min(PIECE);
        if taken == 0 && !bytes.is_empty() {
            outgoing.writer = Some(cx.waker().clone());
            if room == 0 && credit > 0 && !outgoing.waits {
                outgoing.waits = true;
                self.outbox.wait(stream);
            }
            return Poll::Pending;
        }
        if taken > 0 {
            outgoing.credit -= taken as u64;
            self.outbox.push(Frame::Data(stream, bytes.slice(..taken)), None);
        }
        Poll::Ready(Ok(taken))
    }

    /// Waits until the peer reads no more.
    pub(super) fn poll_stopped(&mut self, stream: u64, cx: &mut Context<'_>) -> Poll<Result<u64, Failure>> {
        let Some(state) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Failure::Ended)) };
        match state.outgoing.stopped() {
            Some(code) => Poll::Ready(Ok(code)),
            None if self.is_over => Poll::Ready(Err(Failure::Over)),
            None => {
                state.outgoing.watcher = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends the direction to the peer. What was written goes first.
    pub(super) fn finish(&mut self, stream: u64) {
        self.end(stream, Frame::Finish(stream));
    }

    /// Ends it early.
    pub(super) fn reset(&mut self, stream: u64, code: u64) {
        self.end(stream, Frame::Reset(stream, code));
    }

    fn end(&mut self, stream: u64, frame: Frame) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        if state.outgoing.end() && !self.is_over {
            self.outbox.push(frame, None);
        }
    }

    /// Reads no more.
    pub(super) fn stop(&mut self, stream: u64, code: u64) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        if state.incoming.stop() && !self.is_over {
            self.outbox.push(Frame::Stop(stream, code), None);
        }
    }

    /// Nobody holds the direction from the peer any more.
    pub(super) fn drop_reader(&mut self, stream: u64) {
        self.stop(stream, 0);
        self.release(stream, |state| state.incoming.is_held = false);
    }

    /// Nobody holds the direction to the peer any more.
    pub(super) fn drop_writer(&mut self, stream: u64) {
        self.reset(stream, 0);
        self.release(stream, |state| state.outgoing.is_held = false);
        // It may have been its turn.
        self.wake_streams();
    }

    fn release(&mut self, stream: u64, release: impl FnOnce(&mut StreamState)) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        release(state);
        if !state.incoming.is_held && !state.outgoing.is_held {
            self.pool += state.incoming.share_of_pool();
            self.of_peer -= usize::from(state.is_of_peer);
            self.streams.remove(&stream);
        }
    }

    /// Takes bytes to send. `None`: the link is over, and everything was sent.
    pub(super) fn poll_send(&mut self, most: usize, cx: &mut Context<'_>) -> Poll<Option<BytesMut>> {
        let mut bytes = BytesMut::new();
        self.outbox.take(&mut bytes, most);
        self.wake_streams();
        match bytes.is_empty() {
            false => Poll::Ready(Some(bytes)),
            true if self.is_over => Poll::Ready(None),
            true => {
                self.outbox.set_sender(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Wakes streams that wait for room, as many as it may be enough for; all if nothing else will wake them.
    fn wake_streams(&mut self) {
        let mut turns = match self.outbox.is_empty() {
            true => usize::MAX,
            false => self.outbox.room() / PIECE,
        };
        while turns > 0 {
            let Some(stream) = self.outbox.next_stream() else { return };
            let Some(state) = self.streams.get_mut(&stream) else { continue };
            state.outgoing.waits = false;
            if let Some(writer) = state.outgoing.writer.take() {
                writer.wake();
                turns -= 1;
            }
        }
    }

    /// Ends the link. The peer is told why, if it is there.
    pub(super) fn end_link(&mut self, why: Option<&str>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        for state in self.streams.values_mut() {
            state.incoming.wake();
            state.outgoing.wake();
        }
        match why {
            Some(why) => self.outbox.push(Frame::Close(Bytes::copy_from_slice(why.as_bytes())), None),
            None => self.outbox.clear(),
        }
    }
}
