//! Saving the numbers that SKIP asked about.

use super::SkipAnswers;
use crate::session::message::DomainKey;
use crate::session::receive::scattered::Scattered;

impl SkipAnswers {
    pub(in crate::session) fn asked(&self, key: DomainKey) -> Scattered {
        self.asked.get(&key).cloned().unwrap_or_default()
    }
}
