//! The bytes that a flow takes from its program beyond the stream's window while the peer cannot be reached.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};

/// Memory for what flows hold, which all of them share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HoldBudget(Arc<AtomicUsize>);

impl HoldBudget {
    /// Creates a budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    /// Returns the bytes that are left.
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// The bytes that a flow holds, in order.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: VecDeque<Bytes>,
    length: usize,
    limit: usize,
    budget: Option<HoldBudget>,
}

/// The most bytes that a program's read returns. So much must be left.
pub(super) const READ: usize = 64 * 1024;

impl Held {
    /// From now on, it holds so many bytes at most. What it holds already stays.
    pub(super) fn set_limit(&mut self, limit: usize, budget: &HoldBudget) {
        self.limit = limit;
        if limit > 0 && self.budget.is_none() {
            self.budget = Some(budget.clone());
        }
    }

    /// Returns whether there is room for what one read returns.
    pub(super) fn has_room(&self) -> bool {
        self.length < self.limit && self.budget.as_ref().is_some_and(|budget| budget.left() >= READ)
    }

    /// Holds these bytes, too. They were read, so they are held even if others have taken the memory meanwhile.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if self.budget.as_ref().is_some_and(|budget| budget.take(bytes.len())) {
            self.length += bytes.len();
        }
        self.bytes.push_back(bytes);
    }

    /// Takes the first bytes.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let bytes = self.bytes.pop_front()?;
        self.give_back(bytes.len());
        Some(bytes)
    }

    /// Takes all, behind these.
    pub(super) fn join(&mut self, first: &Bytes) -> Bytes {
        if self.bytes.is_empty() {
            return first.clone();
        }
        let mut all = BytesMut::from(&first[..]);
        while let Some(bytes) = self.pop() {
            all.extend_from_slice(&bytes);
        }
        all.freeze()
    }

    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    fn give_back(&mut self, bytes: usize) {
        let counted = bytes.min(self.length);
        self.length -= counted;
        if let Some(budget) = &self.budget {
            budget.0.fetch_add(counted, Ordering::AcqRel);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        let budget = HoldBudget::new(3 * READ);
        let mut held = Held::default();
        assert!(!held.has_room(), "without a limit nothing is held");
        held.set_limit(2 * READ, &budget);
        for _ in 0..2 {
            assert!(held.has_room());
            held.push(Bytes::from(vec![1; READ]));
        }
        assert!(!held.has_room() && budget.left() == READ);
        let mut other = Held::default();
        other.set_limit(usize::MAX, &budget);
        other.push(Bytes::from(vec![2; READ]));
        assert!(!other.has_room(), "the memory is gone");
        // What was read is not lost, and counts as far as there was memory.
        other.push(Bytes::from(vec![2; READ]));
        assert_eq!(other.join(&Bytes::from_static(b"x")).len(), 2 * READ + 1);
        assert_eq!(budget.left(), READ);
        held.pop();
        drop(held);
        assert_eq!(budget.left(), 3 * READ);
    }
}
