//! A subscription's part in one channel, and how it reads.

use std::collections::{BTreeMap, VecDeque};

use whimbrel_pubsub::coverage::{ChannelCoverage, Cover, Delivery, Range, Ranges, Recovered, Told};
use whimbrel_pubsub::message::Origin;

use super::passage::Passage;
use super::reading::Reading;
use super::verdict::Verdict;
use super::walk::Walk;
use super::wish::{Recover, Slow, Wanted};
use crate::Time;
use crate::buffer::{Channel, Entry, LogIndex, Slot};
use crate::mutants::{Mutant, planted};

/// The result of a step of reading.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each delivery")]
pub enum Read {
    /// Something to tell the subscriber.
    Told(Told),
    /// The steps are used up. There may be more.
    More,
    /// There is nothing more to read now.
    Idle,
    /// The subscriber is too slow, and wished to be sent away then.
    TooSlow,
}

/// A subscription's part in one channel: a position and a coverage.
#[derive(Debug)]
pub struct Reader {
    pub(super) wanted: Wanted,
    pub(super) recover: Recover,
    pub(super) slow: Slow,
    /// By the index of the origin's log.
    pub(super) readings: Vec<Reading>,
    /// The origins of the readings.
    pub(super) origins: Vec<Option<Origin>>,
    /// How often the channel had forgotten an origin when the readings were last looked through.
    forgotten: u64,
    /// The coverage of origins that are not known here.
    pub(super) strangers: BTreeMap<Origin, Ranges>,
    /// The messages published before the subscription came, until they are read.
    pub(super) behind: Option<Behind>,
    /// The arrival to read next of what was published since.
    pub(super) tail: u64,
    pub(super) walk: Option<Walk>,
    /// The reports that come before anything else is read. A step adds a few at most.
    pub(super) notices: VecDeque<Told>,
    pub(super) came: Time,
    pub(super) totals: Recovered,
    /// The channel's losses that were looked at.
    pub(super) losses: u64,
    /// Whether arrivals were removed before they were read.
    pub(super) jumped: bool,
    /// Whether everything was read once.
    caught_up: bool,
    /// Live arrivals before this are passed over.
    pub(super) dropping_until: u64,
    /// The passage since [`Reader::begin_passage`], as long as others do the same.
    pub(super) passage: Option<Passage>,
}

/// Arrivals from `next` on, up to `until`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub(super) next: u64,
    pub(super) until: u64,
}

impl Reader {
    pub(super) fn new(wanted: Wanted, recover: Recover, slow: Slow, channel: &Channel, now: Time) -> Self {
        Self {
            wanted,
            recover,
            slow,
            readings: Vec::new(),
            origins: Vec::new(),
            forgotten: channel.forgotten(),
            strangers: BTreeMap::new(),
            behind: None,
            tail: channel.end(),
            walk: None,
            notices: VecDeque::new(),
            came: now,
            totals: Recovered { recovered: 0, gone: whimbrel_pubsub::coverage::Count::NONE, superseded: 0 },
            losses: channel.losses(),
            jumped: false,
            caught_up: false,
            dropping_until: 0,
            passage: None,
        }
    }

    /// Reads on, looking at no more than `steps` arrivals. Without `may_recover` only what is new is read.
    pub fn read(&mut self, channel: &Channel, now: Time, may_recover: bool, steps: &mut u32) -> Read {
        self.renew(channel);
        loop {
            if !self.notices.is_empty()
                && let Some(told) = self.notices.pop_front()
            {
                self.passage = None;
                return Read::Told(told);
            }
            if self.slow != Slow::Wait && self.is_too_slow(channel) {
                return Read::TooSlow;
            }
            if *steps == 0 {
                return Read::More;
            }
            *steps -= 1;
            if self.walk.is_some() {
                self.walk_on(channel, now);
            } else if let Some((entry, recovered)) = self.next_entry(channel, may_recover) {
                if let Some(told) = self.take(channel, entry, recovered, now) {
                    return Read::Told(told);
                }
            } else if !self.at_the_end(channel, may_recover, now) {
                return Read::Idle;
            }
        }
    }

    /// Whether it still reads what was published before it came.
    pub fn is_recovering(&self) -> bool {
        self.behind.is_some()
    }

    /// The number of arrivals that it has not looked at.
    pub fn lag(&self, channel: &Channel) -> u64 {
        let behind = self.behind.map_or(0, |behind| behind.until - behind.next);
        behind + channel.end().saturating_sub(self.tail)
    }

