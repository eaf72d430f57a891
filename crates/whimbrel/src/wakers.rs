//! Tasks that wait for the same thing.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::shared::lock;

/// Tasks that wait for the same thing: all are woken, and whoever finds nothing waits again.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    /// A task that waits already is not added again.
    pub(crate) fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|waiting| waiting.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    /// It waits no more.
    pub(crate) fn remove(&mut self, waker: &Waker) {
        self.0.retain(|waiting| !waiting.will_wake(waker));
    }

    pub(crate) fn wake_all(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(Waker::wake);
    }
}

/// A waker for many tasks, for what remembers only one.
#[derive(Debug, Default)]
pub(crate) struct SharedWakers(Mutex<Wakers>);

impl SharedWakers {
    /// A waker of all that wait, this task among them.
    pub(crate) fn join(self: &Arc<Self>, waker: &Waker) -> Waker {
        lock(&self.0).add(waker);
        Arc::clone(self).into()
    }

    pub(crate) fn leave(&self, waker: &Waker) {
        lock(&self.0).remove(waker);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).0.len()
    }

    pub(crate) fn wake_all(&self) {
        // Not under the lock: whoever is woken may poll at once.
        let mut woken = std::mem::take(&mut *lock(&self.0));
        woken.wake_all();
    }
}

impl Wake for SharedWakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}
