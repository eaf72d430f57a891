//! Answers to SKIP that wait to be sent.

#[path = "snapshot/answers.rs"]
mod snapshot;

use std::collections::BTreeMap;

use super::control::bits;
use super::message::{Carried, DomainKey};
use super::ranges::RangeSet;
use super::stream::Streams;
use crate::wire::skip::{NumberRange, RangesHead};
use crate::wire::{Writer, block};

/// Numbers that were asked about. What had become of them is looked up when the answer is written, so that a question costs the same
/// however many it names.
#[derive(Debug, Default)]
pub(super) struct Answers {
    asked: BTreeMap<DomainKey, RangeSet>,
}

impl Answers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Ranges asked about.
    pub(super) fn len(&self) -> usize {
        self.asked.values().map(RangeSet::len).sum()
    }

    pub(super) fn ask(&mut self, key: DomainKey, first: u64, end: u64) {
        self.asked.entry(key).or_default().insert(first, end);
    }

    /// Writes SKIP-ACK blocks while there is room.
    pub(super) fn fill(&mut self, streams: &Streams, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        while let Some(mut entry) = self.asked.first_entry() {
            let key = *entry.key();
            let Some(stream) = streams.by_key(key) else {
                entry.remove();
                continue;
            };
            let Some(state) = stream.recv.get(usize::from(key.domain)).and_then(|state| state.as_deref())
            else {
                entry.remove();
                continue;
            };
            let next = |asked: &RangeSet| {
                let (first, last) = asked.first()?;
                let (skipped, end) = state.skipped.stretch(first, last);
                Some(NumberRange { first, count: end - first, value: u64::from(!skipped) })
            };
            let asked = entry.get_mut();
            let room = next(asked).map_or(0, |range| RangesHead::MAX_LEN + range.len(0, true));
            if out.remaining() < room {
                return;
            }
            let mark = RangesHead::open(out, block::SKIP_ACK, stream.id.0, bits(stream, key));
            let (mut end, mut count) = (0, 0);
            while let Some(range) =
                next(asked).filter(|range| out.remaining() >= range.len(end, true) && count < 0x3fff)
            {
                end = range.write(out, end, true);
                count += 1;
                asked.remove(range.first, end);
                let (first, delivered) = (range.first, range.value == 1);
                carried.push(Carried::SkipAck { key, first, count: range.count as u32, delivered });
            }
            RangesHead::close(out, mark, count);
            if asked.is_empty() {
                entry.remove();
            }
        }
    }
}
