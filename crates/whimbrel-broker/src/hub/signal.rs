//! The signal that wakes an attached subscription.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes one task.
#[derive(Debug, Default)]
pub(super) struct Signal {
    /// Whether it was woken and has not looked yet. It saves waking again.
    is_ready: AtomicBool,
    notify: Arc<Notify>,
    is_superseded: AtomicBool,
}

impl Signal {
    /// A signal that wakes the task which waits for `notify`.
    pub(super) fn of(notify: Arc<Notify>) -> Self {
        Self { notify, ..Self::default() }
    }

    /// Whether it was woken since it looked.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    pub(super) fn wake(&self) {
        // Most who are woken by a busy publisher are awake; looking takes nothing from another core.
        if !self.is_ready() && !self.is_ready.swap(true, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }

    /// Ends the subscription, since its state was attached again.
    pub(super) fn supersede(&self) {
        self.is_superseded.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.is_superseded.load(Ordering::Acquire)
    }

    pub(super) async fn woken(&self) {
        self.notify.notified().await;
    }

    /// The task looks now: what comes from here on wakes it again.
    pub(super) fn look(&self) {
        self.is_ready.store(false, Ordering::Release);
    }
}
