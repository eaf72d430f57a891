//! Numbers that were asked about.

use super::Answers;
use crate::session::message::DomainKey;
use crate::session::scattered::Scattered;

impl Answers {
    pub(in crate::session) fn asked(&self, key: DomainKey) -> Scattered {
        self.asked.get(&key).cloned().unwrap_or_default()
    }
}
