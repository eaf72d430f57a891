//! Wakers of several tasks that wait for the same thing.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::lock::lock;
use crate::woken::Woken;

/// The tasks that wait for the same thing. All are woken at once; a task that finds nothing waits again.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    /// Adds a task, unless it is already waiting.
    pub(crate) fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|waiting| waiting.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    /// Removes a task that no longer waits.
    pub(crate) fn remove(&mut self, waker: &Waker) {
        self.0.retain(|waiting| !waiting.will_wake(waker));
    }

    /// Has all tasks woken once the lock is released.
    pub(crate) fn leave_for(&mut self, woken: &mut Woken) {
        woken.add(self.0.drain(..));
    }

    pub(crate) fn wake_all(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(Waker::wake);
    }
}

/// One waker on behalf of many tasks, for a source that remembers only one.
#[derive(Debug, Default)]
pub(crate) struct SharedWakers(Mutex<Wakers>);

impl SharedWakers {
    /// Adds a task, and returns a waker that wakes all tasks waiting.
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
        // Wakes without the lock, because a woken task may poll at once.
        let mut woken = std::mem::take(&mut *lock(&self.0));
        woken.wake_all();
    }
}

impl Wake for SharedWakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}
