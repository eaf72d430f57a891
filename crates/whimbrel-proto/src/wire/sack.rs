//! SACK (MMSP 3.2.2, RFC 9000 section 19.3): the packets of a path that arrived.

use std::ops::RangeInclusive;

use super::{Malformed, Reader, Writer, block, varint_len};
use crate::mutants::{Mutant, planted};

const ECN: u8 = 1;
const DUPLICATES: u8 = 2;

/// The most ranges in a SACK. The sender keeps at most this many, and the receiver refuses more.
pub const MAX_RANGES: usize = 64;

/// Counts of received packets by ECN mark, since the path began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked CE (congestion experienced).
    pub ce: u64,
}

impl EcnCounts {
    fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// A parsed SACK. It is reused from packet to packet, so that parsing does not allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    /// The path whose packets it acknowledges.
    pub path: u32,
    /// The time in µs between the arrival of the largest number and this SACK.
    pub delay_us: u64,
    /// The number of packets received more than once since the connection began.
    pub duplicates: u64,
    /// The counts by ECN mark, if the receiver sees marks.
    pub ecn: Option<EcnCounts>,
    /// The packet numbers received: highest range first, disjoint and not adjacent.
    pub ranges: Vec<RangeInclusive<u64>>,
}

impl Sack {
    /// Returns the highest packet number acknowledged.
    pub fn largest(&self) -> u64 {
        self.ranges.first().map_or(0, |range| *range.end())
    }

    /// Reads what follows the type byte into `self`, replacing its contents.
    pub fn read(&mut self, reader: &mut Reader) -> Result<(), Malformed> {
        let flags = reader.u8()?;
        if flags & !(ECN | DUPLICATES) != 0 {
            return Err(Malformed("SACK: unknown flag"));
        }
        self.path = u32::try_from(reader.varint()?).map_err(|_| Malformed("SACK: path id"))?;
        let mut largest = reader.varint()?;
        self.delay_us = reader.varint()?;
        let more = reader.varint()?;
        if more >= MAX_RANGES as u64 {
            return Err(Malformed("SACK: too many ranges"));
        }
        self.ranges.clear();
        for index in 0..=more {
            if index > 0 {
                let gap = reader.varint()?;
                largest = match largest.checked_sub(gap + 2) {
                    Some(largest) => largest,
                    None if planted(Mutant::SackBelowZero) => largest - (gap + 2),
                    None => return Err(Malformed("SACK: range below zero")),
                };
            }
            let length = reader.varint()?;
            let smallest = largest.checked_sub(length).ok_or(Malformed("SACK: range below zero"))?;
            self.ranges.push(smallest..=largest);
            largest = smallest;
        }
        self.duplicates = if flags & DUPLICATES != 0 { reader.varint()? } else { 0 };
        self.ecn = None;
        if flags & ECN != 0 {
            self.ecn =
                Some(EcnCounts { ect0: reader.varint()?, ect1: reader.varint()?, ce: reader.varint()? });
        }
        Ok(())
    }
}

/// Writes a SACK of as many of `ranges` (highest first) as fit. Returns false if not even the first fits.
pub fn write(
    out: &mut Writer<'_>,
    path: u32,
    delay_us: u64,
    ranges: impl ExactSizeIterator<Item = RangeInclusive<u64>> + Clone,
    duplicates: u64,
    ecn: EcnCounts,
) -> bool {
    let Some(first) = ranges.clone().next() else { return false };
    let tail = varint_len(duplicates) + if ecn.is_zero() { 0 } else { 24 };
    let head = 2 + varint_len(path.into()) + 8 + varint_len(delay_us) + 1 + 8 + tail;
    let Some(mut room) = out.remaining().checked_sub(head) else { return false };
    let mut flags = 0;
    flags |= if ecn.is_zero() { 0 } else { ECN };
    flags |= if duplicates == 0 { 0 } else { DUPLICATES };
    let mut count = 0;
    let mut below = *first.start();
    for range in ranges.clone().skip(1).take(MAX_RANGES - 1) {
        let bytes = varint_len(below - range.end() - 2) + varint_len(range.end() - range.start());
        let Some(left) = room.checked_sub(bytes) else { break };
        (room, count, below) = (left, count + 1, *range.start());
    }
    out.u8(block::SACK);
    out.u8(flags);
    out.varint(path.into());
    out.varint(*first.end());
    out.varint(delay_us);
    out.varint(count);
    out.varint(first.end() - first.start());
    let mut below = *first.start();
    for range in ranges.skip(1).take(count as usize) {
        out.varint(below - range.end() - 2);
        out.varint(range.end() - range.start());
        below = *range.start();
    }
    if duplicates != 0 {
        out.varint(duplicates);
    }
    if !ecn.is_zero() {
        out.varint(ecn.ect0);
        out.varint(ecn.ect1);
        out.varint(ecn.ce);
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges_from(steps: &[(u64, u64)]) -> Vec<RangeInclusive<u64>> {
        let mut at = 0;
        let mut ranges: Vec<_> = steps
            .iter()
            .map(|(gap, length)| {
                let start = at + gap;
                at = start + length + 2;
                start..=start + length
            })
            .collect();
        ranges.reverse();
        ranges
    }

    proptest! {
        #[test]
        fn round_trips(
            steps in proptest::collection::vec((0u64..1 << 20, 0u64..1 << 20), 1..40),
            path in 0u32..9, delay in 0u64..1 << 20, duplicates in 0u64..3, ce in 0u64..3,
        ) {
            let ranges = ranges_from(&steps);
            let ecn = EcnCounts { ce, ..EcnCounts::default() };
            let mut buf = Vec::new();
            prop_assert!(write(&mut Writer::new(&mut buf, 1200), path, delay, ranges.iter().cloned(), duplicates, ecn));
            let mut reader = Reader::new(buf.into());
            prop_assert_eq!(reader.u8(), Ok(block::SACK));
            let mut sack = Sack::default();
            sack.read(&mut reader).unwrap();
            prop_assert!(reader.is_empty());
            prop_assert_eq!((sack.path, sack.delay_us, sack.duplicates), (path, delay, duplicates));
            prop_assert_eq!(sack.ecn.unwrap_or_default(), ecn);
            prop_assert_eq!(sack.ranges, ranges);
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut sack = Sack::default();
            if sack.read(&mut Reader::new(bytes.into())).is_ok() {
                prop_assert!(sack.ranges.len() <= MAX_RANGES);
                for pair in sack.ranges.windows(2) {
                    prop_assert!(pair[0].start() > pair[1].end());
                }
            }
        }
    }

    #[test]
    fn the_oldest_ranges_give_way_to_the_packet_s_end() {
        let ranges = ranges_from(&[(1, 1); 40]);
        let mut buf = Vec::new();
        assert!(write(&mut Writer::new(&mut buf, 60), 0, 0, ranges.iter().cloned(), 0, EcnCounts::default()));
        assert!(buf.len() <= 60);
        let mut sack = Sack::default();
        sack.read(&mut Reader::new(bytes::Bytes::from(buf).slice(1..))).unwrap();
        assert_eq!(sack.ranges[..], ranges[..sack.ranges.len()]);
    }
}
