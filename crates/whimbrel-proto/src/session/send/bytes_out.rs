//! The sending direction of a byte stream.

#[path = "../snapshot/bytes_out.rs"]
mod snapshot;

use std::collections::VecDeque;

use bytes::Bytes;

use super::fragments::FragmentList;
use crate::expected::Expected;
use crate::mutants::{Mutant, planted};
use crate::wire::{Writer, varint_len};

/// Bytes written by the application, kept until they are acknowledged, followed by FIN or RESET. FIN is here the E flag
/// of DATA that ends the stream, and not the FIN block that closes a session.
#[derive(Debug, Default)]
pub(in crate::session) struct BytesOut {
    /// The bytes written and not acknowledged. None: there are none, and the stream has been at rest for a while.
    pending: Option<Box<Pending>>,
    written: u64,
    finished: bool,
    fin_due: bool,
    fin_acked: bool,
    /// None: neither end has given up.
    cut: Option<Box<Cut>>,
    pub(in crate::session) wants_writable: bool,
    has_opening: bool,
}

/// How a direction ends early. The codes are the applications'.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    reset: Option<u64>,
    reset_acked: bool,
    /// The peer reads no more.
    stopped: Option<u64>,
}

#[derive(Debug)]
struct Pending {
    /// The written chunks that are not fully acknowledged, each with its offset.
    chunks: VecDeque<(u64, Bytes)>,
    /// Bytes in these chunks.
    kept: u64,
    parts: FragmentList,
}

/// The name, in assertions, of bytes that are written and not acknowledged.
const UNACKED: &str = "bytes to be sent";

impl BytesOut {
    /// Returns the bytes written and not acknowledged.
    pub(in crate::session) fn buffered(&self) -> u64 {
        self.written - self.acked()
    }

    /// Returns the bytes held: those of every chunk that is not acknowledged as a whole.
    #[inline]
    pub(in crate::session) fn kept(&self) -> u64 {
        self.pending.as_ref().map_or(0, |pending| pending.kept)
    }

    pub(in crate::session) fn write(&mut self, bytes: Bytes) {
        let (at, end) = (self.written, self.written + bytes.len() as u64);
        let pending = self.pending_mut();
        pending.kept += bytes.len() as u64;
        pending.chunks.push_back((at, bytes));
        self.written = end;
    }

    fn pending_mut(&mut self) -> &mut Pending {
        let at = self.written;
        let fresh = || Box::new(Pending { chunks: VecDeque::new(), kept: 0, parts: FragmentList::at(at) });
        self.pending.get_or_insert_with(fresh)
    }

    fn cut(&self) -> Cut {
        self.cut.as_deref().copied().unwrap_or_default()
    }

    fn cut_mut(&mut self) -> &mut Cut {
        self.cut.get_or_insert_default()
    }

    /// Frees the queues if everything was acknowledged.
    pub(in crate::session) fn trim(&mut self) {
        if self.buffered() == 0 {
            self.pending = None;
        }
    }

    /// Returns the offset below which everything was sent at least once.
    pub(in crate::session) fn sent(&self) -> u64 {
        self.pending.as_ref().map_or(self.written, |pending| pending.parts.sent())
    }

    /// Returns the offset below which everything was acknowledged.
    pub(in crate::session) fn acked(&self) -> u64 {
        self.pending.as_ref().map_or(self.written, |pending| pending.parts.acked())
    }

    /// Records that the next `len` bytes are sent for the first time.
    pub(in crate::session) fn on_sent(&mut self, len: u32) {
        self.pending_mut().parts.on_sent(len);
    }

    /// Returns the next lost part: its offset and length.
    pub(in crate::session) fn peek_lost(&mut self) -> Option<(u64, u32)> {
        self.pending.as_mut()?.parts.peek_lost()
    }

    /// Records that the first `len` bytes of the part from [`Self::peek_lost`] are sent again.
    pub(in crate::session) fn on_resent(&mut self, len: u32) {
        if let Some(pending) = &mut self.pending {
            pending.parts.resend(len);
        }
    }

    /// Begins the stream with an opening. Nothing may have been written before.
    pub(in crate::session) fn open_with(&mut self, opening: &[u8]) {
        let mut begun = Vec::with_capacity(varint_len(opening.len() as u64) + opening.len());
        let mut out = Writer::new(&mut begun, usize::MAX);
        out.varint(opening.len() as u64);
        out.bytes(opening);
        self.write(begun.into());
        self.has_opening = true;
    }

    pub(in crate::session) fn has_opening(&self) -> bool {
        self.has_opening
    }

    /// Marks the end of the stream. Returns whether that is new.
    pub(in crate::session) fn finish(&mut self) -> bool {
        let news = !self.finished && !self.is_reset();
        if news {
            self.finished = true;
            self.fin_due = true;
        }
        news
    }

