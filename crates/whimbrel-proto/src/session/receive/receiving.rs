//! Messages of one order domain on the receiving side.

#[path = "../snapshot/receiving.rs"]
mod snapshot;

use std::collections::BTreeMap;
use std::time::Duration;

use super::assembly::{Assembly, Spares};
use super::inbox::Unread;
use super::run::Run;
use super::scattered::Scattered;
use super::waiting::{HeldBack, Parked};
use super::window::Window;
use crate::expected::Expected;
use crate::mutants::{Mutant, planted};
use crate::session::account::held::of_map;
use crate::session::config::{MAX_RANGES, MAX_SPAN};
use crate::session::message::Message;
use crate::wire::data::Extras;
use crate::{Cause, PeerMisbehaved, Time};

/// A message that arrives in parts.
#[derive(Debug, Default)]
pub(in crate::session) struct Partial {
    pub(in crate::session) assembly: Assembly,
    pub(in crate::session) extras: Option<Extras>,
    pub(in crate::session) length: Option<u64>,
    /// The highest offset at which a part ended.
    pub(in crate::session) highest: u64,
    /// Credit charged for it so far.
    pub(in crate::session) charged: u64,
    pub(in crate::session) early: bool,
    /// Whether it is late: charged, but its parts are not kept.
    pub(in crate::session) dropped: bool,
    /// Whether it is late and the sender takes it for delivered, so that no SKIP for it follows.
    pub(in crate::session) forgotten: bool,
}

/// The change that a part made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Inserted {
    /// Nothing but the bytes in a buffer that was there.
    Bytes,
    /// The memory that is held.
    Memory,
    /// The message is whole.
    Whole,
}

/// The state of a message number at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum NumberState {
    /// Not whole yet, and in time.
    Open,
    /// Passed over, with its charge not settled yet.
    Late,
    /// Delivered, skipped or settled.
    Finished,
}

#[derive(Debug, Default)]
pub(in crate::session) struct RecvDomain {
    pub(in crate::session) sequenced: bool,
    /// Numbers that are whole or skipped.
    pub(in crate::session) finished: Window,
    pub(in crate::session) partial: BTreeMap<u64, Partial>,
    pub(in crate::session) held: HeldBack,
    /// Memory of the parts, bytes.
    kept: u64,
    /// Numbers skipped, until the answer is acknowledged.
    pub(in crate::session) skipped: Scattered,
    /// Numbers passed over without any part seen, and so not charged yet.
    pub(in crate::session) passed: Scattered,
    /// How many entries of `partial` are dropped. They are kept until their SKIP arrives, and credit does not cover
    /// them any more.
    dropped: usize,
    /// When the gap may be passed over, as entered in the session's list of gaps.
    pub(in crate::session) gap_at: Option<Time>,
}

/// The name, in assertions, of a message of which a part has arrived.
const BEGUN: &str = "a message in parts";

impl RecvDomain {
    pub(in crate::session) fn new(sequenced: bool) -> Self {
        Self { sequenced, ..Self::default() }
    }

