//! What is really held for the peer, beside what it was charged.
//!
//! Both ends compute the charge, so it cannot say what an entry takes here. This account does, and nothing of it is on the wire. It does not
//! follow each change: a stream that a block was for is weighed when the block is done, and what the session has as a whole is added up
//! then.

use crate::budget::{Budget, Budgets};
use crate::session::config::{DEFAULT_CREDIT, DEFAULT_STREAMS, SessionConfig};
use crate::{Cause, PeerMisbehaved};

/// Every session may hold this much, whatever others do, bytes.
pub(in crate::session) const ASSURED: u64 = 64 << 10;
/// And beyond it this much out of what its peer has for first windows, which nobody else can use up: what a small honest session needs is
/// there, however little of the budget is left.
const FIRST: u64 = DEFAULT_CREDIT;
/// What lies beyond comes out of the budget in steps, bytes: those who share it meet rarely.
const STEP: u64 = 64 << 10;
/// One session may have so much of what is free.
const PART: u64 = 8;

/// The most that one session may have of a budget now.
pub(in crate::session) fn room(budget: &Budget) -> u64 {
    budget.rest() / PART
}

pub(in crate::session) const TOO_MUCH: PeerMisbehaved = PeerMisbehaved::new(
    Cause::LimitExceeded,
    "more is held for this peer than may be: raise memory_budget, or send larger messages",
);

/// The account of one session, and its share of the budget.
#[derive(Debug)]
pub(in crate::session) struct Held {
    firsts: Budget,
    /// Of what the peer has for first windows.
    first: u64,
    budget: Budget,
    /// Of the budget.
    taken: u64,
    /// What the streams hold, each as it was weighed last.
    pub(in crate::session) streams: u64,
    /// What waits to be sent, while the session waits for its peer.
    pub(in crate::session) outgoing: u64,
}

/// What a map with so many entries of this size takes: its nodes may be half empty, and others lead to them.
pub(in crate::session) const fn of_map(entries: usize, size: usize) -> u64 {
    (entries * (2 * (size + 8) + 24)) as u64
}

/// What so many entries of this size take in a queue.
pub(in crate::session) const fn of_queue(entries: usize, size: usize) -> u64 {
    (entries * size) as u64
}

impl Default for Held {
    fn default() -> Self {
        let Budgets { memory, first, .. } = Budgets::unlimited();
        Self { firsts: first, first: 0, budget: memory, taken: 0, streams: 0, outgoing: 0 }
    }
}

impl Held {
    /// A stream was weighed anew.
    #[inline]
    pub(in crate::session) fn reweigh(&mut self, before: u64, now: u64) {
        self.streams = self.streams - before + now;
    }

    /// Something of it may be of use to others.
    #[inline]
    pub(in crate::session) fn is_drawing(&self) -> bool {
        self.drawn() > 0
    }

    #[inline]
    fn drawn(&self) -> u64 {
        self.first + self.taken
    }

    #[inline]
    pub(in crate::session) fn covers(&self, total: u64) -> bool {
        total <= ASSURED + self.drawn()
    }

    /// What is needed for so much, in whole steps.
    fn needed(total: u64) -> u64 {
        total.saturating_sub(ASSURED).next_multiple_of(STEP)
    }

    /// What is missing for so much, in whole steps, once the peer's own was taken.
    fn missing(&mut self, total: u64) -> u64 {
        let needed = Self::needed(total);
        let own = needed.min(FIRST).saturating_sub(self.first).min(needed.saturating_sub(self.drawn()));
        if self.firsts.take(own) {
            self.first += own;
        }
        needed.saturating_sub(self.drawn())
    }

    /// Takes what is missing. No session gets more than an eighth of what is free: whoever holds little still gets something when others hold
    /// all they can.
    pub(in crate::session) fn grow(&mut self, total: u64, limit: u64) -> bool {
        if total > limit {
            return false;
        }
        let step = self.missing(total);
        let fair = self.taken + step <= room(&self.budget);
        let grown = step == 0 || fair && self.budget.take(step);
        self.taken += if grown { step } else { 0 };
        grown
    }

    /// Gives back what is not needed any more, but for a step.
    pub(in crate::session) fn shrink(&mut self, total: u64) {
        let needed = Self::needed(total) + STEP;
        if self.drawn() > needed + STEP {
            self.keep(needed);
        }
    }

    /// Gives back all that is not needed now.
    pub(in crate::session) fn settle(&mut self, total: u64) {
        self.keep(Self::needed(total));
    }

