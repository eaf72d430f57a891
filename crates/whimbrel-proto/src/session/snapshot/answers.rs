//! Numbers that were asked about.

use super::Answers;
use crate::session::message::DomainKey;
use crate::session::ranges::RangeSet;

impl Answers {
    pub(in crate::session) fn asked(&self, key: DomainKey) -> RangeSet {
        self.asked.get(&key).cloned().unwrap_or_default()
    }
}
