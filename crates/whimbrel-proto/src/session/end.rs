//! How streams of messages end. Each direction ends by itself, once every message sent in it has its outcome.

use super::end_out::EndOut;
use super::message::{DomainKey, StreamKind};
use super::numbers::StreamSlot;
use super::send::out_blocks::Notice;
use super::state::Session;
use super::stream::WHOLE;
use crate::{Cause, PeerMisbehaved, StreamId};

impl Session {
    /// Ends this end's direction of a message stream. It takes no more messages, and the peer is told once those queued
    /// have their outcomes. Messages from the peer are still delivered. The stream is freed when both directions have
    /// ended and everything was read; its opener may then open another. If only the opener ends a stream that nobody
    /// here has claimed, the other direction ends by itself. Stream 0 never ends.
    pub fn end_messages(&mut self, id: StreamId) {
        if id != StreamId(0)
            && let Some(slot) = self.streams.find(id)
        {
            self.begin_end(slot);
        }
    }

    /// Returns whether the peer has ended its direction of a message stream and everything received was read, or the
    /// stream is gone.
    pub fn is_at_end(&self, id: StreamId) -> bool {
        self.streams.look(id).is_none_or(|stream| {
            stream.ended_in && stream.content.messages().is_none_or(|halves| halves.is_read())
        })
    }

    fn begin_end(&mut self, slot: StreamSlot) {
        let Some(stream) = self.streams.held_mut(slot) else { return };
        if stream.kind() == Some(StreamKind::Messages) && stream.end_out == EndOut::Open {
            stream.end_out = EndOut::Wanted;
            self.check_end(slot);
        }
    }

    fn is_settled(&self, key: DomainKey) -> bool {
        self.streams.still(key).is_none_or(|stream| {
            stream.lanes.iter().all(|lane| self.outbox.lane(*lane).is_empty())
                && stream.content.messages().is_none_or(|halves| halves.is_settled())
        })
    }

    /// Queues END if a stream is ending and has just had its last message resolved.
    #[inline]
    pub(super) fn check_end(&mut self, slot: StreamSlot) {
        if self.streams.held(slot).is_some_and(|stream| stream.end_out == EndOut::Wanted) {
            self.tell_end(slot);
        }
    }

    fn tell_end(&mut self, slot: StreamSlot) {
        let key = self.streams.key(slot, WHOLE);
        if self.is_settled(key)
            && let Some(stream) = self.streams.held_mut(slot)
        {
            stream.end_out = EndOut::Told;
            self.out_blocks.notify(Notice::End(key));
        }
    }

    pub(super) fn on_end(&mut self, stream: u64, final_size: u64) -> Result<(), PeerMisbehaved> {
        if stream == 0 {
            return Err(PeerMisbehaved::new(Cause::WrongStream, "stream 0 does not end"));
        }
        let Some(slot) = self.route(stream)? else { return Ok(()) };
        self.be_kind(slot, StreamKind::Messages)?;
        let Some(stream) = self.streams.held_mut(slot) else { return Ok(()) };
        if stream.recv_credit.charged() != final_size {
            return Err(PeerMisbehaved::new(Cause::Inconsistent, "a stream that ends before all of it came"));
        }
        stream.ended_in = true;
        if stream.claimed {
            self.tell_readable(slot);
        }
        self.close_credit(slot);
        self.on_quiet(slot);
        Ok(())
    }

    pub(super) fn on_end_acked(&mut self, key: DomainKey) {
        if let Some(stream) = self.streams.still_mut(key) {
            stream.end_out = EndOut::Known;
            self.on_quiet(key.slot);
        }
    }

    /// Ends this end's direction of a stream that the peer has ended, if everything was read and nobody has claimed it.
    /// If this direction has ended too, frees the stream. Called after a read and when END arrives.
    #[inline]
    pub(super) fn on_quiet(&mut self, slot: StreamSlot) {
        let Some(stream) = self.streams.held(slot).filter(|stream| stream.ended_in) else { return };
        if stream.claimed || !stream.recv_credit.is_read() {
            return;
        }
        match stream.end_out {
            EndOut::Open => self.begin_end(slot),
            EndOut::Known => self.free(slot),
            EndOut::Wanted | EndOut::Told => {}
        }
    }
}
