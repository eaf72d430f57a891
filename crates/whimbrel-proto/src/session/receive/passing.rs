//! Passing over gaps that have lasted long enough.

use super::receiving::RecvDomain;
use crate::Time;
use crate::session::message::DomainKey;
use crate::session::numbers::{Domain, StreamSlot};
use crate::session::state::Session;

impl Session {
    /// Updates the time at which a domain's gap may be passed over. Called when the gap, or what waits behind it, may
    /// have changed.
    pub(in crate::session) fn list_gap(&mut self, slot: StreamSlot, domain: Domain) {
        let key = DomainKey { domain, ..self.key_of(slot) };
        let wait = self.gap_wait(slot);
        // Nothing may have been received in the domain yet.
        let stream = self.streams.held_mut(slot);
        let Some(state) = stream.and_then(|stream| stream.content.receiving_mut(domain)) else { return };
        if state.held.is_empty() && state.gap_at.is_none() {
            return;
        }
        let at = state.gap_until(wait);
        let before = std::mem::replace(&mut state.gap_at, at);
        if at != before {
            self.incoming.gaps.move_to(key, before, at);
        }
    }

    /// Passes over gaps that have lasted long enough.
    pub(in crate::session) fn pass_gaps(&mut self, now: Time) {
        while let Some(key) = self.incoming.gaps.pop_due(now) {
            let Some(state) = self.streams.still_receiving_mut(key) else { continue };
            state.gap_at = None;
            if self.pass_gaps_of(now, key) {
                self.list_gap(key.slot, key.domain);
            }
            self.weigh(key.slot);
        }
    }

    /// Passes over the due gaps of a domain. Returns false if one cannot be passed.
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
                // The limit cannot be exceeded here: there are no more late messages than there were messages in parts.
                self.on_late(key, number, false).ok();
            }
            if !passed {
                // This should be impossible. If it happens, a message is late, which is better than a program that
                // hangs.
                debug_assert!(passed || cfg!(feature = "mutants"), "a gap that cannot be passed");
                return false;
            }
        }
        true
    }
}
