//! The arrival of a subscription.

use whimbrel_pubsub::coverage::{ChannelCoverage, Range, Ranges, Told};

use super::reader::{Behind, Reader};
use super::reading::Reading;
use super::walk::Walk;
use super::wish::{From, Wish};
use crate::Time;
use crate::buffer::{Channel, OriginLog};
use crate::mutants::{Mutant, planted};

impl Reader {
    /// A subscription comes to this broker. Have [`Channel::ask_at_once`] called if it [waits](Self::is_waiting) for messages that are
    /// missing here.
    pub fn attach(channel: &Channel, wish: Wish, now: Time) -> Self {
        let mut reader = Self::new(wish.wanted, wish.recover, wish.slow, channel, now);
        match wish.from {
            From::Live => reader.begin_live(channel),
            From::Held => reader.begin_behind(channel, before_held(channel), now),
            From::Coverage(coverage) => reader.begin_behind(channel, coverage, now),
        }
        reader
    }

    /// Whether messages that it does not cover exist and are missing here.
    pub fn is_waiting(&self, channel: &Channel) -> bool {
        let nothing = Ranges::default();
        channel.logs().any(|(index, log)| {
            let covered = self.readings.get(index.place()).map_or(&nothing, |reading| &reading.covered);
            log.missing().any(|missing| !covered.covers(missing))
        })
    }

    fn begin_live(&mut self, channel: &Channel) {
        self.adopt(channel);
        for (index, log) in channel.logs() {
            if let Some(all) = Range::new(1, log.highest()) {
                self.readings[index.place()].settle(all);
            }
        }
        self.walk = Some(Walk::all());
    }

    fn begin_behind(&mut self, channel: &Channel, coverage: ChannelCoverage, now: Time) {
        self.strangers = coverage.iter().map(|(origin, ranges)| (origin, ranges.clone())).collect();
        let remnants = channel.logs().map(|(_, log)| log).filter(|log| log.is_remnant());
        let remnants = remnants.map(OriginLog::origin).filter(|origin| self.strangers.contains_key(origin));
        let remnants: Vec<_> = remnants.collect();
        self.adopt(channel);
        if planted(Mutant::SentToOneAhead) {
            self.cover_only_received(channel);
        }
        let (outstanding, first) = self.count(channel, now);
        self.notices.push_back(Told::Outstanding(outstanding));
        let unknown = self.strangers.keys().copied().chain(remnants);
        self.notices.extend(unknown.map(Told::UnknownOrigin));
        let until = channel.end();
        self.behind = Some(Behind { next: first.unwrap_or(until), until });
        self.walk = Some(Walk::missed());
    }

    fn cover_only_received(&mut self, channel: &Channel) {
        for (index, log) in channel.logs() {
            let covered = &self.readings[index.place()].covered;
            let received = covered.iter().flat_map(|range| log.received().within(range)).collect();
            self.readings[index.place()] = Reading::of(received);
        }
    }
}

/// Returns the coverage of everything before the first message that is held of each origin. A subscription that begins there misses none of it.
fn before_held(channel: &Channel) -> ChannelCoverage {
    let mut before = ChannelCoverage::default();
    for (_, log) in channel.logs() {
        let all = Range::new(1, log.highest());
        let first =
            all.and_then(|all| log.held(all).next()).map_or(log.highest() + 1, |(sequence, _)| sequence);
        if let Some(range) = Range::new(1, first - 1) {
            // There are no more origins here than a coverage may have.
            before.insert(log.origin(), range).ok();
        }
    }
    before
}