    /// What is everybody's goes back first.
    fn keep(&mut self, needed: u64) {
        let first = self.first.min(needed);
        let taken = self.taken.min(needed - first);
        self.firsts.give_back(self.first - first);
        self.budget.give_back(self.taken - taken);
        (self.first, self.taken) = (first, taken);
    }

    /// Draws on other budgets from now on. What is held already is not refused.
    pub(in crate::session) fn draw_on(&mut self, budgets: &Budgets, total: u64) {
        self.keep(0);
        self.firsts = budgets.first.clone();
        self.budget = budgets.memory.clone();
        let missing = self.missing(total);
        self.budget.force(missing);
        self.taken += missing;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keep(0);
    }
}

/// What is held for a byte of credit at most, where the peer is honest: an empty message is charged 32 bytes, and alone in a map behind a gap
/// takes eight times that.
const WORTH: u64 = 8;
/// A stream with all its parts and nothing in them, bytes.
const OF_STREAM: u64 = 4096;

impl SessionConfig {
    /// The most that one session may hold for its peer beyond what the peer was charged and nobody has read, bytes. A peer that keeps to its
    /// credit, and cuts into parts only what is longer than a packet, stays below, whatever it sends and whatever is lost.
    pub fn most_held(&self) -> u64 {
        let streams = self.streams().max(DEFAULT_STREAMS);
        let credit = self.session_window.max(DEFAULT_CREDIT).saturating_mul(WORTH);
        credit.saturating_add(streams.saturating_mul(OF_STREAM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a peer that has used its first windows up.
    fn account(budget: &Budget) -> Held {
        Held { budget: budget.clone(), firsts: Budget::new(0), ..Held::default() }
    }

    #[test]
    fn the_assured_share_is_nobodys_business() {
        let budget = Budget::new(0);
        let mut held = account(&budget);
        assert!(held.covers(ASSURED) && !held.covers(ASSURED + 1));
        assert!(!held.grow(ASSURED + 1, u64::MAX));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = Budget::new(64 * STEP);
        let mut held = account(&budget);
        assert!(held.grow(ASSURED + 5 * STEP - 1, u64::MAX) && held.covers(ASSURED + 5 * STEP));
        assert_eq!(budget.used(), 5 * STEP);
        held.shrink(ASSURED + 4 * STEP);
        assert_eq!(budget.used(), 5 * STEP, "it will be wanted again");
        held.shrink(ASSURED + 1);
        assert_eq!(budget.used(), 2 * STEP);
        held.settle(ASSURED + 1);
        assert_eq!(budget.used(), STEP);
        let other = Budgets::new(0, STEP);
        held.draw_on(&other, ASSURED + 7 * STEP);
        assert_eq!((budget.used(), other.memory.used(), other.first.used()), (0, 3 * STEP, FIRST));
        drop(held);
        assert_eq!((other.memory.used(), other.first.used()), (0, 0));
    }

    /// However little of the budget is left. A peer that uses its own up is like any other.
    #[test]
    fn the_first_window_is_the_peers_own() {
        let budgets = Budgets { first: Budget::new(FIRST + STEP), ..Budgets::new(0, 0) };
        let [mut one, mut other] = [(); 2].map(|()| {
            let mut held = Held::default();
            held.draw_on(&budgets, 0);
            held
        });
        assert!(one.grow(ASSURED + 1, u64::MAX) && one.grow(ASSURED + FIRST, u64::MAX));
        assert!(!one.grow(ASSURED + FIRST + 1, u64::MAX) && one.covers(ASSURED + FIRST));
        assert!(other.grow(ASSURED + STEP, u64::MAX) && !other.grow(ASSURED + 2 * STEP, u64::MAX));
        one.settle(ASSURED);
        assert!(other.grow(ASSURED + FIRST, u64::MAX) && budgets.memory.used() == 0);
    }

    #[test]
    fn who_takes_all_leaves_something() {
        let budget = Budget::new(600 * STEP);
        let greedy: Vec<Held> = (0..20)
            .map(|_| {
                let mut held = account(&budget);
                let mut total = ASSURED;
                while held.grow(total + STEP, u64::MAX) {
                    total += STEP;
                }
                held
            })
            .collect();
        assert!(account(&budget).grow(ASSURED + 1, u64::MAX), "{} free", budget.free() / STEP);
        drop(greedy);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_sessions_own_limit_holds_in_any_budget() {
        let budget = Budget::new(u64::MAX);
        let mut held = account(&budget);
        assert!(held.grow(ASSURED + STEP, ASSURED + STEP) && !held.grow(ASSURED + STEP + 1, ASSURED + STEP));
    }
}
