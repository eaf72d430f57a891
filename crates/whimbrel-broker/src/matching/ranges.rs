use std::collections::{BTreeMap, BTreeSet};

use crate::selector::Span;

/// Ranges of numbers, each with a slot: finds those that contain a number, at a cost for each that is found, and for the levels in use.
///
/// Numbers are mapped to `u64` in their order. The bits of that, from the highest on, make a tree: a range lies at the node where the paths
/// to its ends part. There, a number that goes the way of the low end is in the range if it is not below that end, and one that goes the
/// way of the high end if it is not above that.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Ranges of one number.
    points: BTreeMap<u64, BTreeSet<u32>>,
    /// By the number of bits that the ends share, and these bits.
    nodes: BTreeMap<(u32, u64), Node>,
    /// The number of nodes that share so many bits.
    levels: [u32; LEVELS],
}

/// Ranges that contain a number are counted up to here when a term is chosen: most of the values of a range have fewer around them.
const CROWD: usize = 64;

const LEVELS: usize = u64::BITS as usize;

#[derive(Debug, Default)]
struct Node {
    by_low: BTreeSet<(u64, u32)>,
    by_high: BTreeSet<(u64, u32)>,
}

impl Default for Ranges {
    fn default() -> Self {
        Self { points: BTreeMap::new(), nodes: BTreeMap::new(), levels: [0; LEVELS] }
    }
}

impl Ranges {
    pub(super) fn insert(&mut self, span: Span, slot: u32) {
        let (low, high) = (ordered(span.low), ordered(span.high));
        if low == high {
            self.points.entry(low).or_default().insert(slot);
            return;
        }
        let level = (low ^ high).leading_zeros();
        let node = self.nodes.entry((level, bits(low, level))).or_insert_with(|| {
            self.levels[level as usize] += 1;
            Node::default()
        });
        node.by_low.insert((low, slot));
        node.by_high.insert((high, slot));
    }

    pub(super) fn remove(&mut self, span: Span, slot: u32) {
        let (low, high) = (ordered(span.low), ordered(span.high));
        if low == high {
            super::bucket::remove_from(&mut self.points, &low, slot);
            return;
        }
        let level = (low ^ high).leading_zeros();
        let key = (level, bits(low, level));
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.by_low.remove(&(low, slot));
        node.by_high.remove(&(high, slot));
        if node.by_low.is_empty() {
            self.nodes.remove(&key);
            self.levels[level as usize] -= 1;
        }
    }

    /// The slots of the ranges that contain a number.
    pub(super) fn containing(&self, number: f64) -> impl Iterator<Item = u32> {
        let number = ordered(number);
        let used = (0..u64::BITS).filter(|level| self.levels[*level as usize] > 0);
        let nodes =
            used.filter_map(move |level| Some((level, self.nodes.get(&(level, bits(number, level)))?)));
        let found = nodes.flat_map(move |(level, node)| {
            let goes_low = number & (1 << (u64::BITS - 1 - level)) == 0;
            let low = goes_low.then(|| node.by_low.range(..=(number, u32::MAX)));
            let high = (!goes_low).then(|| node.by_high.range((number, 0)..));
            low.into_iter().flatten().chain(high.into_iter().flatten()).map(|(_, slot)| *slot)
        });
        self.points.get(&number).into_iter().flatten().copied().chain(found)
    }

    /// How many ranges contain one of the ends of this one, about.
    pub(super) fn crowd(&self, span: Span) -> usize {
        let at = |end| self.containing(end).take(CROWD).count();
        let points = self.points.get(&ordered(span.low)).filter(|_| span.is_point()).map_or(0, BTreeSet::len);
        at(span.low).max(at(span.high)).max(points)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty() && self.nodes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        let points: usize = self.points.values().map(BTreeSet::len).sum();
        points + self.nodes.values().map(|node| node.by_low.len()).sum::<usize>()
    }
}

/// The first so many bits, at most 63.
fn bits(number: u64, level: u32) -> u64 {
    number.checked_shr(u64::BITS - level).unwrap_or(0)
}

/// Maps a number that is not NaN to a `u64`, in order.
fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { !bits } else { bits | 1 << (u64::BITS - 1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-20..20_i32).prop_map(f64::from),
            any::<f64>().prop_filter("no NaN", |number| !number.is_nan()).prop_map(|number| number + 0.0),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
        ]
    }

    proptest! {
        #[test]
        fn finds_what_trying_each_finds(
            ends in proptest::collection::vec((numbers(), numbers()), 0..40),
            asked in proptest::collection::vec(numbers(), 1..20),
            removed in any::<u64>(),
        ) {
            let mut ranges = Ranges::default();
            let spans: Vec<_> = ends.iter().map(|(one, two)| Span { low: one.min(*two), high: one.max(*two) }).collect();
            let slots = || (0..).zip(&spans);
            slots().for_each(|(slot, span)| ranges.insert(*span, slot));
            let is_removed = |slot: u32| removed & (1 << slot) != 0;
            slots().filter(|(slot, _)| is_removed(*slot)).for_each(|(slot, span)| ranges.remove(*span, slot));
            prop_assert_eq!(ranges.len(), slots().filter(|(slot, _)| !is_removed(*slot)).count());
            for number in asked.iter().copied().chain(ends.iter().map(|(low, _)| *low)) {
                let mut found: Vec<_> = ranges.containing(number).collect();
                found.sort_unstable();
                let expected = slots().filter(|(slot, span)| !is_removed(*slot) && span.contains(number));
                prop_assert_eq!(found, expected.map(|(slot, _)| slot).collect::<Vec<_>>());
            }
            slots().for_each(|(slot, span)| ranges.remove(*span, slot));
            prop_assert!(ranges.is_empty() && ranges.levels == [0; LEVELS]);
        }
    }
}
