//! The memory of compression contexts, bounded for the process and for each peer. What finds no room is not compressed.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dictionary::Dictionary;
use super::method::Method;

/// One peer may take this part of the whole, so that something is left for others.
const PEER_SHARE: (usize, usize) = (7, 8);

/// The memory that contexts may take. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: (usize, usize),
    flows: Arc<Semaphore>,
    /// In KiB.
    memory: Arc<Semaphore>,
    /// The budget that this one is a part of.
    whole: Option<Budget>,
}

/// The memory that the contexts of a flow take. Dropping it gives it back.
#[derive(Debug)]
pub struct Share {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    /// Creates a budget of flows and bytes.
    pub fn new(flows: usize, memory: usize) -> Self {
        Self::with((flows, memory), None)
    }

    /// Returns the part of one peer.
    pub fn of_peer(&self) -> Self {
        let part = |most: usize| most / PEER_SHARE.1 * PEER_SHARE.0 + most % PEER_SHARE.1;
        Self::with((part(self.0.most.0), part(self.0.most.1)), Some(self.clone()))
    }

    fn with(most: (usize, usize), whole: Option<Self>) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Inner { most, flows: semaphore(most.0), memory: semaphore(most.1 >> 10), whole }))
    }

    /// Takes what the contexts of a flow with this method need, if it is there.
    pub fn take(&self, method: Method, dictionary: Option<&Dictionary>) -> Option<Share> {
        let dictionary = dictionary.map_or(0, |dictionary| dictionary.bytes().len());
        let needs = u32::try_from(method.memory(dictionary).div_ceil(1 << 10)).ok()?;
        let (mut permits, mut level) = (Vec::new(), Some(self));
        while let Some(Self(inner)) = level {
            permits.push(Arc::clone(&inner.flows).try_acquire_owned().ok()?);
            permits.push(Arc::clone(&inner.memory).try_acquire_many_owned(needs).ok()?);
            level = inner.whole.as_ref();
        }
        Some(Share { _permits: permits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(budget: &Budget, method: &str) -> (usize, Vec<Share>) {
        let taken: Vec<_> = std::iter::from_fn(|| budget.take(method.parse().unwrap(), None)).collect();
        (taken.len(), taken)
    }

    #[test]
    fn neither_number_nor_memory_is_exceeded_and_no_peer_takes_all() {
        let xz = "xz:1".parse::<Method>().unwrap().memory(0);
        let whole = Budget::new(16, 8 * xz);
        let (one, other) = (whole.of_peer(), whole.of_peer());
        let (taken, kept) = count(&one, "xz:1");
        assert_eq!((taken, count(&other, "xz:1").0), (7, 1), "by memory");
        drop(kept);
        assert_eq!(count(&one, "xz:1").0, 7, "what was given back can be taken");
        let whole = Budget::new(16, usize::MAX);
        let (one, other) = (whole.of_peer(), whole.of_peer());
        let (taken, _kept) = count(&one, "zstd:1");
        assert_eq!((taken, count(&other, "zstd:1").0), (14, 2), "by number");
        assert_eq!(count(&Budget::new(0, usize::MAX), "zstd:1").0, 0);
    }
}
