//! Statistics of each tag, both directions together.

use std::collections::BTreeMap;

use super::state::Session;
use super::stats::Counters;
use super::tag_stats::TagStats;
use crate::{StreamId, Tag};

impl Session {
    /// Returns the statistics of each tag that was used, in order of stream and tag. There are at most `max_tags` in
    /// each direction.
    pub fn tag_stats(&self) -> Vec<TagStats> {
        let fresh = |(stream, tag): (u64, u64)| TagStats {
            stream: StreamId(stream),
            tag: Tag(tag),
            sent: Counters::default(),
            received: 0,
            received_bytes: 0,
        };
        let mut all = BTreeMap::new();
        for tag in self.accounting.tag_states() {
            let key = (tag.stream, tag.tag);
            all.insert(key, TagStats { sent: tag.counters, ..fresh(key) });
        }
        for (key, (received, received_bytes)) in self.incoming.received_tags.all() {
            let tag = all.entry(*key).or_insert_with(|| fresh(*key));
            (tag.received, tag.received_bytes) = (*received, *received_bytes);
        }
        all.into_values().collect()
    }
}
