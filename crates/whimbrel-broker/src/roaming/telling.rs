//! Reports to a subscription about messages that it does not get.

use whimbrel_pubsub::coverage::{Count, Cover, Fate, MOST_RANGES, Range, Told};
use whimbrel_pubsub::message::Origin;

use super::counting::gone_in;
use super::reader::Reader;
use super::reading::Reading;
use crate::Time;
use crate::buffer::{Channel, Entry, LogIndex, OriginLog, Slot};
use crate::mutants::{Mutant, planted};

impl Reader {
    /// Settles a range of an origin.
    pub(super) fn settle(&mut self, index: LogIndex, origin: Origin, range: Range) {
        let reading = &mut self.readings[index.place()];
        if let Some(range) = reading.settle(range) {
            self.tell_superseded(index, origin);
            self.notices.push_back(Told::Covers(Cover { origin, range }));
        }
        let reading = &mut self.readings[index.place()];
        if reading.covered.len() > MOST_RANGES
            && let Some(range) = reading.covered.close_oldest_gap()
        {
            let count = Count { number: range.count(), exact: false };
            let cover = Cover { origin, range };
            self.notices.push_back(Told::Fate { cover, fate: Fate::Unknown, count, closed: true });
        }
    }

    /// Counts a settled message that the subscription's own policy passed over. It is told with others.
    pub(super) fn supersede(&mut self, index: LogIndex, slot: &Slot) {
        if planted(Mutant::CoverOverDropped) {
            return;
        }
        self.totals.superseded += u64::from(self.behind.is_some());
        let stamp = slot.stamp();
        if let Some((range, number)) = self.readings[index.place()].supersede(stamp.sequence) {
            self.push_superseded(stamp.origin, range, number);
        }
    }

    /// Tells what has to be told before `sequence` is delivered: what was superseded, and a cover that does not reach it.
    #[inline]
    pub(super) fn tell_before(&mut self, index: LogIndex, origin: Origin, sequence: u64) {
        self.tell_superseded(index, origin);
        if let Some(range) = self.readings[index.place()].take_apart(sequence) {
            self.notices.push_back(Told::Covers(Cover { origin, range }));
        }
    }

    pub(super) fn tell_superseded(&mut self, index: LogIndex, origin: Origin) {
        if let Some((range, number)) = self.readings.get_mut(index.place()).and_then(Reading::take_superseded)
        {
            self.push_superseded(origin, range, number);
        }
    }

    fn push_superseded(&mut self, origin: Origin, range: Range, number: u64) {
        let (cover, count) = (Cover { origin, range }, Count { number, exact: true });
        self.notices.push_back(Told::Fate { cover, fate: Fate::Superseded, count, closed: true });
    }

    /// Settles what was overwritten right before an entry.
    #[inline]
    pub(super) fn pass_gone(&mut self, channel: &Channel, entry: Entry) {
        let covered = &self.readings[entry.log.place()].covered;
        if entry.sequence <= 1 || covered.contains(entry.sequence - 1) {
            return;
        }
        let Some(log) = channel.log(entry.log) else { return };
        let received = log.received().range_of(entry.sequence).map_or(entry.sequence, |range| range.first);
        let first = received.max(covered.below(entry.sequence) + 1);
        let Some(gap) = Range::new(first, entry.sequence - 1) else { return };
        // What is held there came later, and is read later.
        let first = log.held(gap).next_back().map_or(first, |(sequence, _)| sequence + 1);
        if let Some(gone) = Range::new(first, entry.sequence - 1) {
            self.tell_gone(entry.log, log, gone);
        }
    }

    /// Settles all that was overwritten, or that no broker has.
    pub(super) fn sweep(&mut self, channel: &Channel) {
        self.adopt(channel);
        (self.jumped, self.losses) = (false, channel.losses());
        for (index, log) in channel.logs() {
            let covered = &self.readings[index.place()].covered;
            if log.highest() == 0 || covered.covers(Range { first: 1, last: log.highest() }) {
                continue;
            }
            let gone: Vec<Range> = gone_in(log, covered).collect();
            gone.into_iter().for_each(|range| self.tell_gone(index, log, range));
        }
    }

    fn tell_gone(&mut self, index: LogIndex, log: &OriginLog, range: Range) {
        let mut count = log.count(range, &self.wanted.reach);
        let cover = Cover { origin: log.origin(), range };
        if planted(Mutant::OverwrittenCountsAsNotHere) {
            self.notices.push_back(Told::Fate { cover, fate: Fate::Unknown, count, closed: false });
            return;
        }
        if planted(Mutant::GoneCountedOnce) {
            count.number = count.number.min(1);
        }
        self.settle(index, cover.origin, range);
        if count.number > 0 {
            self.totals.gone = self.totals.gone.and(count);
            self.notices.push_back(Told::Fate { cover, fate: Fate::Gone, count, closed: true });
        }
    }

    /// Tells what exists and did not come for as long as waiting lasts. It stays open.
    pub(super) fn tell_unknown(&mut self, channel: &Channel, now: Time) {
        if now.since(self.came) < channel.settings().unknown_after {
            return;
        }
        self.adopt(channel);
        for (index, log) in channel.logs().filter(|(_, log)| log.is_missing_any()) {
            for range in newly_unknown(log, &self.readings[index.place()], now) {
                self.readings[index.place()].tell_unknown(range);
                let count = Count { number: range.count(), exact: false };
                let cover = Cover { origin: log.origin(), range };
                let as_gone = planted(Mutant::UnknownToldAsGone);
                if as_gone {
                    self.settle(index, cover.origin, range);
                }
                let fate = if as_gone { Fate::Gone } else { Fate::Unknown };
                self.notices.push_back(Told::Fate { cover, fate, count, closed: as_gone });
            }
        }
    }
}

/// Returns the sequences that have been missing for long, are not covered, and were not reported as unknown.
fn newly_unknown(log: &OriginLog, reading: &Reading, now: Time) -> Vec<Range> {
    let Some(long_known) = Range::new(1, log.long_known(now)) else { return Vec::new() };
    let missing = log.missing().filter_map(|range| range.and(long_known));
    let open = missing.flat_map(|range| reading.covered.gaps(range));
    open.flat_map(|range| reading.unknown.gaps(range)).collect()
}
