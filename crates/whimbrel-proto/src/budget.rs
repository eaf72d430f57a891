//! Budgets that all sessions of an endpoint share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::config::DEFAULT_CREDIT;

/// A counter with a limit that several users draw on. Clones are handles on the same counter.
///
/// A handle may be on a [share](Self::share) of the budget. All users of a share together then get at most a part of
/// what is left for others (the dynamic threshold of Choudhury and Hahne, 1998).
#[derive(Clone, Debug)]
pub struct Budget(Arc<Usage>);

#[derive(Debug)]
struct Usage {
    limit: u64,
    used: AtomicU64,
    within: Option<Within>,
}

/// The budget that a share belongs to.
#[derive(Debug)]
struct Within {
    around: Budget,
    /// The share may use one part in this many of what is free in the whole.
    part: u64,
}

impl Usage {
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn around(&self) -> Option<&Self> {
        self.within.as_ref().map(|within| &*within.around.0)
    }

    fn give_back(&self, amount: u64) {
        let before = self.used.fetch_sub(amount, Ordering::Relaxed);
        debug_assert!(before >= amount, "more is given back than was taken");
    }
}

impl Budget {
    /// Creates an unused budget.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Usage { limit, used: AtomicU64::new(0), within: None }))
    }

    /// Creates an unused share of this budget. What is taken from it counts here as well. In total it is at most one
    /// part in `part` of what is free in the whole.
    pub fn share(&self, part: u64) -> Self {
        let within = Some(Within { around: self.clone(), part });
        Self(Arc::new(Usage { limit: self.limit(), used: AtomicU64::new(0), within }))
    }

    /// Returns the most that all users together can use.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Returns the amount in use; for a share, the amount its users have. [Forced](Self::force) amounts may exceed the limit.
    pub fn used(&self) -> u64 {
        self.0.used()
    }

    /// Returns the amount free in the whole, whoever may take it.
    pub fn rest(&self) -> u64 {
        let whole = self.accounts().last();
        whole.map_or(0, |whole| whole.limit.saturating_sub(whole.used()))
    }

    /// Returns the amount that this handle can still take.
    pub fn free(&self) -> u64 {
        let rest = self.rest();
        let rooms = self.accounts().map(|account| match &account.within {
            Some(within) => (rest / within.part).saturating_sub(account.used()),
            None => rest,
        });
        rooms.min().unwrap_or(0)
    }

    /// Returns whether less than half is left, of the whole or of a share.
    pub fn is_short(&self) -> bool {
        let rest = self.rest();
        rest == 0
            || rest < self.limit() / 2
            || self.accounts().any(|account| {
                account.within.as_ref().is_some_and(|within| account.used() > rest / within.part / 2)
            })
    }

    /// Takes `amount` if that much is free, or else nothing. Returns whether it was taken.
    pub fn take(&self, amount: u64) -> bool {
        if self.0.within.is_some() && amount > self.free() {
            return false;
        }
        self.take_each(amount)
    }

    /// Never takes more of the whole than there is. Two concurrent takers of one share may exceed the share by one of
    /// their amounts.
    fn take_each(&self, amount: u64) -> bool {
        let add = |used: u64| used.checked_add(amount).filter(|sum| *sum <= self.0.limit);
        if self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            return false;
        }
        let taken = self.0.within.as_ref().is_none_or(|within| within.around.take_each(amount));
        if !taken {
            self.0.give_back(amount);
        }
        taken
    }

    /// Takes `amount` even beyond the limit: an assured share is counted and never refused.
    pub fn force(&self, amount: u64) {
        for account in self.accounts() {
            account.used.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Gives back an amount that was taken.
    pub fn give_back(&self, amount: u64) {
        for account in self.accounts() {
            account.give_back(amount);
        }
    }

    /// This share, the budget around it, and so on up to the whole.
    fn accounts(&self) -> impl Iterator<Item = &Usage> {
        std::iter::successors(Some(&*self.0), |account: &&Usage| account.around())
    }
}

/// The budgets of an endpoint, or a peer's share of them. Several endpoints that serve one port share them.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// The credit that streams have beyond their assured shares, in bytes.
    pub credit: Budget,
    /// The memory that sessions hold for their peers, in bytes.
    pub memory: Budget,
    /// The memory for the first windows of one peer's sessions, in bytes. It is separate from `memory`, and each
    /// session takes at most stream 0's first window. No other peer can use it up.
    pub first: Budget,
    /// The data that applications have handed over for peers and that sessions still hold, in bytes.
    pub send: Budget,
}

/// The first windows of a peer may take up to one part in this many of `memory`'s limit.
const FIRST_PART: u64 = 8;

impl Budgets {
    /// Creates budgets with these limits, in bytes.
    pub fn new(credit: u64, memory: u64, send: u64) -> Self {
        let [credit, memory, send] = [credit, memory, send].map(Budget::new);
        Self { credit, first: first(memory.limit()), memory, send }
    }

    /// Returns the budgets of a session that shares with no other.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX, u64::MAX)
    }

    pub(crate) fn is_used(&self) -> bool {
        [&self.credit, &self.memory, &self.first, &self.send].iter().any(|budget| budget.used() > 0)
    }

    /// Creates a share of one part in `part` of what is free, with first windows of its own.
    pub(crate) fn share(&self, part: u64) -> Self {
        let (credit, memory) = (self.credit.share(part), self.memory.share(part));
        Self { credit, first: first(memory.limit()), memory, send: self.send.share(part) }
    }
}

fn first(memory: u64) -> Budget {
    Budget::new((memory / FIRST_PART).max(DEFAULT_CREDIT))
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

    #[test]
    fn a_share_is_a_part_of_what_is_left_to_others() {
        let whole = Budget::new(1000);
        let network = whole.share(2);
        let (key, other) = (network.share(4), network.share(4));
        assert_eq!((key.free(), network.free(), key.rest()), (250, 500, 1000));
        assert!(!key.take(251) && key.take(200) && key.used() == 200 && whole.used() == 200);
        assert_eq!((key.free(), other.free(), network.free()), (0, 200, 200));
        assert!(key.is_short() && !other.share(4).take(201));
        assert!(other.take(150) && !whole.share(4).is_short());
        assert_eq!((other.free(), network.free()), (0, 0), "the network has had its share");
        assert!(!other.take(1) && whole.share(4).take(100));
        key.force(500);
        assert_eq!((key.used(), network.used(), whole.used(), whole.free()), (700, 850, 950, 50));
        key.give_back(700);
        other.give_back(150);
        assert_eq!((key.used(), network.used(), whole.used()), (0, 0, 100));
    }

    #[test]
    fn however_many_shares_are_used_up_the_next_one_has_some() {
        let whole = Budget::new(1 << 30);
        let shares: Vec<Budget> = (0..40).map(|_| whole.share(4)).collect();
        for share in &shares {
            while share.take(1 << 10) {}
        }
        assert!(shares[0].used() <= whole.limit() / 5 && whole.share(4).free() > 16 << 10);
    }
}