    /// Returns the memory it takes, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        size_of::<Self>() as u64
            + self.finished.memory()
            + self.skipped.memory()
            + self.passed.memory()
            + of_map(self.partial.len(), size_of::<Partial>())
            + self.kept
            + self.held.memory()
    }

    #[inline]
    pub(in crate::session) fn floor(&self) -> u64 {
        self.finished.floor()
    }

    /// Returns whether the number is next in order and nothing is unusual.
    #[inline]
    pub(in crate::session) fn is_next(&self, number: u64) -> bool {
        number == self.finished.floor() && self.finished.is_flush() && self.partial.is_empty()
    }

    /// Returns whether a message with this number would be delivered at once.
    #[inline]
    pub(in crate::session) fn is_in_turn(&self, number: u64) -> bool {
        !self.sequenced || number == self.floor()
    }

    pub(in crate::session) fn check(&self, number: u64) -> Result<(), PeerMisbehaved> {
        if number >= self.floor().saturating_add(MAX_SPAN) {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "a message number too far ahead"));
        }
        if !self.is_bounded() {
            return Err(PeerMisbehaved::new(
                Cause::LimitExceeded,
                "too much passed over and never accounted for",
            ));
        }
        Ok(())
    }

    /// Returns whether everything kept without being covered by credit is within its limits.
    pub(in crate::session) fn is_bounded(&self) -> bool {
        self.passed.len() <= MAX_RANGES && self.skipped.len() <= MAX_RANGES && self.dropped <= MAX_RANGES
    }

    pub(in crate::session) fn standing(&self, number: u64) -> NumberState {
        if number < self.floor() {
            let late = self.passed.contains(number) || self.partial.contains_key(&number);
            return if late { NumberState::Late } else { NumberState::Finished };
        }
        if self.finished.contains(number) { NumberState::Finished } else { NumberState::Open }
    }

    /// Handles a message that is whole. Messages that are in turn go to `deliver`.
    pub(in crate::session) fn on_whole(
        &mut self,
        now: Time,
        message: Message,
        latest_reliable: u64,
        mut deliver: impl FnMut(Unread),
    ) {
        let (number, unread) = (message.id, Unread::One(message));
        let overtakes = planted(Mutant::SequencedOvertakes) && number % 4 == 1;
        if !self.sequenced || overtakes {
            self.finish(number);
            deliver(unread);
        } else if number == self.floor() {
            self.finished.raise(number + 1);
            deliver(unread);
            self.advance(deliver);
        } else {
            self.finished.mark(number);
            self.held.insert(Parked { unread, latest_reliable, since: now });
        }
    }

    /// Returns whether a run with these numbers can wait for its turn as it arrived, because nothing is known of any of
    /// its messages.
    pub(in crate::session) fn parks(&self, first: u64, end: u64) -> bool {
        self.sequenced
            && first > self.floor()
            && self.finished.next_open(first, end) == Some((first, end))
            && self.partial.range(first..end).next().is_none()
            && !planted(Mutant::SequencedOvertakes)
    }

    /// Keeps a run until its turn.
    pub(in crate::session) fn park(&mut self, now: Time, run: Run, latest_reliable: u64) {
        let first = run.next().id;
        self.finished.mark_all(first, first + run.len() as u64);
        self.held.insert(Parked { unread: Unread::Run(run), latest_reliable, since: now });
    }

    fn finish(&mut self, number: u64) {
        if number == self.floor() {
            self.finished.raise(number + 1);
        } else {
            self.finished.mark(number);
        }
        self.finished.settle();
    }

    /// Delivers the messages whose turn has come.
    pub(in crate::session) fn advance(&mut self, mut deliver: impl FnMut(Unread)) {
        self.finished.settle();
        while let Some(unread) = self.held.pop_below(self.finished.floor()) {
            deliver(unread);
        }
    }

    /// Inserts a part of a message, of which `expected` bytes are known.
    pub(in crate::session) fn insert_part(
        &mut self,
        number: u64,
        offset: u64,
        part: &[u8],
        expected: u64,
        spares: &mut Spares,
        is_last: bool,
    ) -> Result<Inserted, PeerMisbehaved> {
        let Some(partial) = self.partial.get_mut(&number).expected(BEGUN) else {
            return Ok(Inserted::Memory);
        };
        let before = partial.assembly.memory();
        partial.assembly.prepare(expected, spares);
        let shift = u64::from(planted(Mutant::FragmentOffByOne) && offset > 0 && !is_last);
        let inserted = partial.assembly.insert(offset + shift, part, expected);
        let after = partial.assembly.memory();
        self.kept = self.kept - before + after;
        inserted?;
        let early_end = planted(Mutant::DeliveredBeforeWhole) && is_last;
        if partial.length.is_some_and(|length| early_end || partial.assembly.is_whole(length)) {
            return Ok(Inserted::Whole);
        }
        Ok(if after == before { Inserted::Bytes } else { Inserted::Memory })
    }

    /// Removes and returns what is known of a message in parts.
    pub(in crate::session) fn take_partial(&mut self, number: u64) -> Option<Partial> {
        let partial = self.partial.remove(&number)?;
        self.dropped -= usize::from(partial.dropped);
        self.kept -= partial.assembly.memory();
        Some(partial)
    }

    /// Drops the parts of a message that was passed over, and keeps only its charge until its SKIP arrives. Returns
    /// whether that is new.
    pub(in crate::session) fn drop_partial(&mut self, number: u64) -> bool {
        let Some(partial) = self.partial.get_mut(&number).expected(BEGUN) else { return false };
        let news = !std::mem::replace(&mut partial.dropped, true);
        self.kept -= std::mem::take(&mut partial.assembly).memory();
        self.dropped += usize::from(news);
        news
    }

    /// Keeps the charge of a late message that arrived whole after its parts, as [`RecvDomain::drop_partial`] does.
    pub(in crate::session) fn keep_charge(&mut self, number: u64, length: u64, charged: u64) {
        let length = Some(length);
        self.partial.insert(number, Partial { length, charged, dropped: true, ..Partial::default() });
        self.dropped += 1;
    }

    /// Notes that no SKIP of a late message will arrive. Its entry is kept until its whole charge is known.
    pub(in crate::session) fn forget(&mut self, number: u64) {
        if let Some(partial) = self.partial.get_mut(&number) {
            partial.forgotten = true;
        }
        self.let_go(number);
    }

    pub(in crate::session) fn let_go(&mut self, number: u64) {
        if self.partial.get(&number).is_some_and(|partial| partial.forgotten && partial.length.is_some()) {
            self.take_partial(number);
        }
    }

    /// Skips a message of which a part has arrived.
    pub(in crate::session) fn skip_begun(&mut self, number: u64) {
        if number >= self.floor() {
            self.finish(number);
        }
        self.skipped.insert(number, number + 1);
    }

    /// Skips the numbers of `first..end` of which nothing was seen, and returns how many. Finished numbers are not
    /// looked at one by one.
    pub(in crate::session) fn skip_unseen(&mut self, first: u64, end: u64) -> u64 {
        let mut count = 0;
        for (from, to) in self.passed.within(first, end) {
            self.skipped.insert(from, to);
            count += to - from;
        }
        self.passed.remove(first, end);
        let mut at = first;
        while let Some((from, to)) = self.finished.next_open(at, end) {
            if from == self.floor() {
                self.finished.raise(to);
            } else {
                self.finished.mark_all(from, to);
            }
            self.skipped.insert(from, to);
            count += to - from;
            at = to;
        }
        self.finished.settle();
        count
    }

    /// Returns when the gap before the first waiting message may be passed over. None: time alone does not suffice.
    pub(in crate::session) fn gap_until(&self, wait: Duration) -> Option<Time> {
        let held = self.held.first()?;
        (held.latest_reliable <= self.floor()).then(|| held.since + wait)
    }

    /// Passes over the gap. Messages in parts become late, and what they were charged counts as read. Returns that
    /// charge and their numbers.
    pub(in crate::session) fn pass_gap(&mut self, mut deliver: impl FnMut(Unread)) -> (u64, Vec<u64>) {
        let Some(number) = self.held.first().map(Parked::number) else { return (0, Vec::new()) };
        let mut at = self.floor();
        let begun: Vec<u64> = self.partial.range(at..number).map(|(number, _)| *number).collect();
        while let Some((from, to)) = self.finished.next_open(at, number) {
            self.passed.insert(from, to);
            at = to;
        }
        let mut consumed = 0;
        for number in &begun {
            self.passed.remove(*number, number + 1);
            consumed += self.partial.get(number).expected(BEGUN).map_or(0, |partial| partial.charged);
            self.drop_partial(*number);
        }
        self.finished.raise(number);
        self.advance(&mut deliver);
        (consumed, begun)
    }
}
