//! Coverage of all channels.

use std::collections::BTreeMap;

use super::error::CoverageError;
use super::limits::{MOST_CHANNELS, MOST_ORIGINS, MOST_RANGES};
use super::ranges::{Range, Ranges};
use crate::message::{ChannelId, Origin};

/// The sequences of each origin of one channel whose fate a subscription knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelCoverage {
    origins: BTreeMap<Origin, Ranges>,
}

impl ChannelCoverage {
    /// Returns whether `sequence` of `origin` is covered.
    pub fn contains(&self, origin: Origin, sequence: u64) -> bool {
        self.origins.get(&origin).is_some_and(|ranges| ranges.contains(sequence))
    }

    /// Returns whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Returns the coverage of `origin`.
    pub fn of(&self, origin: Origin) -> Option<&Ranges> {
        self.origins.get(&origin)
    }

    /// Returns the origins in ascending order, each with what is covered.
    pub fn iter(&self) -> impl Iterator<Item = (Origin, &Ranges)> {
        self.origins.iter().map(|(origin, ranges)| (*origin, ranges))
    }

    /// Returns the lowest sequence of `origin` that is not covered.
    pub fn next_gap(&self, origin: Origin) -> u64 {
        self.of(origin).and_then(|ranges| ranges.range_of(1)).map_or(1, |range| range.last + 1)
    }

    /// Covers `range`. Returns the gap that had to be closed for it, if there were too many.
    ///
    /// # Errors
    /// There are [`MOST_ORIGINS`] others; nothing is changed then.
    pub fn insert(&mut self, origin: Origin, range: Range) -> Result<Option<Range>, CoverageError> {
        if !self.origins.contains_key(&origin) && self.origins.len() == MOST_ORIGINS {
            return Err(CoverageError::TooManyOrigins);
        }
        let ranges = self.origins.entry(origin).or_default();
        ranges.insert(range);
        Ok(if ranges.len() > MOST_RANGES { ranges.close_oldest_gap() } else { None })
    }

    /// Covers what `other` covers. Returns the gaps that had to be closed.
    ///
    /// # Errors
    /// There are too many origins; what was merged before that stays.
    pub fn merge(&mut self, other: &Self) -> Result<Vec<(Origin, Range)>, CoverageError> {
        let mut closed = Vec::new();
        for (origin, ranges) in other.iter() {
            for range in ranges.iter() {
                closed.extend(self.insert(origin, range)?.map(|gap| (origin, gap)));
            }
        }
        Ok(closed)
    }

    /// Forgets an origin that has ended and of which no broker holds anything.
    pub fn forget(&mut self, origin: Origin) {
        self.origins.remove(&origin);
    }

    pub(super) fn len(&self) -> usize {
        self.origins.len()
    }

    fn close_gaps_beyond(&mut self, most: usize) -> Vec<(Origin, Range)> {
        let mut closed = Vec::new();
        for (origin, ranges) in &mut self.origins {
            while ranges.len() > most
                && let Some(gap) = ranges.close_oldest_gap()
            {
                closed.push((*origin, gap));
            }
        }
        closed
    }
}

/// The sequences whose fate a subscription knows, for each channel and origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    channels: BTreeMap<ChannelId, ChannelCoverage>,
}

impl Coverage {
    /// Returns the coverage of `channel`.
    pub fn of(&self, channel: ChannelId) -> Option<&ChannelCoverage> {
        self.channels.get(&channel)
    }

    /// Returns the channels in ascending order, each with what is covered.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, &ChannelCoverage)> {
        self.channels.iter().map(|(channel, coverage)| (*channel, coverage))
    }

    /// Returns the coverage of `channel`, to be added to.
    ///
    /// # Errors
    /// There are [`MOST_CHANNELS`] others.
    pub fn entry(&mut self, channel: ChannelId) -> Result<&mut ChannelCoverage, CoverageError> {
        if !self.channels.contains_key(&channel) && self.channels.len() == MOST_CHANNELS {
            return Err(CoverageError::TooManyChannels);
        }
        Ok(self.channels.entry(channel).or_default())
    }

    /// Covers what `other` covers. Returns the gaps that had to be closed.
    ///
    /// # Errors
    /// There are too many channels or origins; what was merged before that stays.
    pub fn merge(&mut self, other: &Self) -> Result<Vec<(ChannelId, Origin, Range)>, CoverageError> {
        let mut closed = Vec::new();
        for (channel, coverage) in other.iter() {
            let gaps = self.entry(channel)?.merge(coverage)?;
            closed.extend(gaps.into_iter().map(|(origin, gap)| (channel, origin, gap)));
        }
        Ok(closed)
    }

    /// Closes the oldest gaps of each origin until it has at most `most` ranges. Returns the gaps.
    pub fn close_gaps_beyond(&mut self, most: usize) -> Vec<(ChannelId, Origin, Range)> {
        let close = |(channel, coverage): (&ChannelId, &mut ChannelCoverage)| {
            let channel = *channel;
            coverage.close_gaps_beyond(most).into_iter().map(move |(origin, gap)| (channel, origin, gap))
        };
        self.channels.iter_mut().flat_map(close).collect()
    }

    /// Returns whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.channels.values().all(ChannelCoverage::is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.channels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::BrokerId;

    fn origin(epoch: u64) -> Origin {
        Origin { broker: BrokerId(1), epoch }
    }

    #[test]
    fn the_oldest_gap_is_closed_when_there_are_too_many() {
        let mut coverage = ChannelCoverage::default();
        let one = |sequence| Range { first: sequence, last: sequence };
        for number in 0..MOST_RANGES as u64 {
            assert_eq!(coverage.insert(origin(1), one(2 * number + 1)), Ok(None));
        }
        assert_eq!(coverage.insert(origin(1), one(1_000)), Ok(Some(one(2))));
        assert!(coverage.contains(origin(1), 2) && !coverage.contains(origin(1), 4));
        assert_eq!(coverage.next_gap(origin(1)), 4);
        assert_eq!(coverage.next_gap(origin(2)), 1);
    }

    #[test]
    fn origins_and_channels_are_bounded() {
        let mut coverage = ChannelCoverage::default();
        let range = Range { first: 1, last: 1 };
        for epoch in 0..MOST_ORIGINS as u64 {
            assert_eq!(coverage.insert(origin(epoch), range), Ok(None));
        }
        assert_eq!(coverage.insert(origin(u64::MAX), range), Err(CoverageError::TooManyOrigins));
        coverage.forget(origin(3));
        assert_eq!(coverage.insert(origin(u64::MAX), range), Ok(None));
        let mut all = Coverage::default();
        assert!((0..MOST_CHANNELS as u32).all(|channel| all.entry(ChannelId(channel)).is_ok()));
        assert_eq!(all.entry(ChannelId(999)), Err(CoverageError::TooManyChannels));
    }
}
