//! Those to be woken once the lock of a connection is released.

use std::collections::BTreeMap;
use std::task::Waker;

use tokio::sync::{Notify, oneshot};
use whimbrel_proto::MessageId;
use whimbrel_proto::session::Outcome;

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
    pub(crate) fn is_empty(&self) -> bool {
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

    /// Wakes everyone. The first three wait at these.
    #[cold]
    pub(crate) fn wake(self, readable: &Notify, writable: &Notify, changed: &Notify) {
        if self.readable {
            readable.notify_waiters();
        }
        if self.writable {
            writable.notify_waiters();
        }
        if self.changed {
            changed.notify_waiters();
        }
        let Some(others) = self.others else { return };
        others.wakers.into_iter().for_each(Waker::wake);
        for (waiting, outcome) in others.outcomes {
            // The task that asked may have stopped waiting.
            waiting.send(outcome).ok();
        }
    }
}
