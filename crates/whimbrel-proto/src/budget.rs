//! Budgets that all sessions of an endpoint draw on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A sum that several draw on, up to a limit. Clones are handles on the same sum.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of which nothing is used.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Account { limit, used: AtomicU64::new(0) }))
    }

    /// The most that can be used.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// The part in use. What was [forced](Self::force) may exceed the limit.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The part that can still be taken.
    pub fn free(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// Takes `amount` if it is there, else nothing.
    pub fn take(&self, amount: u64) -> bool {
        let add = |used: u64| used.checked_add(amount).filter(|sum| *sum <= self.0.limit);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Takes `amount` whether it is there or not: an assured share is counted, and never refused.
    pub fn force(&self, amount: u64) {
        self.0.used.fetch_add(amount, Ordering::Relaxed);
    }

    /// Gives back what was taken.
    pub fn give_back(&self, amount: u64) {
        let before = self.0.used.fetch_sub(amount, Ordering::Relaxed);
        debug_assert!(before >= amount, "more is given back than was taken");
    }
}

/// The budgets of an endpoint. Several endpoints that serve one port share them.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Credit that streams have beyond their assured shares, bytes.
    pub credit: Budget,
    /// Memory that sessions hold for their peers, bytes.
    pub memory: Budget,
}

impl Budgets {
    /// Budgets with these limits, bytes.
    pub fn new(credit: u64, memory: u64) -> Self {
        Self { credit: Budget::new(credit), memory: Budget::new(memory) }
    }

    /// The budgets of a session that shares with nobody.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_by_one_handle_is_missing_for_all() {
        let budget = Budget::new(100);
        let other = budget.clone();
        assert!(budget.take(60) && !other.take(41) && other.take(40));
        assert_eq!((budget.free(), other.used()), (0, 100));
        other.force(5);
        assert_eq!((budget.free(), budget.used()), (0, 105));
        other.give_back(45);
        assert!(budget.take(40) && !budget.take(u64::MAX));
    }
}
