//! Coverage as bytes.
//!
//! ```text
//! version (1 byte: 1)  channels (number)
//! each channel, ascending: id  origins (number)
//!   each origin, ascending: broker (8 bytes)  epoch (8 bytes)  ranges (number)
//!     each range, ascending: distance to the end of the range before  length - 1
//! checksum (4 bytes, CRC-32C)
//! ```

use super::error::CoverageError;
use super::limits::{LONGEST_COVERAGE, MOST_CHANNELS, MOST_ORIGINS, MOST_RANGES};
use super::ranges::{Range, Ranges};
use super::set::{ChannelCoverage, Coverage};
use crate::codec::{Malformed, Parser, put_varint, sealed, unsealed};
use crate::message::{ChannelId, LAST_SEQUENCE, Origin};

const VERSION: u8 = 1;

impl From<Malformed> for CoverageError {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

impl Coverage {
    /// Returns the coverage as bytes. They may be longer than [`LONGEST_COVERAGE`]; [`Coverage::fit`] prevents that.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.len() as u64);
        for (channel, coverage) in self.iter() {
            put_varint(&mut out, channel.0.into());
            put_channel(&mut out, coverage);
        }
        sealed(out)
    }

    /// Reads a coverage, whoever sent it.
    ///
    /// # Errors
    /// The bytes are damaged, too long, or of a newer version.
    pub fn parse(bytes: &[u8]) -> Result<Self, CoverageError> {
        if bytes.len() > LONGEST_COVERAGE {
            return Err(CoverageError::TooLong(bytes.len()));
        }
        let mut parser = Parser::new(unsealed(bytes)?);
        match parser.byte()? {
            VERSION => {}
            newer if newer > VERSION => return Err(CoverageError::Newer(newer)),
            _ => return Err(CoverageError::Damaged),
        }
        let mut coverage = Self::default();
        let mut least = 0;
        for _ in 0..parser.number(MOST_CHANNELS)? {
            let id = u32::try_from(parser.varint()?).map_err(|_| Malformed)?;
            if u64::from(id) < least {
                return Err(CoverageError::Damaged);
            }
            least = u64::from(id) + 1;
            *coverage.entry(ChannelId(id))? = parse_channel(&mut parser)?;
        }
        if parser.is_empty() { Ok(coverage) } else { Err(CoverageError::Damaged) }
    }

    /// Returns the coverage in parts, each of which can be [encoded](Self::encode) within [`LONGEST_COVERAGE`]. None if nothing is covered.
    pub fn parts(self) -> Vec<Self> {
        if self.is_empty() {
            return Vec::new();
        }
        if self.encode().len() <= LONGEST_COVERAGE {
            return vec![self];
        }
        let one = |channel: ChannelId, origin: Origin, ranges: &Ranges| {
            let mut part = Self::default();
            for range in ranges.iter() {
                // One channel and one origin are never too many.
                part.entry(channel).and_then(|coverage| coverage.insert(origin, range)).ok();
            }
            part
        };
        let origins = self.iter().flat_map(|(channel, coverage)| {
            coverage.iter().map(move |(origin, ranges)| (channel, origin, ranges))
        });
        origins.map(|(channel, origin, ranges)| one(channel, origin, ranges)).collect()
    }

    /// Closes the oldest gaps until the encoded coverage has at most `most` bytes. Returns the gaps.
    ///
    /// # Errors
    /// It does not fit without any gap either.
    pub fn fit(&mut self, most: usize) -> Result<Vec<(ChannelId, Origin, Range)>, CoverageError> {
        let mut closed = Vec::new();
        let mut ranges = MOST_RANGES;
        loop {
            let length = self.encode().len();
            if length <= most {
                return Ok(closed);
            }
            if ranges == 1 {
                return Err(CoverageError::TooLong(length));
            }
            ranges /= 2;
            closed.extend(self.close_gaps_beyond(ranges));
        }
    }
}

fn put_channel(out: &mut Vec<u8>, coverage: &ChannelCoverage) {
    put_varint(out, coverage.len() as u64);
    for (origin, ranges) in coverage.iter() {
        origin.encode(out);
        put_varint(out, ranges.len() as u64);
        let mut end = 0;
        for range in ranges.iter() {
            put_varint(out, range.first - end);
            put_varint(out, range.last - range.first);
            end = range.last;
        }
    }
}

fn parse_channel(parser: &mut Parser<'_>) -> Result<ChannelCoverage, CoverageError> {
    let mut coverage = ChannelCoverage::default();
    let mut before = None;
    for _ in 0..parser.number(MOST_ORIGINS)? {
        let origin = Origin::parse(parser)?;
        if before.is_some_and(|before| before >= origin) {
            return Err(CoverageError::Damaged);
        }
        before = Some(origin);
        for range in parse_ranges(parser)?.iter() {
            coverage.insert(origin, range)?;
        }
    }
    Ok(coverage)
}

