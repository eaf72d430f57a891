//! Saving bytes written and not acknowledged.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::{BytesOut, Cut, Pending};
use crate::session::send::fragments::FragmentList;
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};
use crate::wire::VARINT_MAX;

impl BytesOut {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self {
            pending,
            written,
            finished,
            fin_due: _,
            fin_acked,
            cut: _,
            has_opening,
            wants_writable: _,
        } = self;
        let Cut { reset, reset_acked, stopped } = self.cut();
        out.int(*written);
        out.flag(*finished);
        out.flag(*fin_acked);
        out.optional_int(reset);
        out.flag(reset_acked);
        out.optional_int(stopped);
        match pending {
            Some(pending) => pending.parts.save(out),
            None => FragmentList::at(*written).save(out),
        }
        let from = if self.is_reset() { *written } else { self.acked() };
        let mut bytes = BytesMut::new();
        for (at, chunk) in pending.iter().flat_map(|pending| &pending.chunks) {
            let skip = from.saturating_sub(*at).min(chunk.len() as u64) as usize;
            bytes.extend_from_slice(&chunk[skip..]);
        }
        out.bytes(&bytes);
        out.flag(*has_opening);
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        let written = input.at_most(VARINT_MAX / 2)?;
        let (finished, fin_acked) = (input.flag()?, input.flag()?);
        let (reset, reset_acked) = (input.optional_int()?, input.flag()?);
        let stopped = input.optional_int()?;
        let parts = FragmentList::load(input, written)?;
        let bytes = input.bytes()?;
        let from = parts.acked();
        let whole = reset.is_some() || bytes.len() as u64 == written - from;
        if !whole || (fin_acked && !finished) || (reset_acked && reset.is_none()) {
            return Err(BROKEN);
        }
        let has_opening = input.is_since(4) && input.flag()?;
        let fin_due = finished && !fin_acked && reset.is_none();
        let kept = bytes.len() as u64;
        let chunks = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([(from, bytes)]) };
        let cut = Cut { reset, reset_acked, stopped };
        let cut = (reset.is_some() || stopped.is_some()).then(|| Box::new(cut));
        let mut out = Self {
            pending: Some(Box::new(Pending { chunks, kept, parts })),
            written,
            finished,
            fin_due,
            fin_acked,
            cut,
            has_opening,
            ..Self::default()
        };
        out.trim();
        Ok(out)
    }

    /// Returns whether data is to be sent for the first time, or FIN by itself.
    pub(in crate::session) fn has_new(&self) -> bool {
        self.unsent() > 0 || self.fin_due()
    }

    /// Returns whether data is to be sent again.
    pub(in crate::session) fn has_lost(&self) -> bool {
        !self.is_reset() && self.pending.as_ref().is_some_and(|pending| pending.parts.has_lost())
    }
}
