//! Messages of one order domain as they arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use super::assembly::Assembly;
use super::config::{MAX_RANGES, MAX_SPAN};
use super::message::Message;
use super::ranges::{RangeSet, Window};
use super::waiting::{Held, Waiting};
use crate::mutants::{Mutant, planted};
use crate::wire::data::Extras;
use crate::{Cause, PeerMisbehaved, Time};

/// A message in parts.
#[derive(Debug, Default)]
pub(super) struct Partial {
    pub(super) assembly: Assembly,
    pub(super) extras: Option<Extras>,
    pub(super) length: Option<u64>,
    /// Highest end of a part.
    pub(super) highest: u64,
    /// What it has been charged so far.
    pub(super) charged: u64,
    pub(super) early: bool,
    /// Late: charged, but its parts are not kept.
    pub(super) dropped: bool,
}

/// What a number means to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not whole yet, and in time.
    Open,
    /// Passed over, but not accounted for.
    Late,
    /// Over.
    Finished,
}

#[derive(Debug, Default)]
pub(super) struct RecvDomain {
    pub(super) sequenced: bool,
    /// Whole or skipped.
    pub(super) finished: Window,
    pub(super) partial: BTreeMap<u64, Partial>,
    pub(super) held: Waiting,
    /// Skipped, the answer not acknowledged.
    pub(super) skipped: RangeSet,
    /// Passed over without ever having been seen: not charged yet.
    pub(super) passed: RangeSet,
    /// Of `partial`, those that are late: kept until their SKIP comes.
    pub(super) dropped: usize,
    /// On the session's list of gaps.
    pub(super) gap_listed: bool,
}

impl RecvDomain {
    pub(super) fn new(sequenced: bool) -> Self {
        Self { sequenced, ..Self::default() }
    }

    #[inline]
    pub(super) fn floor(&self) -> u64 {
        self.finished.floor()
    }

    /// What arrives now is the next in order and nothing is odd.
    #[inline]
    pub(super) fn is_next(&self, number: u64) -> bool {
        number == self.finished.floor() && self.finished.is_flush() && self.partial.is_empty()
    }

    pub(super) fn check(&self, number: u64) -> Result<(), PeerMisbehaved> {
        if number >= self.floor().saturating_add(MAX_SPAN) {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "a message number too far ahead"));
        }
        if self.dropped > MAX_RANGES {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "too many parts that came late"));
        }
        Ok(())
    }

    pub(super) fn standing(&self, number: u64) -> Standing {
        if number < self.floor() {
            let late = self.passed.contains(number) || self.partial.contains_key(&number);
            return if late { Standing::Late } else { Standing::Finished };
        }
        if self.finished.contains(number) { Standing::Finished } else { Standing::Open }
    }

    /// A message is whole. What is in turn goes to `deliver`.
    pub(super) fn on_whole(
        &mut self,
        now: Time,
        message: Message,
        latest_reliable: u64,
        mut deliver: impl FnMut(Message),
    ) {
        let number = message.id;
        let overtakes = planted(Mutant::SequencedOvertakes) && number % 4 == 1;
        if !self.sequenced || overtakes {
            self.finish(number);
            deliver(message);
        } else if number == self.floor() {
            self.finished.raise(number + 1);
            deliver(message);
            self.advance(deliver);
        } else {
            self.finished.mark(number);
            self.held.insert(Held { message, latest_reliable, since: now });
        }
    }

    fn finish(&mut self, number: u64) {
        if number == self.floor() {
            self.finished.raise(number + 1);
        } else {
            self.finished.mark(number);
        }
        self.finished.settle();
    }

    /// Delivers what has come in its turn.
    pub(super) fn advance(&mut self, mut deliver: impl FnMut(Message)) {
        self.finished.settle();
        while let Some(message) = self.held.pop_below(self.finished.floor()) {
            deliver(message);
        }
    }

    /// Skips an open number.
    pub(super) fn skip(&mut self, number: u64) {
        self.finish(number);
    }

    /// When the gap before the oldest waiting message may be passed over, if ever by time alone.
    pub(super) fn gap_until(&self, wait: Duration) -> Option<Time> {
        let held = self.held.first()?;
        (held.latest_reliable <= self.floor()).then(|| held.since + wait)
    }

    /// Passes over the gap.
    pub(super) fn pass_gap(&mut self, mut deliver: impl FnMut(Message)) {
        let Some(number) = self.held.first().map(|held| held.message.id) else { return };
        for missing in self.floor()..number {
            if !self.finished.contains(missing) && !self.partial.contains_key(&missing) {
                self.passed.insert(missing, missing + 1);
            }
        }
        self.finished.raise(number);
        self.advance(&mut deliver);
    }
}
