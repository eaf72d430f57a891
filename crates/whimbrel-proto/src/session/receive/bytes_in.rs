//! The receiving direction of a byte stream.

#[path = "../snapshot/bytes_in.rs"]
mod snapshot;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::assembly::Assembly;
use super::opening::StreamOpening;
use crate::session::account::held::of_queue;
use crate::session::message::Read;
use crate::{Cause, PeerMisbehaved};

const ENDED: PeerMisbehaved =
    PeerMisbehaved::new(Cause::Inconsistent, "a byte stream's end contradicts its data");

const OPENED_TWICE: PeerMisbehaved =
    PeerMisbehaved::new(Cause::Inconsistent, "a byte stream with an opening, and without one");

/// Bytes received, kept until the application reads them.
#[derive(Debug, Default)]
pub(in crate::session) struct BytesIn {
    /// The bytes that have arrived and were not read. None: there are none, and the stream has been at rest for a
    /// while.
    arrived: Option<Box<Arrived>>,
    /// Offset below which everything has arrived.
    next: u64,
    highest: u64,
    read: u64,
    /// None: no end is in sight.
    ending: Option<Box<BytesEnd>>,
    stop_acked: bool,
    /// Whether the application was told of the end.
    told: bool,
    pub(in crate::session) opening: StreamOpening,
    has_opening: bool,
}

/// How a direction ends. The codes are the applications'.
#[derive(Clone, Copy, Debug, Default)]
struct BytesEnd {
    final_size: Option<u64>,
    reset: Option<u64>,
    /// This end reads no more.
    stopped: Option<u64>,
}

impl BytesEnd {
    /// Returns whether what has not been read is not wanted any more.
    fn is_cut(self) -> bool {
        self.reset.is_some() || self.stopped.is_some()
    }
}

#[derive(Debug, Default)]
struct Arrived {
    ready: VecDeque<Bytes>,
    ready_bytes: u64,
    /// Small parts gathered in one buffer, so that each does not hold its own.
    tail: BytesMut,
    /// Parts that wait for one before them.
    assembly: Assembly,
}

impl Arrived {
    /// Creates the state of a stream of which everything below `offset` was read.
    fn at(offset: u64) -> Self {
        Self { assembly: Assembly::at(offset), ..Self::default() }
    }

    #[inline]
    fn memory(&self) -> u64 {
        let ready = of_queue(self.ready.capacity(), size_of::<Bytes>()) + self.ready_bytes;
        size_of::<Self>() as u64 + ready + self.tail.capacity() as u64 + self.assembly.memory()
    }

    fn is_readable(&self) -> bool {
        !self.ready.is_empty() || !self.tail.is_empty()
    }

    /// Appends the next bytes.
    fn append(&mut self, bytes: Bytes, small: usize) {
        if bytes.len() <= small {
            self.tail.extend_from_slice(&bytes);
        } else {
            self.flush();
            self.push(bytes);
        }
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            let tail = self.tail.split().freeze();
            self.push(tail);
        }
    }

    fn push(&mut self, bytes: Bytes) {
        self.ready_bytes += bytes.len() as u64;
        self.ready.push_back(bytes);
    }

    /// Removes and returns the next bytes, at most `max`.
    fn pop(&mut self, max: usize) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.flush();
        }
        let front = self.ready.front_mut()?;
        let bytes = if front.len() > max { front.split_to(max) } else { std::mem::take(front) };
        if front.is_empty() {
            self.ready.pop_front();
        }
        self.ready_bytes -= bytes.len() as u64;
        Some(bytes)
    }
}

