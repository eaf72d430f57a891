//! The memory really held for the peer, as opposed to what it was charged.
//!
//! Both ends compute the charge, so it cannot reflect what an entry costs here. This account does, and nothing of it
//! appears on the wire. It does not follow each change: a stream is weighed when a block for it is done, and the
//! session's other memory is added up then.

use crate::budget::{Budget, Budgets};
use crate::session::config::{DEFAULT_CREDIT, DEFAULT_STREAMS, SessionConfig};
use crate::{Cause, PeerMisbehaved};

/// Memory every session may hold, whatever others do, bytes.
pub(in crate::session) const ASSURED: u64 = 64 << 10;
/// Memory a session may hold beyond that, out of its peer's allowance for first windows, which nobody else can use up.
/// It covers the needs of a small honest session, however little of the budget is left.
const FIRST: u64 = DEFAULT_CREDIT;
/// The step in which memory beyond that is taken from the budget, bytes. Large steps keep sessions from contending for
/// the budget often.
const STEP: u64 = 64 << 10;
/// One session may have at most 1/8 of the free budget.
const PART: u64 = 8;

/// Returns the most that one session may have of a budget now.
pub(in crate::session) fn room(budget: &Budget) -> u64 {
    budget.rest() / PART
}

/// Returns the most that one session which has `taken` may end up with: one part in [`PART`] of what is then free.
pub(in crate::session) fn most_of(budget: &Budget, taken: u64) -> u64 {
    budget.rest().saturating_add(taken) / (PART + 1)
}

pub(in crate::session) const TOO_MUCH: PeerMisbehaved = PeerMisbehaved::new(
    Cause::LimitExceeded,
    "more is held for this peer than may be: raise memory_budget, or send larger messages",
);

/// The memory account of one session, and its share of the budget.
#[derive(Debug)]
pub(in crate::session) struct Held {
    firsts: Budget,
    /// Bytes taken from the peer's allowance for first windows.
    first: u64,
    budget: Budget,
    /// Bytes taken from the budget.
    taken: u64,
    /// Memory the streams hold, each as it was last weighed.
    pub(in crate::session) streams: u64,
    /// Memory of what waits to be sent, counted while the session waits for its peer.
    pub(in crate::session) outgoing: u64,
}

/// Returns the memory of a map with this many entries of this size. Its nodes may be half empty, and inner nodes lead
/// to them.
pub(in crate::session) const fn of_map(entries: usize, size: usize) -> u64 {
    (entries * (2 * (size + 8) + 24)) as u64
}

/// Returns the memory of a queue with this many entries of this size.
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
    /// Updates the sum after a stream was weighed again.
    #[inline]
    pub(in crate::session) fn reweigh(&mut self, before: u64, now: u64) {
        self.streams = self.streams - before + now;
    }

    /// Returns whether the session draws on a budget, so that others could use what it gives back.
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

    /// Returns what a total needs beyond the assured memory, in whole steps.
    fn needed(total: u64) -> u64 {
        total.saturating_sub(ASSURED).next_multiple_of(STEP)
    }

    /// Takes what it can from the peer's allowance, and returns what is then still missing for a total, in whole steps.
    fn missing(&mut self, total: u64) -> u64 {
        let needed = Self::needed(total);
        let own = needed.min(FIRST).saturating_sub(self.first).min(needed.saturating_sub(self.drawn()));
        if self.firsts.take(own) {
            self.first += own;
        }
        needed.saturating_sub(self.drawn())
    }

    /// Takes what is missing from the budget. No session gets more than an eighth of what is free, so one that holds
    /// little still gets something when others hold all they can.
    pub(in crate::session) fn grow(&mut self, total: u64, limit: u64) -> bool {
        if total > limit {
            return false;
        }
        let step = self.missing(total);
        let (fair, short) =
            (room(&self.budget).saturating_sub(self.taken), total.saturating_sub(ASSURED + self.drawn()));
        // The last step is as long as what is left.
        let step = step.min(fair).min(self.budget.free());
        let grown = short == 0 || step >= short && self.budget.take(step);
        self.taken += if grown { step } else { 0 };
        grown
    }

    /// Returns the largest total that could be held now.
    pub(in crate::session) fn reach(&self) -> u64 {
        let taken = most_of(&self.budget, self.taken).min(self.budget.free().saturating_add(self.taken));
        ASSURED.saturating_add(self.first).saturating_add(taken)
    }

    /// Gives back what is no longer needed, except for a step.
    pub(in crate::session) fn shrink(&mut self, total: u64) {
        let needed = Self::needed(total) + STEP;
        if self.drawn() > needed + STEP {
            self.keep(needed);
        }
    }

    /// Gives back everything that is not needed now.
    pub(in crate::session) fn settle(&mut self, total: u64) {
        self.keep(Self::needed(total));
    }

    /// Keeps what is needed. The shared budget is given back first.
    fn keep(&mut self, needed: u64) {
        let first = self.first.min(needed);
        let taken = self.taken.min(needed - first);
        self.firsts.give_back(self.first - first);
        self.budget.give_back(self.taken - taken);
        (self.first, self.taken) = (first, taken);
    }

    /// Moves to other budgets. What is held already is not refused.
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

/// The most memory a byte of credit costs if the peer is honest. An empty message is charged 32 bytes and, alone in a
/// map behind a gap, takes eight times that.
const WORTH: u64 = 8;
/// The memory of a stream with all its parts and nothing in them, bytes.
const OF_STREAM: u64 = 4096;

impl SessionConfig {
    /// Returns the most memory one session may hold for its peer beyond unread charged data, bytes. A peer that keeps
    /// to its credit, and splits only messages longer than a packet, stays below it, whatever it sends and whatever is
    /// lost.
    pub fn most_held(&self) -> u64 {
        let streams = self.streams().max(DEFAULT_STREAMS);
        let credit = self.session_window.max(DEFAULT_CREDIT).saturating_mul(WORTH);
        credit.saturating_add(streams.saturating_mul(OF_STREAM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the account of a peer that has used up its first windows.
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
        let other = Budgets::new(0, STEP, 0);
        held.draw_on(&other, ASSURED + 7 * STEP);
        assert_eq!((budget.used(), other.memory.used(), other.first.used()), (0, 3 * STEP, FIRST));
        drop(held);
        assert_eq!((other.memory.used(), other.first.used()), (0, 0));
    }

    /// The peer's own allowance holds however little of the budget is left. A peer that has used its own up is like any
    /// other.
    #[test]
    fn the_first_window_is_the_peers_own() {
        let budgets = Budgets { first: Budget::new(FIRST + STEP), ..Budgets::new(0, 0, 0) };
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

    /// A need that the session's part covers is not refused because a whole step would exceed it.
    #[test]
    fn the_last_step_is_as_long_as_what_is_left() {
        let budget = Budget::new(8 * STEP + STEP / 2 * PART);
        let mut held = account(&budget);
        assert!(held.grow(ASSURED + STEP, u64::MAX));
        let most = room(&budget);
        assert!(most > STEP && most < 2 * STEP);
        assert!(!held.grow(ASSURED + most + 1, u64::MAX) && held.grow(ASSURED + most, u64::MAX));
        assert_eq!(budget.used(), most);
    }

    #[test]
    fn the_sessions_own_limit_holds_in_any_budget() {
        let budget = Budget::new(u64::MAX);
        let mut held = account(&budget);
        assert!(held.grow(ASSURED + STEP, ASSURED + STEP) && !held.grow(ASSURED + STEP + 1, ASSURED + STEP));
    }
}
