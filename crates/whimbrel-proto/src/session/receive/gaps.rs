//! Gaps that are passed over after a time, ordered by that time.

use std::collections::BTreeSet;

use crate::Time;
use crate::session::message::DomainKey;

/// Domains in which a whole message waits behind a gap of unreliable messages. Gaps that must be filled are not listed,
/// because they are never passed over.
#[derive(Debug, Default)]
pub(in crate::session) struct Gaps(BTreeSet<(Time, DomainKey)>);

impl Gaps {
    #[inline]
    pub(in crate::session) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(in crate::session) fn move_to(&mut self, key: DomainKey, before: Option<Time>, now: Option<Time>) {
        if let Some(before) = before {
            self.0.remove(&(before, key));
        }
        self.0.extend(now.map(|at| (at, key)));
    }

    pub(in crate::session) fn pop_due(&mut self, now: Time) -> Option<DomainKey> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, key)| key)
    }
}
