//! The stream interface for applications, and how streams begin and end.

use bytes::Bytes;

use super::chronicle::Note;
use super::message::{DomainKey, OpenError, Read, SessionEvent, StreamError, StreamKind};
use super::numbers::StreamSlot;
use super::receive::opening::MAX_OPENING;
use super::send::lane::LaneState;
use super::send::out_blocks::Notice;
use super::send::send_item::NO_TAG;
use super::state::Session;
use super::stream::{Stream, WHOLE};
use crate::expected::Expected;
use crate::{Cause, PeerMisbehaved, StreamId, Time};

const UNKNOWN: PeerMisbehaved = PeerMisbehaved::new(Cause::WrongStream, "a stream that was never opened");

impl Session {
    /// Opens a stream.
    ///
    /// # Errors
    /// Returns `Limit` until the peer allows more ([`SessionEvent::StreamsAvailable`]), or `Closed`.
    pub fn open_stream(&mut self, kind: StreamKind) -> Result<StreamId, OpenError> {
        if self.closing {
            return Err(OpenError::Closed);
        }
        let told = self.counts.is_wanted();
        let Some(number) = self.counts.open(self.peer.max_streams) else {
            if !told {
                self.name_last_stream();
            }
            return Err(OpenError::Limit);
        };
        let id = StreamId::nth(self.side, number);
        let mut stream = self.fresh_stream(id, None);
        stream.become_kind(kind);
        self.streams.insert(stream);
        self.chronicle.note(|| Note::Opened { stream: id, kind, by_peer: false });
        Ok(id)
    }

    /// Makes the peer hear of all streams opened by this end, by naming the last one. The peer grants more only once it
    /// has heard of those that it granted, and they may carry nothing yet.
    fn name_last_stream(&mut self) {
        let opened = self.counts.opened_by(self.side, self.side);
        let last = opened.checked_sub(1).map(|number| StreamId::nth(self.side, number));
        // If it has ended, the peer has heard of it.
        if let Some(slot) = last.and_then(|id| self.streams.find(id)) {
            self.out_blocks.notify(Notice::MaxStreamData(self.key_of(slot)));
        }
    }

    /// Opens a byte stream that begins with `opening`. The opening travels with the first bytes, and the peer has it
    /// when it accepts the stream.
    ///
    /// # Errors
    /// Fails like [`Session::open_stream`], and with `Limit` until the peer has announced its limits, `OpeningTooLong`
    /// or `NoOpenings`.
    pub fn open_stream_with(&mut self, now: Time, opening: &[u8]) -> Result<StreamId, OpenError> {
        if opening.len() > MAX_OPENING {
            return Err(OpenError::OpeningTooLong);
        }
        match self.peer.openings {
            Some(true) => {}
            Some(false) => return Err(OpenError::NoOpenings),
            None => {
                self.counts.want();
                return Err(if self.closing { OpenError::Closed } else { OpenError::Limit });
            }
        }
        let id = self.open_stream(StreamKind::Bytes)?;
        if let Some(slot) = self.streams.find(id).expected("a stream that was just opened")
            && let Some(half) = self.streams.bytes_out_mut(slot)
        {
            let before = half.kept();
            half.open_with(opening);
            self.account.buffered.adjust(before, half.kept());
            self.cover_buffered();
            self.activate_bytes(now, slot);
        }
        Ok(id)
    }

    /// Returns the opening of a byte stream that the peer opened, once. None if it has no opening.
    pub fn take_opening(&mut self, id: StreamId) -> Option<Bytes> {
        let slot = self.streams.find(id)?;
        let opening = self.streams.held_mut(slot)?.content.bytes_in_mut()?.opening.take();
        self.weigh(slot);
        opening
    }

    /// Sets the priority of data sent on a stream, 0 to 255. It applies to a byte stream's bytes at once, and to
    /// messages sent from now on.
    ///
    /// # Errors
    /// Returns [`StreamError::UnknownStream`].
    pub fn set_priority(&mut self, id: StreamId, priority: u8) -> Result<(), StreamError> {
        let stream = self.streams.look_mut(id).ok_or(StreamError::UnknownStream)?;
        stream.content.set_priority(priority);
        if stream.kind() == Some(StreamKind::Bytes) {
            for lane in &stream.lanes {
                self.outbox.lane_mut(*lane).priority = Some(priority);
            }
        }
        Ok(())
    }

