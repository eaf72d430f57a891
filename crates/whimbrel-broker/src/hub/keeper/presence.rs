//! The subscriptions that are attached, and since when others are away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::super::signal::Signal;
use crate::locking::lock;
use crate::store::SubscriptionName;

/// The durable subscriptions that are attached here, or were.
#[derive(Debug, Default)]
pub(super) struct Presences {
    all: Mutex<BTreeMap<SubscriptionName, Presence>>,
    last: AtomicU64,
}

/// Whether a durable subscription is attached.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// It is.
    Attached { number: u64, generation: u64, signal: Arc<Signal> },
    /// It is not, since this time, milliseconds since 1970.
    Away(u64),
}

impl Presences {
    /// Gives the place to an attachment, which wakes whoever waits for `notify`. A former one is superseded. Returns the attachment's number
    /// and signal.
    pub(super) fn enter(
        &self,
        name: &SubscriptionName,
        generation: u64,
        notify: Arc<Notify>,
    ) -> (u64, Arc<Signal>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let signal = Arc::new(Signal::of(notify));
        let attached = Presence::Attached { number, generation, signal: Arc::clone(&signal) };
        let former = lock(&self.all).insert(name.clone(), attached);
        if let Some(Presence::Attached { signal, .. }) = former {
            signal.supersede();
        }
        (number, signal)
    }

    /// The attachment of this number leaves. Whoever superseded it stays.
    pub(super) fn leave(&self, name: &SubscriptionName, left: u64, wall_ms: u64) {
        let mut all = lock(&self.all);
        if let Some(presence) = all.get_mut(name)
            && matches!(presence, Presence::Attached { number, .. } if *number == left)
        {
            *presence = Presence::Away(wall_ms);
        }
    }

    /// Another broker has a later generation: an earlier one that is attached here has to end. Returns whether it was here.
    pub(super) fn give_way(&self, name: &SubscriptionName, later: u64) -> bool {
        match lock(&self.all).get(name) {
            Some(Presence::Attached { generation, signal, .. }) if *generation < later => {
                signal.supersede();
                true
            }
            presence => presence.is_some(),
        }
    }

    /// The subscription was ended.
    pub(super) fn end(&self, name: &SubscriptionName) {
        if let Some(Presence::Attached { signal, .. }) = lock(&self.all).remove(name) {
            signal.supersede();
        }
    }

    /// A subscription was ended by who had it.
    pub(super) fn forget(&self, name: &SubscriptionName) {
        lock(&self.all).remove(name);
    }

    /// Whether a subscription is attached, if it ever was since the start.
    pub(super) fn of(&self, name: &SubscriptionName) -> Option<Presence> {
        lock(&self.all).get(name).cloned()
    }
}
