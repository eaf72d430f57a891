//! The records of runs and summary at the end of a full segment.
//!
//! ```text
//! runs:    each: place of the origin in the summary (4 bytes)  sequence (8)  ordinal (4)  count (4)
//! summary: messages (4)  end of the messages (4)  offset of the runs (4)  first arrival (8)  last arrival (8)
//!          origins (4), each: broker (8)  epoch (8)  lowest sequence (8)  highest sequence (8)
//!          marks (4), each: offset of a message (4)
//! ```
//!
//! The ordinal of a message is its number in the segment, from 0. A run has sequences and ordinals that both go up by one. Every
//! [`MARK_EVERY`]th message has a mark.

use whimbrel_pubsub::message::Origin;

use super::limits::OPENING;
use super::reader::{Cursor, Put};

/// Every so many messages the offset of one is kept in memory.
pub(in crate::store) const MARK_EVERY: u32 = 128;

/// Messages of one origin that are next to each other in both orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Run {
    /// The first sequence.
    pub(in crate::store) sequence: u64,
    /// The first ordinal.
    pub(in crate::store) ordinal: u32,
    /// The number of messages.
    pub(in crate::store) count: u32,
}

impl Run {
    /// The last sequence.
    pub(in crate::store) fn last(&self) -> u64 {
        self.sequence + u64::from(self.count) - 1
    }
}

/// The sequences of an origin in a segment, roughly: the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Held {
    pub(in crate::store) origin: Origin,
    pub(in crate::store) lowest: u64,
    pub(in crate::store) highest: u64,
}

/// The facts about a segment that are kept in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Summary {
    /// The number of messages.
    pub(in crate::store) messages: u32,
    /// Where the last message ends.
    pub(in crate::store) end: u32,
    /// Where the record of the runs is; 0 in a segment that is not full.
    pub(in crate::store) runs: u32,
    /// When the first message arrived, milliseconds since 1970.
    pub(in crate::store) first_arrived: u64,
    /// When the last message arrived.
    pub(in crate::store) last_arrived: u64,
    /// The origins, in ascending order.
    pub(in crate::store) origins: Vec<Held>,
    /// The offsets of every so manieth message.
    pub(in crate::store) marks: Vec<u32>,
}

impl Summary {
    pub(in crate::store) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [self.messages, self.end, self.runs] {
            out.put_u32(word);
        }
        out.put_u64(self.first_arrived);
        out.put_u64(self.last_arrived);
        out.put_u32(self.origins.len() as u32);
        for held in &self.origins {
            out.put_origin(held.origin);
            out.put_u64(held.lowest);
            out.put_u64(held.highest);
        }
        out.put_u32(self.marks.len() as u32);
        self.marks.iter().for_each(|mark| out.put_u32(*mark));
        out
    }

    pub(in crate::store) fn parse(body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(body);
        let (messages, end, runs) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let (first_arrived, last_arrived) = (cursor.u64()?, cursor.u64()?);
        let mut origins = Vec::new();
        for _ in 0..cursor.u32()? {
            let held = Held { origin: cursor.origin()?, lowest: cursor.u64()?, highest: cursor.u64()? };
            origins.push(held);
        }
        let mut marks = Vec::new();
        for _ in 0..cursor.u32()? {
            marks.push(cursor.u32()?);
        }
        let summary = Self { messages, end, runs, first_arrived, last_arrived, origins, marks };
        (cursor.is_empty() && summary.is_sound()).then_some(summary)
    }

    fn is_sound(&self) -> bool {
        let ascend = |offsets: &[u32]| offsets.windows(2).all(|pair| pair[0] < pair[1]);
        self.messages > 0
            && self.marks.len() == self.messages.div_ceil(MARK_EVERY) as usize
            && self.marks.first() == Some(&OPENING)
            && ascend(&self.marks)
            && self.marks.last() < Some(&self.end)
            && self.end <= self.runs
            && self.origins.windows(2).all(|pair| pair[0].origin < pair[1].origin)
            && self.origins.iter().all(|held| held.lowest <= held.highest)
    }
}

/// The runs as they are in the file. The place of an origin is that in the summary.
pub(in crate::store) fn encode_runs(runs: impl Iterator<Item = (u32, Run)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (origin, run) in runs {
        out.put_u32(origin);
        out.put_u64(run.sequence);
        out.put_u32(run.ordinal);
        out.put_u32(run.count);
    }
    out
}

/// Reads the runs of a segment with these many origins and messages.
pub(in crate::store) fn parse_runs(body: &[u8], origins: usize, messages: u32) -> Option<Vec<(usize, Run)>> {
    let mut cursor = Cursor(body);
    let (mut runs, mut total) = (Vec::with_capacity(body.len() / 20), 0_u32);
    while !cursor.is_empty() {
        let origin = cursor.u32()? as usize;
        let run = Run { sequence: cursor.u64()?, ordinal: cursor.u32()?, count: cursor.u32()? };
        total = total.checked_add(run.count)?;
        let is_possible = origin < origins
            && run.count > 0
            && run.ordinal.checked_add(run.count)? <= messages
            && run.sequence.checked_add(run.count.into()).is_some();
        if !is_possible {
            return None;
        }
        runs.push((origin, run));
    }
    (total <= messages).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whimbrel_pubsub::message::BrokerId;

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_in_one_way(bytes in proptest::collection::vec(any::<u8>(), 0..100), origins in 0_usize..4, messages in 0_u32..40) {
            if let Some(summary) = Summary::parse(&bytes) {
                prop_assert_eq!(summary.encode(), bytes.clone());
            }
            if let Some(runs) = parse_runs(&bytes, origins, messages) {
                prop_assert_eq!(encode_runs(runs.into_iter().map(|(origin, run)| (origin as u32, run))), bytes);
            }
        }

        #[test]
        fn a_changed_summary_panics_nowhere(at: prop::sample::Index, to: u8) {
            let mut bytes = summary().encode();
            let at = at.index(bytes.len());
            bytes[at] = to;
            if let Some(summary) = Summary::parse(&bytes) {
                prop_assert_eq!(summary.encode(), bytes);
            }
        }
    }

    fn summary() -> Summary {
        let origin = |epoch| Origin { broker: BrokerId(1), epoch };
        Summary {
            messages: 200,
            end: 90_000,
            runs: 90_000,
            first_arrived: 5,
            last_arrived: 4,
            origins: vec![
                Held { origin: origin(1), lowest: 3, highest: 90 },
                Held { origin: origin(2), lowest: 1, highest: 1 },
            ],
            marks: vec![OPENING, 50_000],
        }
    }

    #[test]
    fn a_summary_and_its_runs_come_back() {
        assert_eq!(Summary::parse(&summary().encode()), Some(summary()));
        let runs = vec![
            (0, Run { sequence: 3, ordinal: 1, count: 5 }),
            (1, Run { sequence: 1, ordinal: 0, count: 1 }),
        ];
        let bytes = encode_runs(runs.iter().map(|(origin, run)| (*origin as u32, *run)));
        assert_eq!(parse_runs(&bytes, 2, 6), Some(runs));
        assert_eq!(parse_runs(&bytes, 1, 6), None, "an origin that is not there");
        assert_eq!(parse_runs(&bytes, 2, 5), None, "more than there are");
    }
}
