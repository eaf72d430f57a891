//! Answers to SKIP that wait to be sent.

#[path = "../snapshot/skip_answers.rs"]
mod snapshot;

use std::collections::BTreeMap;

use super::out_blocks::bits;
use crate::expected::Expected;
use crate::session::account::held::of_map;
use crate::session::message::{Carried, DomainKey};
use crate::session::receive::scattered::Scattered;
use crate::session::stream::Streams;
use crate::wire::skip::{NumberRange, RangesHead};
use crate::wire::{Writer, block};

/// Numbers that SKIP asked about. Their fate is looked up when the answer is written, so a question costs the same
/// however many numbers it names.
#[derive(Debug, Default)]
pub(in crate::session) struct SkipAnswers {
    asked: BTreeMap<DomainKey, Scattered>,
    /// Number of ranges in all domains.
    ranges: usize,
}

impl SkipAnswers {
    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Returns the number of ranges asked about.
    pub(in crate::session) fn len(&self) -> usize {
        self.ranges
    }

    /// Returns the memory they take, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        of_map(self.asked.len(), size_of::<Scattered>()) + Scattered::memory_of(self.ranges)
    }

    pub(in crate::session) fn ask(&mut self, key: DomainKey, first: u64, end: u64) {
        let asked = self.asked.entry(key).or_default();
        let before = asked.len();
        asked.insert(first, end);
        self.ranges = self.ranges - before + asked.len();
    }

    /// Writes SKIP-ACK blocks while there is room.
    pub(in crate::session) fn fill(
        &mut self,
        streams: &Streams,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) {
        while let Some(mut entry) = self.asked.first_entry() {
            let key = *entry.key();
            let stream = streams.still(key);
            let state = stream
                .and_then(|stream| stream.content.receiving(key.domain).expected("a domain that receives"));
            let Some((stream, state)) = stream.zip(state) else {
                self.ranges -= entry.remove().len();
                continue;
            };
            let next = |asked: &Scattered| {
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
            let (mut end, mut count, before) = (0, 0, asked.len());
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
            self.ranges = self.ranges - before + asked.len();
            if asked.is_empty() {
                entry.remove();
            }
        }
    }
}