    /// Its place: the next arrival of what came since it attached, and how many of those before are left.
    pub fn place(&self) -> (u64, u64) {
        (self.tail, self.behind.map_or(0, |behind| behind.until - behind.next))
    }

    /// Returns the coverage of everything settled so far, told or not.
    pub fn coverage(&self, channel: &Channel) -> ChannelCoverage {
        let mut coverage = ChannelCoverage::default();
        let known = channel
            .logs()
            .filter(|(index, log)| self.origins.get(index.place()) == Some(&Some(log.origin())))
            .filter_map(|(index, log)| Some((log.origin(), &self.readings.get(index.place())?.covered)));
        for (origin, ranges) in known.chain(self.strangers.iter().map(|(origin, ranges)| (*origin, ranges))) {
            for range in ranges.iter() {
                // There are no more origins here than a coverage may have.
                coverage.insert(origin, range).ok();
            }
        }
        coverage
    }

    /// Has the subscriber told of all that is settled, without a message. Call it now and then, or when the subscriber asks.
    pub fn tell_covers(&mut self, channel: &Channel) {
        self.renew(channel);
        // Last values are told before the cover that contains them.
        if self.walk.is_some() {
            return;
        }
        for (index, log) in channel.logs() {
            self.tell_superseded(index, log.origin());
            if let Some(range) = self.readings.get_mut(index.place()).and_then(Reading::take_pending) {
                self.notices.push_back(Told::Covers(Cover { origin: log.origin(), range }));
            }
        }
    }

    fn is_too_slow(&mut self, channel: &Channel) -> bool {
        if !self.caught_up {
            return false;
        }
        let lag = channel.end().saturating_sub(self.tail);
        match self.slow {
            Slow::DropOldest(most) if lag > most => self.dropping_until = channel.end() - most / 2,
            Slow::Disconnect(most) => return lag > most,
            _ => {}
        }
        false
    }

    /// The next entry, and whether it was there when the subscription came.
    #[inline]
    fn next_entry(&mut self, channel: &Channel, may_recover: bool) -> Option<(Entry, bool)> {
        if (self.behind.is_none() || self.recover == Recover::Beside)
            && let Some(entry) = channel.from(self.tail)
        {
            if entry.arrival != self.tail {
                (self.jumped, self.passage) = (true, None);
            }
            self.tail = entry.arrival + 1;
            return Some((entry, false));
        }
        let behind = self.behind.as_mut().filter(|_| may_recover)?;
        let entry = channel.from(behind.next).filter(|entry| entry.arrival < behind.until)?;
        self.jumped |= entry.arrival != behind.next;
        behind.next = entry.arrival + 1;
        Some((entry, true))
    }

    /// Looks at an entry. Returns what is to be told of it.
    fn take(&mut self, channel: &Channel, entry: Entry, recovered: bool, now: Time) -> Option<Told> {
        let reading = self.reading(channel, entry.log);
        let is_next = reading.is_next(entry.sequence);
        if !is_next {
            self.passage = None;
        }
        let reading = &self.readings[entry.log.place()];
        if !is_next && reading.covered.contains(entry.sequence) {
            return None;
        }
        if planted(Mutant::LateNotDelivered) && entry.sequence < reading.delivered {
            return None;
        }
        let Some(slot) = entry.slot().and_then(|slot| channel.slot(slot)) else {
            (self.jumped, self.passage) = (true, None);
            return None;
        };
        let origin = slot.stamp().origin;
        if is_next {
            return self.take_next(channel, entry, slot, recovered, now);
        }
        self.pass_gone(channel, entry);
        let verdict = self.judge(channel, slot, recovered, now);
        if verdict == Verdict::Wanted {
            self.tell_before(entry.log, origin, entry.sequence);
        }
        if !self.notices.is_empty() {
            // It is read once they are told: meanwhile its lifetime may end.
            self.go_back(entry, recovered);
            return None;
        }
        self.settle(entry.log, origin, Range { first: entry.sequence, last: entry.sequence });
        self.conclude(verdict, entry, slot, recovered)
    }

    /// Does with a settled message as judged.
    #[inline]
    fn conclude(&mut self, verdict: Verdict, entry: Entry, slot: &Slot, recovered: bool) -> Option<Told> {
        match verdict {
            Verdict::Wanted => self.deliver(entry.log, slot, recovered),
            Verdict::Unwanted => None,
            Verdict::Superseded => {
                self.supersede(entry.log, slot);
                None
            }
        }
    }