impl BytesIn {
    /// Returns the memory it takes besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        self.arrived.as_ref().map_or(0, |arrived| arrived.memory()) + self.opening.memory()
    }

    fn ending(&self) -> BytesEnd {
        self.ending.as_deref().copied().unwrap_or_default()
    }

    fn ending_mut(&mut self) -> &mut BytesEnd {
        self.ending.get_or_insert_default()
    }

    fn arrived_mut(&mut self) -> &mut Arrived {
        let at = self.next;
        self.arrived.get_or_insert_with(|| Box::new(Arrived::at(at)))
    }

    /// Frees the queues if they are empty.
    pub(in crate::session) fn trim(&mut self) {
        let empty = |arrived: &Arrived| !arrived.is_readable() && arrived.assembly.is_empty();
        self.arrived = self.arrived.take().filter(|arrived| !empty(arrived));
    }

    /// Checks a part and returns by how much it raises the highest offset.
    pub(in crate::session) fn grows(&self, offset: u64, len: u64, fin: bool) -> Result<u64, PeerMisbehaved> {
        let end = offset + len;
        let beyond = self.ending().final_size.is_some_and(|size| end > size || (fin && end != size));
        if beyond || (fin && end < self.highest) {
            return Err(ENDED);
        }
        Ok(end.saturating_sub(self.highest))
    }

    /// Inserts a checked part. Returns whether there is something new to read, and how much counts as read at once.
    pub(in crate::session) fn insert(
        &mut self,
        offset: u64,
        bytes: Bytes,
        fin: bool,
        small: usize,
    ) -> Result<(bool, u64), PeerMisbehaved> {
        let end = offset + bytes.len() as u64;
        self.highest = self.highest.max(end);
        if fin {
            self.ending_mut().final_size = Some(end);
        }
        if self.ending().is_cut() {
            return Ok((false, self.discard()));
        }
        let (before, highest) = (self.next, self.highest);
        if end > before {
            let arrived = self.arrived_mut();
            if offset == before && arrived.assembly.is_empty() {
                arrived.assembly.advance(end);
                arrived.append(bytes, small);
                self.next = end;
            } else {
                // At most twice the charged bytes are allocated ahead.
                let expected = 2 * (highest - before);
                arrived.assembly.insert(offset, &bytes, expected)?;
                if let Some(bytes) = arrived.assembly.take() {
                    let length = bytes.len() as u64;
                    arrived.append(bytes, small);
                    self.next += length;
                }
            }
        }
        Ok((self.next > before || self.is_over(), 0))
    }

    /// Handles a block's statement of whether the stream has an opening, which must be the same in all blocks. Returns
    /// whether the application may hear of the stream now but could not before.
    pub(in crate::session) fn declare(&mut self, opening: bool) -> Result<bool, PeerMisbehaved> {
        match self.opening {
            // The opening is not wanted any more.
            _ if self.ending().is_cut() => {}
            StreamOpening::Unknown => {
                self.opening = if opening { StreamOpening::Awaited } else { StreamOpening::None };
                self.has_opening = opening;
                return Ok(!opening);
            }
            _ if opening != self.has_opening => return Err(OPENED_TWICE),
            _ => {}
        }
        Ok(false)
    }

    /// Removes the opening from the received bytes once it is complete. Returns how many bytes it took.
    pub(in crate::session) fn take_off_opening(&mut self) -> Result<Option<u64>, PeerMisbehaved> {
        let has_all = self.has_all();
        let arrived = self.arrived_mut();
        arrived.flush();
        let begun = match arrived.ready.len() {
            1 => arrived.ready.pop_front().unwrap_or_default(),
            _ => arrived.ready.drain(..).flatten().collect(),
        };
        let Some(found) = StreamOpening::find(&begun)? else {
            if has_all {
                return Err(ENDED);
            }
            if !begun.is_empty() {
                arrived.ready.push_back(begun);
            }
            return Ok(None);
        };
        if begun.len() > found.end {
            arrived.ready.push_back(begun.slice(found.end..));
        }
        arrived.ready_bytes -= found.end as u64;
        self.opening = StreamOpening::Here(Box::new(Bytes::copy_from_slice(&begun[found.clone()])));
        self.read += found.end as u64;
        Ok(Some(found.end as u64))
    }

    /// Counts everything seen as read, and returns how much of it had not been.
    fn discard(&mut self) -> u64 {
        let unread = self.highest - self.read;
        self.read = self.highest;
        self.arrived = None;
        unread
    }

    /// Handles RESET from the peer. Returns the additional charge.
    pub(in crate::session) fn on_reset(&mut self, code: u64, final_size: u64) -> Result<u64, PeerMisbehaved> {
        if final_size < self.highest || self.ending().final_size.is_some_and(|size| size != final_size) {
            return Err(ENDED);
        }
        let grown = final_size - self.highest;
        self.highest = final_size;
        // Only FIN makes a stream complete. A stream that was reset is not, even if all bytes before the RESET arrived.
        if !self.has_all() {
            self.ending_mut().reset.get_or_insert(code);
        }
        self.ending_mut().final_size = Some(final_size);
        Ok(grown)
    }

    /// Returns what counts as read now. Called after [`Self::on_reset`].
    pub(in crate::session) fn after_reset(&mut self) -> u64 {
        if self.ending().reset.is_some() { self.discard() } else { 0 }
    }

    /// Stops reading. Returns what counts as read now, or none if the stream was stopped or had ended already.
    pub(in crate::session) fn stop(&mut self, code: u64) -> Option<u64> {
        if self.ending().is_cut() || self.told {
            return None;
        }
        self.ending_mut().stopped = Some(code);
        Some(self.discard())
    }

    /// Returns the code for STOP, as long as it makes sense to send it.
    pub(in crate::session) fn stop_notice(&self) -> Option<u64> {
        let BytesEnd { final_size, stopped, .. } = self.ending();
        stopped.filter(|_| !self.stop_acked && final_size.is_none())
    }

    pub(in crate::session) fn on_stop_acked(&mut self) {
        self.stop_acked = true;
    }

    fn has_all(&self) -> bool {
        self.ending().final_size == Some(self.next)
    }

    fn is_over(&self) -> bool {
        self.ending().reset.is_some() || self.has_all()
    }

    /// Returns the next bytes, at most `max`.
    pub(in crate::session) fn read(&mut self, max: usize) -> Read {
        if let Some(code) = self.ending().reset {
            self.told = true;
            return Read::Reset(code);
        }
        if let Some(bytes) = self.arrived.as_mut().and_then(|arrived| arrived.pop(max)) {
            self.read += bytes.len() as u64;
            return Read::Data(bytes);
        }
        if self.has_all() && self.ending().stopped.is_none() {
            self.told = true;
            return Read::Finished;
        }
        Read::Blocked
    }

    /// Returns whether bytes wait for the application.
    pub(in crate::session) fn is_readable(&self) -> bool {
        self.arrived.as_ref().is_some_and(|arrived| arrived.is_readable())
    }

    /// Returns whether nothing more can come and the application knows of the end or does not want to.
    pub(in crate::session) fn is_done(&self) -> bool {
        let BytesEnd { final_size, stopped, .. } = self.ending();
        self.told || (stopped.is_some() && final_size.is_some())
    }
}
