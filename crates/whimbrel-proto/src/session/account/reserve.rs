//! Credit that streams have beyond their shares.

use super::held;
use crate::budget::{Budget, Budgets};

/// Credit that a session's streams have drawn from two pools: the session's own, and the endpoint's, which all its
/// sessions share. Sessions of one key may use only a part of the endpoint's pool.
///
/// A stream gets no more than it leaves for others (the dynamic threshold of Choudhury and Hahne, 1998). A stream that
/// nobody reads keeps what it has, since credit cannot be taken back. But the next reader still finds half of the rest,
/// and so does the one after it.
#[derive(Debug)]
pub(in crate::session) struct Reserve {
    /// Size of the session's pool, bytes. 0 once the session has ended.
    limit: u64,
    used: u64,
    endpoint: Budget,
    /// The memory budget, because granted credit may have to be held. An honest peer that uses its credit must not be
    /// disconnected for lack of memory.
    memory: Budget,
}

impl Reserve {
    pub(in crate::session) fn new(limit: u64, budgets: &Budgets) -> Self {
        Self { limit, used: 0, endpoint: budgets.credit.clone(), memory: budgets.memory.clone() }
    }

    pub(in crate::session) fn used(&self) -> u64 {
        self.used
    }

    /// Returns whether less than half of a pool is left. Streams with no use for their credit should then give it back.
    pub(in crate::session) fn is_short(&self) -> bool {
        self.free() < self.limit / 2 || self.endpoint.is_short()
    }

    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Returns how much a stream that has `held` may have: as much as it leaves. Where memory is short, each byte of
    /// credit has two bytes to be held in, since short messages behind a gap take more than they are charged.
    fn allows(&self, held: u64) -> u64 {
        let memory = held::room(&self.memory).min(self.memory.free()) / 2;
        self.free().min(self.endpoint.free()).min(memory).saturating_add(held) / 2
    }

    /// Changes a stream's credit from `held` towards `wanted`. It keeps at least `promised`, which its peer was told.
    /// Returns what it has now.
    pub(in crate::session) fn change(&mut self, held: u64, wanted: u64, promised: u64) -> u64 {
        let to = wanted.min(self.allows(held)).max(promised);
        if to <= held {
            self.give_back(held - to);
            return to;
        }
        if self.endpoint.take(to - held) {
            self.used += to - held;
            return to;
        }
        // Another session took the credit first.
        let least = promised.max(held);
        self.adopt(least - held);
        least
    }

    /// Counts credit that was granted before, whether the pools have room for it or not.
    pub(in crate::session) fn adopt(&mut self, amount: u64) {
        self.used += amount;
        self.endpoint.force(amount);
    }

    pub(in crate::session) fn give_back(&mut self, amount: u64) {
        // Credit given back after the session's end was already returned at its end.
        let amount = amount.min(self.used);
        self.used -= amount;
        self.endpoint.give_back(amount);
    }

    /// Moves to another endpoint's pools.
    pub(in crate::session) fn move_to(&mut self, budgets: &Budgets) {
        self.endpoint.give_back(self.used);
        self.endpoint = budgets.credit.clone();
        self.memory = budgets.memory.clone();
        self.endpoint.force(self.used);
    }

    /// Returns all credit to the endpoint when the session has ended.
    pub(in crate::session) fn close(&mut self) {
        self.give_back(self.used);
        self.limit = 0;
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.give_back(self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_hold_on_to_theirs_there_is_room_for_the_next() {
        let budgets = Budgets::new(1 << 30, 1 << 30, 0);
        let (mut reserve, endpoint) = (Reserve::new(8 << 20, &budgets), &budgets.credit);
        let most: Vec<u64> = (0..10).map(|_| reserve.change(0, 4 << 20, 0)).collect();
        assert_eq!(most[..4], [4 << 20, 2 << 20, 1 << 20, 512 << 10]);
        assert!(most.iter().all(|drawn| *drawn > 4000), "{most:?}");
        assert_eq!(endpoint.used(), reserve.used());
        // Streams that are read converge to equal amounts.
        let mut held = most;
        for _ in 0..100 {
            held = held.into_iter().map(|held| reserve.change(held, 4 << 20, 0)).collect();
        }
        let share = (8 << 20) / 11;
        assert!(held.iter().all(|held| held.abs_diff(share) < 20), "{held:?}");
        drop(reserve);
        assert_eq!(endpoint.used(), 0);
    }

    #[test]
    fn what_was_promised_is_counted_and_what_has_ended_takes_nothing() {
        let (endpoint, other) = (Budgets::new(1000, u64::MAX, 0), Budgets::new(10, u64::MAX, 0));
        let mut reserve = Reserve::new(1000, &endpoint);
        assert_eq!(reserve.change(0, 900, 0), 500);
        assert_eq!(reserve.change(500, 100, 300), 300);
        reserve.adopt(800);
        reserve.move_to(&other);
        assert_eq!((endpoint.credit.used(), other.credit.used(), reserve.used()), (0, 1100, 1100));
        assert_eq!(reserve.change(300, 400, 0), 150);
        reserve.close();
        assert_eq!(reserve.change(0, 1, 0), 0);
        reserve.give_back(800);
        assert_eq!((other.credit.used(), reserve.used()), (0, 0));
    }

    #[test]
    fn where_memory_is_short_nothing_is_granted_that_could_not_be_held() {
        let budgets = Budgets::new(1 << 30, 128 << 20, 0);
        let mut reserve = Reserve::new(8 << 20, &budgets);
        assert_eq!(reserve.change(0, 4 << 20, 0), 4 << 20);
        assert!(budgets.memory.take(127 << 20));
        assert_eq!(
            reserve.change(4 << 20, 4 << 20, 1 << 20),
            (2 << 20) + (32 << 10),
            "it shrinks as it is read"
        );
        assert_eq!(reserve.change(0, 4 << 20, 0), 32 << 10);
        budgets.memory.give_back(127 << 20);
        assert_eq!(reserve.change(0, 2 << 20, 0), 2 << 20);
    }
}
