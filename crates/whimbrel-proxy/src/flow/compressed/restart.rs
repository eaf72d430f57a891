//! The peer's wish that the sender of a direction begins a new context.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// A wish of the peer. It can come at any time; the flow's own task looks after it.
#[derive(Debug, Default)]
pub struct Restart(Mutex<(bool, Option<Waker>)>);

impl Restart {
    /// The peer wishes a new context. Several wishes at a time are one.
    pub fn ask(&self) {
        let mut inner = self.lock();
        inner.0 = true;
        let waker = inner.1.take();
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns whether there was a wish since it was last looked at. The task is woken by the next one.
    pub(super) fn take(&self, cx: &Context<'_>) -> bool {
        let mut inner = self.lock();
        if !inner.1.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.1 = Some(cx.waker().clone());
        }
        std::mem::take(&mut inner.0)
    }

    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
