//! Everything known about the messages of one origin.

use std::collections::BTreeMap;

use whimbrel_pubsub::coverage::{Count, Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, LAST_SEQUENCE, Origin, PartitionId};

use super::asking::Asking;
use super::denials::Denials;
use super::known::Known;
use super::picks::Reach;
use super::places::SlotId;
use super::settings::ChannelSettings;
use super::tally::Tally;
use crate::Time;

/// The most ranges of what was received of an origin. Beyond, the oldest gap is given up, as if no broker had it.
pub(super) const MOST_RECEIVED: usize = 4_096;

/// How far ahead of an origin's own last word the words of others about it may be.
const MOST_AHEAD: u64 = 1 << 16;

/// The messages of one origin that a broker received, holds, and knows to exist.
#[derive(Debug)]
pub struct OriginLog {
    pub(super) origin: Origin,
    /// The sequences that came here, and those that no broker has.
    pub(super) received: Ranges,
    pub(super) held: BTreeMap<u64, SlotId>,
    pub(super) tally: Tally,
    pub(super) known: Known,
    pub(super) asking: Asking,
    pub(super) denials: Denials,
    /// When anything was heard of the origin.
    pub(super) heard: Time,
    /// The highest sequence of which the origin told by itself. `None` if it never did.
    said: Option<u64>,
    /// Whether it is known by nothing but last values that a former run kept.
    is_remnant: bool,
}

impl OriginLog {
    pub(super) fn new(origin: Origin, settings: &ChannelSettings, now: Time) -> Self {
        Self {
            origin,
            received: Ranges::default(),
            held: BTreeMap::new(),
            tally: Tally::new(),
            known: Known::new(settings.unknown_after),
            asking: Asking::default(),
            denials: Denials::default(),
            heard: now,
            said: None,
            is_remnant: false,
        }
    }

    /// The origin.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The sequences that came here, or that no broker has any more.
    pub fn received(&self) -> &Ranges {
        &self.received
    }

    /// The highest sequence that is known to exist; 0 if none is.
    pub fn highest(&self) -> u64 {
        self.known.highest()
    }

    /// The highest sequence that has been known for as long as waiting lasts.
    pub fn long_known(&self, now: Time) -> u64 {
        self.known.long_known(now)
    }

    /// The held messages in `range`, in ascending order.
    pub fn held(&self, range: Range) -> impl DoubleEndedIterator<Item = (u64, SlotId)> + '_ {
        self.held.range(range.first..=range.last).map(|(sequence, slot)| (*sequence, *slot))
    }

    /// Whether something is known to exist that did not come here.
    pub fn is_missing_any(&self) -> bool {
        match self.all() {
            Some(all) => !self.received.covers(all),
            None => false,
        }
    }

    /// Returns the sequences that are known to exist and did not come here, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = Range> + '_ {
        self.all().into_iter().flat_map(|all| self.received.gaps(all))
    }

    /// The number of messages in `range` that came here and that a subscription with this reach could have wanted.
    pub fn count(&self, range: Range, reach: &[Reach]) -> Count {
        self.tally.count(range, reach)
    }

    fn all(&self) -> Option<Range> {
        Range::new(1, self.highest())
    }

    /// Whether nothing is known of it but last values that a former run kept: what else it published, nobody has told.
    pub fn is_remnant(&self) -> bool {
        self.is_remnant
    }

    /// Notes that a former run kept a last value of it, which was received just now.
    pub(super) fn note_remnant(&mut self) {
        self.is_remnant = true;
    }

    pub(super) fn receive(&mut self, sequence: u64, partition: PartitionId, now: Time) {
        self.is_remnant = false;
        self.heard = now;
        self.received.insert(Range { first: sequence, last: sequence });
        self.tally.receive(sequence, partition);
        self.hear(sequence, now);
        self.asking.on_progress(now);
    }

    /// Gives the oldest gap up if there are too many. Returns it.
    pub(super) fn give_up(&mut self) -> Option<Range> {
        if self.received.len() <= MOST_RECEIVED {
            return None;
        }
        let gap = self.received.close_oldest_gap()?;
        self.tally.lose(gap);
        Some(gap)
    }

    /// Notes that sequences up to `highest` exist.
    pub(super) fn hear(&mut self, highest: u64, now: Time) {
        self.heard = now;
        if self.known.note(highest.min(LAST_SEQUENCE), now) && self.is_missing_any() {
            self.asking.on_gap(now);
        }
    }

    /// Notes what a run says is the highest sequence. The origin knows best: others may be a little ahead of its last word only, so that
    /// none of them makes up messages of another.
    pub(super) fn hear_from(&mut self, by: Origin, highest: u64, now: Time) {
        self.is_remnant = false;
        if by == self.origin {
            self.said = Some(self.said.unwrap_or(0).max(highest));
        }
        let most =
            self.said.filter(|_| by != self.origin).map_or(u64::MAX, |said| said.saturating_add(MOST_AHEAD));
        self.hear(highest.min(most.max(self.highest())), now);
    }

    /// The origin itself says that it never gave the sequences from `first` on: they do not exist, and are not lost.
    pub(super) fn deny_from(&mut self, first: u64) {
        // An answer that was long on its way is older than what the origin told meanwhile.
        let least = self.received.highest().max(self.said.unwrap_or(0));
        self.known.lower(least.max(first.saturating_sub(1)));
    }

    /// Notes that `range` came here in a former run. What is not held of it counts as overwritten.
    pub(super) fn remember(&mut self, range: Range, now: Time) {
        self.is_remnant = false;
        let new: Vec<Range> = self.received.gaps(range).collect();
        new.into_iter().for_each(|gap| self.lose(gap));
        self.hear(range.last, now);
    }

    /// Notes that no broker has what is missing.
    pub(super) fn lose_missing(&mut self) {
        let missing: Vec<Range> = self.missing().collect();
        missing.into_iter().for_each(|range| self.lose(range));
    }

    /// Notes that no broker has `range`.
    fn lose(&mut self, range: Range) {
        self.received.insert(range);
        self.tally.lose(range);
    }

    /// Gives up what no broker can have. Returns whether there was any.
    pub(super) fn conclude(&mut self, settings: &ChannelSettings, now: Time) -> bool {
        let lost = self.lost(settings, now);
        lost.iter().for_each(|range| self.lose(range));
        let missing = self.missing().collect();
        self.denials.keep(&missing);
        !lost.is_empty() | self.give_up().is_some()
    }

    /// Returns the missing sequences that no broker can have.
    fn lost(&mut self, settings: &ChannelSettings, now: Time) -> Ranges {
        let long_known = self.long_known(now);
        let missing = self.missing().filter_map(|range| Range::new(range.first, range.last.min(long_known)));
        let missing = missing.collect();
        self.denials.lost(missing, &settings.peers, settings.unknown_after, now)
    }

    /// The brokers to ask: first the origin's, then the others.
    pub(super) fn candidates<'a>(&self, peers: &'a [BrokerId]) -> impl Iterator<Item = BrokerId> + use<'a> {
        let own = self.origin.broker;
        let first = peers.iter().copied().filter(move |peer| *peer == own);
        first.chain(peers.iter().copied().filter(move |peer| *peer != own))
    }
}