    /// Gives up sending. Returns whether that is new.
    pub(in crate::session) fn reset(&mut self, code: u64) -> bool {
        if self.is_reset() || self.is_done() {
            return false;
        }
        self.cut_mut().reset = Some(code);
        if let Some(pending) = &mut self.pending {
            (pending.chunks, pending.kept) = (VecDeque::new(), 0);
        }
        self.fin_due = false;
        true
    }

    pub(in crate::session) fn on_stopped(&mut self, code: u64) {
        self.cut_mut().stopped = Some(code);
    }

    pub(in crate::session) fn stopped(&self) -> Option<u64> {
        self.cut().stopped
    }

    pub(in crate::session) fn takes_more(&self) -> bool {
        !self.finished && !self.is_reset()
    }

    /// Returns the code and final size for RESET, while it is not acknowledged.
    pub(in crate::session) fn reset_notice(&self) -> Option<(u64, u64)> {
        let Cut { reset, reset_acked, .. } = self.cut();
        reset.filter(|_| !reset_acked).map(|code| (code, self.sent()))
    }

    /// Returns how many bytes were never sent.
    pub(in crate::session) fn unsent(&self) -> u64 {
        if self.is_reset() { 0 } else { self.written - self.sent() }
    }

    /// Returns whether FIN has to be sent by itself.
    pub(in crate::session) fn fin_due(&self) -> bool {
        self.fin_due && self.unsent() == 0
    }

    /// Returns whether a part that ends at `end` ends the stream. If so, FIN counts as sent.
    pub(in crate::session) fn take_fin(&mut self, end: u64) -> bool {
        let fin = self.finished && end == self.written && !self.is_reset();
        if fin {
            self.fin_due = false;
        }
        fin
    }

    /// Returns whether a part that ends at `end` would end the stream.
    pub(in crate::session) fn ends_at(&self, end: u64) -> bool {
        self.finished && end == self.written
    }

    pub(in crate::session) fn on_acked(&mut self, offset: u64, len: u32, fin: bool) {
        self.fin_acked |= fin;
        self.fin_due &= !fin;
        let Some(Pending { chunks, kept, parts }) = self.pending.as_deref_mut() else { return };
        parts.on_acked(offset, len);
        let acked = parts.acked();
        while chunks.front().is_some_and(|(at, bytes)| at + bytes.len() as u64 <= acked) {
            *kept -= chunks.pop_front().map_or(0, |(_, bytes)| bytes.len() as u64);
        }
    }

    /// Handles a lost part. Returns whether there is something to send again.
    pub(in crate::session) fn on_lost(&mut self, offset: u64, len: u32, fin: bool) -> bool {
        if self.is_reset() {
            return false;
        }
        if let Some(pending) = &mut self.pending {
            pending.parts.on_lost(offset, len);
        }
        self.fin_due |= fin && !self.fin_acked && !planted(Mutant::StreamEndSentOnce);
        self.peek_lost().is_some() || self.fin_due
    }

    pub(in crate::session) fn on_reset_acked(&mut self) {
        if let Some(cut) = &mut self.cut {
            cut.reset_acked = cut.reset.is_some();
        }
    }

    pub(in crate::session) fn is_reset(&self) -> bool {
        self.cut().reset.is_some()
    }

    /// Returns whether everything arrived, or the peer has acknowledged the reset.
    pub(in crate::session) fn is_done(&self) -> bool {
        self.cut().reset_acked || (self.fin_acked && self.buffered() == 0)
    }

    /// Returns whether nothing waits to be sent or acknowledged.
    pub(in crate::session) fn is_quiet(&self) -> bool {
        match self.cut() {
            Cut { reset: Some(_), reset_acked, .. } => reset_acked,
            _ => self.buffered() == 0 && (!self.finished || self.fin_acked),
        }
    }

    pub(in crate::session) fn copy(&self, offset: u64, len: usize, out: &mut Writer<'_>) {
        if len == 0 {
            // It is the end alone, of a stream whose bytes may all be acknowledged.
            return;
        }
        let Some(Pending { chunks, .. }) = self.pending.as_deref().expected(UNACKED) else { return };
        let mut index = chunks.partition_point(|(at, bytes)| at + bytes.len() as u64 <= offset);
        let (mut offset, mut left) = (offset, len);
        while left > 0 {
            let Some((at, bytes)) = chunks.get(index).expected(UNACKED) else { return };
            let from = (offset - at) as usize;
            let take = left.min(bytes.len() - from);
            out.bytes(&bytes[from..from + take]);
            offset += take as u64;
            left -= take;
            index += 1;
        }
    }
}
