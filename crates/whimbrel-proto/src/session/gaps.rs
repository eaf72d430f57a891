//! Gaps that are passed over by time alone, by when.

use std::collections::BTreeSet;

use super::Session;
use super::message::DomainKey;
use super::receiving::RecvDomain;
use crate::Time;

/// Domains in which a whole message waits behind a gap of unreliable ones. Those whose gap must be filled are not here: no time passes them.
#[derive(Debug, Default)]
pub(super) struct Gaps(BTreeSet<(Time, DomainKey)>);

impl Gaps {
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    fn move_to(&mut self, key: DomainKey, before: Option<Time>, now: Option<Time>) {
        if let Some(before) = before {
            self.0.remove(&(before, key));
        }
        self.0.extend(now.map(|at| (at, key)));
    }

    fn pop_due(&mut self, now: Time) -> Option<DomainKey> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, key)| key)
    }
}

impl Session {
    /// What waits behind a gap of a domain may have changed, or the gap.
    pub(super) fn list_gap(&mut self, slot: u32, domain: u8) {
        let key = DomainKey { domain, ..self.key_of(slot) };
        let wait = self.gap_wait(slot);
        let Some(state) = self.recv_state(slot, domain) else { return };
        if state.held.is_empty() && state.gap_at.is_none() {
            return;
        }
        let at = state.gap_until(wait);
        let before = std::mem::replace(&mut state.gap_at, at);
        if at != before {
            self.gaps.move_to(key, before, at);
        }
    }

    /// Passes over gaps that were waited for long enough.
    pub(super) fn pass_gaps(&mut self, now: Time) {
        while let Some(key) = self.gaps.pop_due(now) {
            let Some(stream) = self.streams.by_key_mut(key) else { continue };
            if let Some(state) = stream.recv[usize::from(key.domain)].as_deref_mut() {
                state.gap_at = None;
            }
            if self.pass_gaps_of(now, key) {
                self.list_gap(key.slot, key.domain);
            }
            self.weigh(key.slot);
        }
    }

    /// False: there is one that cannot be passed.
    fn pass_gaps_of(&mut self, now: Time, key: DomainKey) -> bool {
        let wait = self.gap_wait(key.slot);
        let until = |state: &mut RecvDomain| state.gap_until(wait);
        while self.recv_state(key.slot, key.domain).and_then(until).is_some_and(|at| at <= now) {
            let (mut abandoned, mut late, mut passed) = (0, Vec::new(), false);
            self.deliver(key.slot, key.domain, |state, deliver| {
                let behind = state.held.first().map(|held| held.number());
                (abandoned, late) = state.pass_gap(deliver);
                passed = state.held.first().map(|held| held.number()) != behind;
            });
            self.consume(key.slot, abandoned);
            for number in late {
                // There are no more of them than there were parts.
                self.on_late(key, number, false).ok();
            }
            if !passed {
                // Cannot be; but a fault of ours here should be a message late, not a program that hangs.
                debug_assert!(cfg!(feature = "mutants"), "a gap that cannot be passed");
                return false;
            }
        }
        true
    }
}
