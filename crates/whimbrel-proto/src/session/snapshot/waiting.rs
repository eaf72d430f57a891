//! Messages behind a gap.

use super::{Held, Waiting};

impl Waiting {
    /// By number.
    pub(in crate::session) fn in_order(&self) -> Vec<&Held> {
        let mut all: Vec<&Held> = self.map.values().chain(&self.queue).collect();
        all.sort_unstable_by_key(|held| held.message.id);
        all
    }
}
