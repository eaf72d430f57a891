//! Blocks other than DATA that wait to be sent.

use std::collections::VecDeque;

use super::notices::Notices;
use super::sending::SendDomain;
use super::skip_answers::SkipAnswers;
use crate::session::message::{Carried, DomainKey};
use crate::session::receive::late::LateVerdicts;
pub(in crate::session) use crate::session::send::notices::Notice;
use crate::session::stream::{Stream, Streams};
use crate::wire::skip::{NumberRange, RangesHead};
use crate::wire::{Writer, block};

/// Ranges of one kind from all domains, in the order they were added.
pub(in crate::session) type Ranges = VecDeque<(DomainKey, NumberRange)>;

#[derive(Debug, Default)]
pub(in crate::session) struct OutBlocks {
    pub(in crate::session) notices: Notices,
    pub(in crate::session) skips: Ranges,
    pub(in crate::session) answers: SkipAnswers,
    pub(in crate::session) taken: Ranges,
    pub(in crate::session) verdicts: LateVerdicts,
}

/// Adds a range before those of its domain with higher numbers, and merges it with its neighbours. Lost notices return
/// out of order, and unmerged ones would fill a small probe packet by themselves.
pub(in crate::session) fn push(ranges: &mut Ranges, key: DomainKey, first: u64, count: u64, value: u64) {
    let further = |(of, range): &&(DomainKey, NumberRange)| *of == key && range.first > first;
    let at = ranges.len() - ranges.iter().rev().take_while(further).count();
    let joins = |a: &NumberRange, b: &NumberRange| {
        a.end() == b.first && a.value == b.value && a.count + b.count <= u64::from(u32::MAX)
    };
    let mut new = NumberRange { first, count, value };
    if let Some((of, after)) = ranges.get(at)
        && *of == key
        && joins(&new, after)
    {
        new.count += after.count;
        ranges.remove(at);
    }
    if let Some((of, before)) = at.checked_sub(1).and_then(|at| ranges.get_mut(at))
        && *of == key
    {
        if before.value == value && before.end() >= new.end() {
            return;
        }
        if joins(before, &new) {
            before.count += new.count;
            return;
        }
    }
    ranges.insert(at, (key, new));
}

impl OutBlocks {
    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.notices.is_empty()
            && self.skips.is_empty()
            && self.answers.is_empty()
            && self.taken.is_empty()
            && !self.verdicts.is_due()
    }

    pub(in crate::session) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Writes range blocks while there is room. Ranges of streams that are gone are dropped.
    pub(in crate::session) fn fill_ranges(
        &mut self,
        streams: &Streams,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) {
        fill_kind(&mut self.skips, block::SKIP, streams, out, carried);
        self.answers.fill(streams, out, carried);
        fill_kind(&mut self.taken, block::TAKEN, streams, out, carried);
    }
}

/// Returns the bits that name the domain on the wire.
pub(in crate::session) fn bits(stream: &Stream, key: DomainKey) -> u8 {
    const BITS: [u8; 4] = [0x08, 0x0c, 0x00, 0x04];
    // Nothing may have been sent in a domain in which something was received.
    let own = stream.content.sending(key.domain);
    own.map_or(BITS[key.domain.index() & 3], |domain: &SendDomain| domain.bits)
}

fn fill_kind(
    ranges: &mut Ranges,
    kind: u8,
    streams: &Streams,
    out: &mut Writer<'_>,
    carried: &mut Vec<Carried>,
) {
    let valued = kind != block::TAKEN;
    while let Some((key, range)) = ranges.front().copied() {
        let Some(stream) = streams.still(key) else {
            ranges.pop_front();
            continue;
        };
        if out.remaining() < RangesHead::MAX_LEN + range.len(0, valued) {
            return;
        }
        let mark = RangesHead::open(out, kind, stream.id.0, bits(stream, key));
        let (mut end, mut count) = (0, 0);
        while let Some((_, range)) =
            ranges.front().copied().filter(|(next, range)| *next == key && range.first >= end)
        {
            if out.remaining() < range.len(end, valued) || count == 0x3fff {
                break;
            }
            end = range.write(out, end, valued);
            count += 1;
            ranges.pop_front();
            let (first, numbers) = (range.first, range.count as u32);
            carried.push(match kind {
                block::SKIP => Carried::Skip { key, first, count: numbers },
                _ => Carried::Taken { key, first, count: numbers },
            });
        }
        RangesHead::close(out, mark, count);
    }
}