    /// Looks at an entry that comes in the usual order, so that nothing was overwritten before it and no cover has to be told.
    #[inline]
    fn take_next(
        &mut self,
        channel: &Channel,
        entry: Entry,
        slot: &Slot,
        recovered: bool,
        now: Time,
    ) -> Option<Told> {
        let verdict = self.judge(channel, slot, recovered, now);
        if verdict == Verdict::Wanted && self.readings[entry.log.place()].has_superseded() {
            self.tell_superseded(entry.log, slot.stamp().origin);
            self.go_back(entry, recovered);
            return None;
        }
        let reading = &mut self.readings[entry.log.place()];
        if let Some(passage) = &mut self.passage
            && !passage.enter(entry.log, slot, reading)
        {
            self.passage = None;
        }
        reading.settle_next(entry.sequence);
        self.conclude(verdict, entry, slot, recovered)
    }

    /// Moves the position back to an entry that was not settled.
    fn go_back(&mut self, entry: Entry, recovered: bool) {
        match self.behind.as_mut().filter(|_| recovered) {
            Some(behind) => behind.next = entry.arrival,
            None => self.tail = entry.arrival,
        }
    }

    /// Delivers a settled message.
    fn deliver(&mut self, index: LogIndex, slot: &Slot, recovered: bool) -> Option<Told> {
        let stamp = *slot.stamp();
        let reading = &mut self.readings[index.place()];
        let range = reading.take_pending()?;
        let late = stamp.sequence < reading.delivered || reading.unknown.contains(stamp.sequence);
        reading.delivered = reading.delivered.max(stamp.sequence);
        self.totals.recovered += u64::from(recovered);
        if let Some(passage) = &mut self.passage {
            passage.on_delivery();
        }
        let cover = Cover { origin: stamp.origin, range };
        let message = slot.message().clone();
        Some(Told::Delivery(Delivery { cover, stamp, message, recovered, late, retained: false }))
    }

    /// Does what is due when nothing is left to read. Returns whether there is something to tell, or to read, after it.
    fn at_the_end(&mut self, channel: &Channel, may_recover: bool, now: Time) -> bool {
        if self.behind.is_some() {
            if !may_recover {
                return false;
            }
            self.end_recovery(channel);
            return true;
        }
        // What was removed at the very end leaves no entry behind.
        self.jumped |= self.tail != channel.end();
        self.tail = channel.end();
        self.caught_up = true;
        if self.jumped || self.losses != channel.losses() {
            self.passage = None;
            self.sweep(channel);
        }
        self.tell_unknown(channel, now);
        !self.notices.is_empty()
    }

    fn end_recovery(&mut self, channel: &Channel) {
        self.behind = None;
        if planted(Mutant::TailReadBeforePositionMoved) {
            self.tail = channel.end();
        }
        self.sweep(channel);
        self.tell_covers(channel);
        self.notices.push_back(Told::Recovered(self.totals));
    }

    /// Returns the view of the origin with this index.
    pub(super) fn reading(&mut self, channel: &Channel, index: LogIndex) -> &mut Reading {
        if index.place() >= self.readings.len() {
            self.adopt(channel);
        }
        &mut self.readings[index.place()]
    }

    /// Begins anew with the indices of origins that were forgotten, if there are any.
    #[inline]
    pub(super) fn renew(&mut self, channel: &Channel) {
        if self.forgotten != channel.forgotten() {
            self.forgotten = channel.forgotten();
            self.passage = None;
            self.adopt(channel);
        }
    }

    /// Makes room for origins that became known here, with what is covered of them.
    pub(super) fn adopt(&mut self, channel: &Channel) {
        // There are few origins and many readers.
        let most = channel.log_indices();
        self.readings.reserve_exact(most.saturating_sub(self.readings.len()));
        self.readings.resize_with(most, Reading::default);
        self.origins.resize(most, None);
        for (index, log) in channel.logs() {
            let (place, origin) = (index.place(), Some(log.origin()));
            if self.origins[place] != origin {
                self.origins[place] = origin;
                let covered = self.strangers.remove(&log.origin());
                self.readings[place] = covered.map(Reading::of).unwrap_or_default();
            }
        }
    }
}
