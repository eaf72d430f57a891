//! The lock of a connection, which wakes those who waited for what happened under it once it is released.
//!
//! A waker is foreign code: it may poll at once, drop the last handle, or wait for another thread that does. So none is
//! called under the lock.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use tokio::sync::oneshot;
use whimbrel_proto::MessageId;
use whimbrel_proto::session::Outcome;

use crate::shared::{MocketState, Shared};

/// Those to be woken when the lock is released.
#[derive(Default)]
pub(crate) struct Woken {
    /// Those who wait for messages.
    pub(crate) readable: bool,
    /// Those who wait for room in the queue.
    pub(crate) writable: bool,
    /// Those who wait for the connection to be established or closed, or for streams.
    pub(crate) changed: bool,
    /// In a box, since most sessions only have tasks that wait for messages and room.
    others: Option<Box<Others>>,
}

/// Those who wait for one thing each.
#[derive(Default)]
pub(crate) struct Others {
    pub(crate) wakers: Vec<Waker>,
    pub(crate) outcomes: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    /// Deliveries whose outcomes nobody will learn. Dropping them wakes those who wait for them.
    pub(crate) unknown: BTreeMap<MessageId, oneshot::Sender<Outcome>>,
}

impl Woken {
    #[inline]
    fn is_empty(&self) -> bool {
        !(self.readable || self.writable || self.changed) && self.others.is_none()
    }

    pub(crate) fn others(&mut self) -> &mut Others {
        self.others.get_or_insert_default()
    }

    pub(crate) fn add(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        let mut wakers = wakers.into_iter().peekable();
        if wakers.peek().is_some() {
            self.others().wakers.extend(wakers);
        }
    }

    #[cold]
    fn wake(self, shared: &Shared) {
        if self.readable {
            shared.readable.notify_waiters();
        }
        if self.writable {
            shared.writable.notify_waiters();
        }
        if self.changed {
            shared.changed.notify_waiters();
        }
        let Some(others) = self.others else { return };
        others.wakers.into_iter().for_each(Waker::wake);
        for (waiting, outcome) in others.outcomes {
            // The task that asked may have stopped waiting.
            waiting.send(outcome).ok();
        }
    }
}

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
            woken.wake(self.shared);
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
