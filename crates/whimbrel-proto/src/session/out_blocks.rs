//! Blocks other than DATA that wait to be sent.

use std::collections::VecDeque;

use super::late::LateVerdicts;
use super::message::{Carried, DomainKey};
pub(super) use super::notices::Notice;
use super::notices::Notices;
use super::sending::SendDomain;
use super::skip_answers::SkipAnswers;
use super::stream::{Stream, Streams};
use crate::wire::credit::Grant;
use crate::wire::skip::{NumberRange, RangesHead};
use crate::wire::stream_end::StreamEnd;
use crate::wire::{Writer, block};

/// Ranges of one kind, of all domains, in the order they came up.
pub(super) type Ranges = VecDeque<(DomainKey, NumberRange)>;

#[derive(Debug, Default)]
pub(super) struct OutBlocks {
    pub(super) notices: Notices,
    pub(super) skips: Ranges,
    pub(super) answers: SkipAnswers,
    pub(super) taken: Ranges,
    pub(super) verdicts: LateVerdicts,
}

/// Adds a range before those of its domain that are further on, and joins it to its neighbours: what was lost comes again out of order,
/// and notices that do not join would fill a small probe by themselves.
pub(super) fn push(ranges: &mut Ranges, key: DomainKey, first: u64, count: u64, value: u64) {
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
    pub(super) fn is_empty(&self) -> bool {
        self.notices.is_empty()
            && self.skips.is_empty()
            && self.answers.is_empty()
            && self.taken.is_empty()
            && !self.verdicts.is_due()
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Writes range blocks while there is room. What is no longer of interest is passed over.
    pub(super) fn fill_ranges(
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

/// The domain's name on the wire.
pub(super) fn bits(stream: &Stream, key: DomainKey) -> u8 {
    const BITS: [u8; 4] = [0x08, 0x0c, 0x00, 0x04];
    let own = stream.send.get(usize::from(key.domain)).and_then(|domain| domain.as_deref());
    own.map_or(BITS[usize::from(key.domain) & 3], |domain: &SendDomain| domain.bits)
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
        let Some(stream) = streams.by_key(key) else {
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

impl super::Session {
    /// Writes control blocks while there is room.
    pub(super) fn fill_control(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        while let Some(notice) = self.out_blocks.notices.front() {
            if out.remaining() < 1 + 8 + 8 + 8 {
                return;
            }
            self.out_blocks.notices.pop();
            self.write_notice(notice, out, carried);
        }
        if self.out_blocks.verdicts.is_due() {
            self.fill_verdicts(out, carried);
        }
        self.out_blocks.fill_ranges(&self.streams, out, carried);
    }

    fn write_notice(&mut self, notice: Notice, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        match notice {
            Notice::MaxStreams => {
                Grant::Streams(self.streams_granted).write(out);
                carried.push(Carried::MaxStreams);
            }
            Notice::MaxStreamData(key) => {
                let Some(stream) = self.streams.by_key_mut(key) else { return };
                let Some(limit) = stream.recv_credit.grant() else { return };
                Grant::StreamData { stream: stream.id.0, limit }.write(out);
                carried.push(Carried::MaxStreamData { key });
                self.grant_delay.on_sent(self.clock, key);
            }
            Notice::Reset(key) => {
                let Some(stream) = self.streams.by_key(key) else { return };
                let reset = stream.bytes_out.as_ref().and_then(|bytes| bytes.reset_notice());
                let Some((code, final_size)) = reset else { return };
                StreamEnd::Reset { stream: stream.id.0, code, final_size }.write(out);
                carried.push(Carried::Reset { key });
            }
            Notice::Stop(key) => {
                let Some(stream) = self.streams.by_key(key) else { return };
                let Some(code) = stream.bytes_in.as_ref().and_then(|bytes| bytes.stop_notice()) else {
                    return;
                };
                StreamEnd::Stop { stream: stream.id.0, code }.write(out);
                carried.push(Carried::Stop { key });
            }
            Notice::End(key) => {
                let Some(stream) = self.streams.by_key(key) else { return };
                StreamEnd::End { stream: stream.id.0, final_size: stream.send_credit.used() }.write(out);
                carried.push(Carried::End { key });
            }
        }
    }
}