    /// Limits how far the peer's credit on a stream grows, bytes. None: the session's setting. Credit granted before is
    /// not taken back.
    ///
    /// # Errors
    /// Returns [`StreamError::UnknownStream`].
    pub fn set_window(&mut self, id: StreamId, window: Option<u64>) -> Result<(), StreamError> {
        let stream = self.streams.look_mut(id).ok_or(StreamError::UnknownStream)?;
        stream.content.set_window(window);
        Ok(())
    }

    /// Returns the code with which the peer stopped a byte stream, if it did.
    pub fn stopped(&self, id: StreamId) -> Option<u64> {
        self.streams.look(id)?.content.bytes_out()?.stopped()
    }

    /// Returns whether all that was written on a byte stream has arrived, including its end, or the stream is over.
    pub fn is_delivered(&self, id: StreamId) -> bool {
        let half = self.streams.look(id).and_then(|stream| stream.content.bytes_out());
        half.is_none_or(|half| half.is_done())
    }

    /// Returns what a stream carries, if it is open and that is known.
    pub fn stream_kind(&self, id: StreamId) -> Option<StreamKind> {
        self.streams.look(id)?.kind()
    }

    fn byte_stream(&mut self, id: StreamId) -> Result<StreamSlot, StreamError> {
        let slot = self.streams.find(id).ok_or(StreamError::UnknownStream)?;
        match self.streams.held(slot).and_then(Stream::kind) {
            Some(StreamKind::Bytes) => Ok(slot),
            Some(StreamKind::Messages) => Err(StreamError::WrongKind),
            None => Err(StreamError::UnknownStream),
        }
    }

    /// Takes as many of `bytes` as there is room for and returns how many. If that is fewer than all, wait for
    /// `StreamWritable`.
    ///
    /// # Errors
    /// Returns a [`StreamError`].
    pub fn write(&mut self, now: Time, id: StreamId, mut bytes: Bytes) -> Result<usize, StreamError> {
        let slot = self.byte_stream(id)?;
        let limit = self.config.stream_send_buffer;
        let credit = self.streams.held(slot).map_or(0, |stream| stream.send_credit.room());
        let half = self.streams.held(slot).and_then(|stream| stream.content.bytes_out());
        let (before, unsent) = half.map_or((0, 0), |half| (half.kept(), half.unsent()));
        let room = self.stream_room(before, unsent < credit.min(self.account.sent.room()));
        let closing = self.closing;
        let half = self.streams.bytes_out_mut(slot).ok_or(StreamError::UnknownStream)?;
        if let Some(code) = half.stopped() {
            return Err(StreamError::Stopped(code));
        }
        if closing || !half.takes_more() {
            return Err(StreamError::Ended);
        }
        let room = limit.saturating_sub(half.buffered()).min(room);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if bytes.len() > room {
            half.wants_writable = true;
            bytes.truncate(room);
        }
        let taken = bytes.len();
        if taken > 0 {
            half.write(bytes);
            self.account.buffered.adjust(before, half.kept());
            self.cover_buffered();
            self.accounting.stats.stream_bytes_sent += taken as u64;
            self.activate_bytes(now, slot);
        }
        Ok(taken)
    }

    /// Ends this direction of a byte stream. What was written before is still delivered.
    ///
    /// # Errors
    /// Returns a [`StreamError`].
    pub fn finish(&mut self, now: Time, id: StreamId) -> Result<(), StreamError> {
        let slot = self.byte_stream(id)?;
        if !self.streams.bytes_out_mut(slot).is_some_and(|out| out.finish()) {
            return Err(StreamError::Ended);
        }
        self.activate_bytes(now, slot);
        Ok(())
    }

