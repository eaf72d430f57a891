//! The lock of a connection, which wakes those who waited for what happened under it once it is released.
//!
//! A waker is foreign code: it may poll at once, drop the last handle, or wait for another thread that does. So none is
//! called under the lock.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use crate::shared::{MocketState, Shared};
use crate::woken::Woken;

/// The locked state of a connection.
pub(crate) struct Locked<'a> {
    // Fields are dropped in this order.
    state: MutexGuard<'a, MocketState>,
    later: Later<'a>,
}

/// Those to be woken once the lock is released.
struct Later<'a> {
    shared: &'a Shared,
    woken: Option<Woken>,
}

impl<'a> Locked<'a> {
    #[inline]
    pub(crate) fn new(shared: &'a Shared, state: MutexGuard<'a, MocketState>) -> Self {
        Self { state, later: Later { shared, woken: None } }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.state.woken.is_empty() {
            self.later.woken = Some(std::mem::take(&mut self.state.woken));
        }
    }
}

impl Drop for Later<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(woken) = self.woken.take() {
            let Shared { readable, writable, changed, .. } = self.shared;
            woken.wake(readable, writable, changed);
        }
    }
}

impl Deref for Locked<'_> {
    type Target = MocketState;

    #[inline]
    fn deref(&self) -> &MocketState {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut MocketState {
        &mut self.state
    }
}
