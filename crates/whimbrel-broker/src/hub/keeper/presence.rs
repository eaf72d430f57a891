//! The subscriptions that are attached, and since when others are away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::super::signal::Signal;
use crate::durable::Life;
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
    Attached { number: u64, served: Served, signal: Arc<Signal> },
    /// It is not, since this time, milliseconds since 1970.
    Away(u64),
}

/// The life and generation of a subscription that an attachment serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::hub) struct Served {
    /// The life of the subscription, with the generation of the attachment.
    pub(in crate::hub) life: Life,
    /// The digest of the selection.
    pub(in crate::hub) selects: u64,
}

impl Served {
    /// Whether both serve one subscription, be it in different generations.
    pub(super) fn is_same(self, other: Self) -> bool {
        self.life.is_same(other.life) && self.selects == other.selects
    }
}

impl Presences {
    /// Gives the place to an attachment, which wakes whoever waits for `notify`. A former one is superseded. Returns the attachment's number
    /// and signal.
    pub(super) fn enter(
        &self,
        name: &SubscriptionName,
        served: Served,
        notify: Arc<Notify>,
    ) -> (u64, Arc<Signal>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let signal = Arc::new(Signal::of(notify));
        let attached = Presence::Attached { number, served, signal: Arc::clone(&signal) };
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

    /// An attachment here ends if it has to give way. Returns whether the subscription was here, attached or not.
    pub(super) fn give_way(&self, name: &SubscriptionName, gives_way: impl FnOnce(Served) -> bool) -> bool {
        let all = lock(&self.all);
        let presence = all.get(name);
        if let Some(Presence::Attached { served, signal, .. }) = presence
            && gives_way(*served)
        {
            signal.supersede();
        }
        presence.is_some()
    }

    /// Returns the life and generation that an attachment serves, unless it has been superseded.
    pub(super) fn served(&self, name: &SubscriptionName) -> Option<Served> {
        match lock(&self.all).get(name) {
            Some(Presence::Attached { served, signal, .. }) if !signal.is_superseded() => Some(*served),
            _ => None,
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