    /// Gives up sending on a byte stream. The peer discards what it has not read yet.
    ///
    /// # Errors
    /// Returns a [`StreamError`].
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), StreamError> {
        let slot = self.byte_stream(id)?;
        if self.reset_slot(slot, code) { Ok(()) } else { Err(StreamError::Ended) }
    }

    pub(super) fn reset_slot(&mut self, slot: StreamSlot, code: u64) -> bool {
        self.drained_below = self.drained_below.min(slot.index());
        let Some(stream) = self.streams.held_mut(slot) else { return false };
        let id = stream.id;
        let Some(half) = stream.content.bytes_out_mut().expected("a byte stream") else { return false };
        let before = half.kept();
        let news = half.reset(code & crate::wire::VARINT_MAX);
        self.account.buffered.adjust(before, half.kept());
        if news {
            for lane in std::mem::take(&mut stream.lanes) {
                self.outbox.close(lane);
            }
            self.chronicle.note(|| Note::Reset { stream: id, code, by_peer: false });
            let key = self.streams.key(slot, WHOLE);
            self.out_blocks.notify(Notice::Reset(key));
        }
        news
    }

    /// Stops reading a byte stream. The peer is asked to reset its direction.
    ///
    /// # Errors
    /// Returns a [`StreamError`].
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), StreamError> {
        let slot = self.byte_stream(id)?;
        let unread = self
            .streams
            .bytes_in_mut(slot)
            .and_then(|half| half.stop(code & crate::wire::VARINT_MAX))
            .ok_or(StreamError::Ended)?;
        self.chronicle.note(|| Note::Stopped { stream: id, code, by_peer: false });
        self.consume(slot, unread);
        self.weigh(slot);
        let key = self.streams.key(slot, WHOLE);
        self.out_blocks.notify(Notice::Stop(key));
        self.reap(slot);
        Ok(())
    }

    /// Returns the next bytes of a byte stream, at most `max`.
    ///
    /// # Errors
    /// Returns a [`StreamError`].
    pub fn read(&mut self, id: StreamId, max: usize) -> Result<Read, StreamError> {
        let slot = self.byte_stream(id)?;
        let half = self.streams.bytes_in_mut(slot).ok_or(StreamError::UnknownStream)?;
        let read = half.read(max);
        match &read {
            Read::Data(bytes) => {
                self.accounting.stats.stream_bytes_read += bytes.len() as u64;
                self.consume(slot, bytes.len() as u64);
                self.on_lighter(slot);
                self.on_rest(slot);
            }
            Read::Finished | Read::Reset(_) => self.reap(slot),
            Read::Blocked => {}
        }
        Ok(read)
    }

    /// Schedules a byte stream that has something to send.
    pub(super) fn activate_bytes(&mut self, now: Time, slot: StreamSlot) {
        self.drained_below = self.drained_below.min(slot.index());
        let first = self.streams.held(slot).and_then(|stream| stream.lanes.first().copied());
        let priority = self.streams.held(slot).map(|stream| stream.content.priority());
        let lane = first.unwrap_or_else(|| self.open_lane(slot, WHOLE, priority, NO_TAG, true));
        if self.outbox.lane(lane).state == LaneState::Idle {
            self.outbox.activate(now, lane);
        }
    }

    /// Reports once that there is something to read on a stream.
    pub(super) fn tell_readable(&mut self, slot: StreamSlot) {
        if let Some(stream) = self.streams.held_mut(slot)
            && !stream.readable_told
        {
            stream.readable_told = true;
            self.accounting.events.push_back(SessionEvent::StreamReadable(stream.id));
        }
    }

    /// Frees a byte stream once both its directions have ended.
    pub(super) fn reap(&mut self, slot: StreamSlot) {
        let over = |stream: &Stream| {
            stream.content.bytes_out().is_some_and(|half| half.is_done())
                && stream.content.bytes_in().is_some_and(|half| half.is_done())
        };
        if !self.streams.held(slot).is_some_and(over) {
            return;
        }
        self.free(slot);
    }

    /// Frees a stream that has ended both ways. If it was the peer's, the peer may open another.
    pub(super) fn free(&mut self, slot: StreamSlot) {
        self.account.stalls.forget(self.key_of(slot));
        let Some(stream) = self.streams.remove(slot) else { return };
        self.chronicle.note(|| Note::Gone { stream: stream.id });
        self.account.held.reweigh(stream.weight, 0);
        self.account.buffered.adjust(stream.content.kept_out(), 0);
        if let Some(halves) = stream.content.messages() {
            self.arenas.forget(&halves.arena);
        }
        self.accounting.on_stream_gone(stream.id.0);
        self.account.reserve.give_back(stream.recv_credit.drawn(self.share_of(stream.id)));
        for lane in stream.lanes {
            self.outbox.close(lane);
        }
        if stream.id.opener() != self.side {
            self.counts.on_peers_ended();
            self.out_blocks.notify(Notice::MaxStreams);
        }
    }

    /// Returns the stream that a block from the peer names, opening it if that is allowed. None: the stream has ended.
    pub(super) fn route(&mut self, id: u64) -> Result<Option<StreamSlot>, PeerMisbehaved> {
        let id = StreamId(id);
        if let Some(slot) = self.streams.find(id) {
            return Ok(Some(slot));
        }
        if id.opener() == self.side {
            let opened = id.index() < self.counts.opened_by(id.opener(), self.side);
            return if opened { Ok(None) } else { Err(UNKNOWN) };
        }
        if id.index() >= self.counts.granted() {
            return Err(PeerMisbehaved::new(Cause::StreamLimit, "more streams than were granted"));
        }
        if !self.counts.hear_of(id.index()) {
            return Ok(None);
        }
        Ok(Some(self.streams.insert(self.fresh_stream(id, None))))
    }

    /// Fixes that the stream carries `kind`, or checks it if that is known already.
    pub(super) fn be_kind(&mut self, slot: StreamSlot, kind: StreamKind) -> Result<(), PeerMisbehaved> {
        let Some(stream) = self.streams.held_mut(slot) else { return Ok(()) };
        match stream.kind() {
            Some(known) if known == kind => Ok(()),
            Some(_) => Err(PeerMisbehaved::new(Cause::WrongStream, "bytes and messages on one stream")),
            None => {
                stream.become_kind(kind);
                self.announce(slot);
                Ok(())
            }
        }
    }

    /// Fixes that the stream carries bytes. The application hears of the stream once its opening is complete, or it is
    /// known to have none.
    pub(super) fn be_bytes(&mut self, slot: StreamSlot) -> Result<(), PeerMisbehaved> {
        match self.streams.held_mut(slot) {
            Some(stream) if stream.kind().is_none() => stream.become_kind(StreamKind::Bytes),
            _ => self.be_kind(slot, StreamKind::Bytes)?,
        }
        Ok(())
    }

    /// Handles a block's statement of whether its byte stream begins with an opening.
    pub(super) fn declare_opening(&mut self, slot: StreamSlot, opening: bool) -> Result<(), PeerMisbehaved> {
        let Some(stream) = self.streams.held_mut(slot) else { return Ok(()) };
        if opening && stream.id.opener() == self.side {
            return Err(PeerMisbehaved::new(Cause::InvalidField, "an opening on a stream that we opened"));
        }
        if let Some(half) = stream.content.bytes_in_mut()
            && half.declare(opening)?
        {
            self.announce(slot);
        }
        Ok(())
    }

    /// Reports a stream that the peer has opened.
    pub(super) fn announce(&mut self, slot: StreamSlot) {
        if let Some(stream) = self.streams.held(slot)
            && stream.id.opener() != self.side
            && let Some(kind) = stream.kind()
        {
            let stream = stream.id;
            self.chronicle.note(|| Note::Opened { stream, kind, by_peer: true });
            self.accounting.events.push_back(SessionEvent::StreamOpened(stream, kind));
        }
    }

    /// Returns whether the application may know of the stream.
    pub(super) fn is_announced(&self, slot: StreamSlot) -> bool {
        let half = self.streams.held(slot).and_then(|stream| stream.content.bytes_in());
        half.is_none_or(|half| half.opening.is_settled())
    }

    /// Handles that a direction of a byte stream has nothing buffered. If enough others came to rest later than some
    /// stream, that one's queues are freed.
    #[inline]
    pub(super) fn on_rest(&mut self, slot: StreamSlot) {
        if let Some(longest) = self.resting.add(self.key_of(slot))
            && let Some(stream) = self.streams.still_mut(longest)
        {
            stream.content.rest();
        }
    }

    /// Handles STOP from the peer: resets this direction, so that nothing more is sent on it.
    pub(super) fn on_stop(&mut self, slot: StreamSlot, code: u64) {
        let Some(stream) = self.streams.held_mut(slot) else { return };
        let id = stream.id;
        let Some(half) = stream.content.bytes_out_mut().expected("a byte stream") else { return };
        if half.stopped().is_some() || half.is_done() {
            return;
        }
        half.on_stopped(code);
        self.chronicle.note(|| Note::Stopped { stream: id, code, by_peer: true });
        self.accounting.events.push_back(SessionEvent::StreamStopped(id, code));
        self.reset_slot(slot, code);
    }

    pub(super) fn key_of(&self, slot: StreamSlot) -> DomainKey {
        self.streams.key(slot, WHOLE)
    }
}