fn parse_ranges(parser: &mut Parser<'_>) -> Result<Ranges, Malformed> {
    let number = parser.number(MOST_RANGES)?;
    let (mut ranges, mut end) = (Ranges::default(), 0);
    for nth in 0..number {
        let distance = parser.varint()?;
        // Sequences begin at 1, and ranges that touch are one.
        if distance < if nth == 0 { 1 } else { 2 } {
            return Err(Malformed);
        }
        let first = in_bounds(end, distance)?;
        end = in_bounds(first, parser.varint()?)?;
        ranges.insert(Range { first, last: end });
    }
    if ranges.is_empty() { Err(Malformed) } else { Ok(ranges) }
}

fn in_bounds(base: u64, more: u64) -> Result<u64, Malformed> {
    base.checked_add(more).filter(|sum| *sum <= LAST_SEQUENCE).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::BrokerId;
    use proptest::prelude::*;

    fn coverage() -> impl Strategy<Value = Coverage> {
        let range = (1_u64..1 << 61, 0_u64..1_000);
        let entry = (0_u32..4, 0_u64..3, proptest::collection::vec(range, 1..12));
        proptest::collection::vec(entry, 0..8).prop_map(|entries| {
            let mut coverage = Coverage::default();
            for (channel, broker, ranges) in entries {
                let channel = coverage.entry(ChannelId(channel)).unwrap();
                for (first, more) in ranges {
                    let origin = Origin { broker: BrokerId(broker), epoch: !broker };
                    channel.insert(origin, Range { first, last: first + more }).unwrap();
                }
            }
            coverage
        })
    }

    proptest! {
        #[test]
        fn a_coverage_comes_back(coverage in coverage()) {
            prop_assert_eq!(Coverage::parse(&coverage.encode()), Ok(coverage));
        }

        #[test]
        fn damage_is_found(coverage in coverage(), bit: prop::sample::Index) {
            let mut bytes = coverage.encode();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Coverage::parse(&bytes), Err(CoverageError::Damaged));
        }

        #[test]
        fn any_bytes_with_a_checksum_have_one_reading(body in proptest::collection::vec(any::<u8>(), 0..80), known: bool) {
            let mut body = body;
            if known && let Some(first) = body.first_mut() {
                *first = VERSION;
            }
            let bytes = sealed(body);
            if let Ok(coverage) = Coverage::parse(&bytes) {
                prop_assert_eq!(coverage.encode(), bytes);
            }
        }

        #[test]
        fn a_long_coverage_is_made_to_fit(ranges in 2_u64..MOST_RANGES as u64) {
            let mut coverage = Coverage::default();
            let origin = Origin { broker: BrokerId(1), epoch: 1 };
            for nth in 0..ranges {
                let one = Range { first: 1 + 1_000 * nth, last: 1 + 1_000 * nth };
                coverage.entry(ChannelId(0)).unwrap().insert(origin, one).unwrap();
            }
            let whole = coverage.clone();
            let closed = coverage.fit(100).unwrap();
            prop_assert!(coverage.encode().len() <= 100);
            for (channel, origin, gap) in closed {
                prop_assert!(coverage.of(channel).unwrap().of(origin).unwrap().covers(gap));
                prop_assert!(!whole.of(channel).unwrap().contains(origin, gap.first));
            }
            prop_assert!(coverage.fit(20).is_err());
        }

        #[test]
        fn the_parts_of_a_coverage_are_all_of_it(origins in 0_u64..60) {
            let mut coverage = Coverage::default();
            for broker in 0..origins {
                let origin = Origin { broker: BrokerId(broker), epoch: !0 };
                for nth in 0..MOST_RANGES as u64 {
                    let one = Range { first: 1 + (nth << 20), last: 1 + (nth << 20) };
                    coverage.entry(ChannelId(0)).unwrap().insert(origin, one).unwrap();
                }
            }
            let mut whole = Coverage::default();
            for part in coverage.clone().parts() {
                prop_assert!(part.encode().len() <= LONGEST_COVERAGE);
                whole.merge(&part).unwrap();
            }
            prop_assert_eq!(whole, coverage);
        }
    }

    #[test]
    fn a_newer_version_is_told_apart_from_damage() {
        assert_eq!(Coverage::parse(&sealed(vec![2, 0])), Err(CoverageError::Newer(2)));
        assert_eq!(Coverage::parse(&sealed(vec![0, 0])), Err(CoverageError::Damaged));
        let long = vec![0; LONGEST_COVERAGE + 1];
        assert_eq!(Coverage::parse(&long), Err(CoverageError::TooLong(LONGEST_COVERAGE + 1)));
    }
}
