//! The store of a hub, and who is attached to it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::confirmed::Confirmed;
use super::presence::{Presences, Served};
use super::store_place::StorePlace;
use crate::locking::lock;
use crate::store::{Store, SubscriptionName};

/// The store of a hub, and who is attached.
#[derive(Debug)]
pub(in crate::hub) struct Keeper {
    pub(super) place: StorePlace,
    pub(super) store: Mutex<Option<Arc<Store>>>,
    /// Held by whoever attaches or ends a subscription.
    pub(super) changing: Mutex<()>,
    pub(super) presences: Presences,
    pub(super) confirmed: Confirmed,
    /// The subscriptions whose coverage has grown since other brokers were told.
    pub(super) covered: Mutex<BTreeSet<SubscriptionName>>,
    /// Whether a gateway looks after sessions.
    pub(super) has_gateway: AtomicBool,
}

impl Keeper {
    pub(in crate::hub) fn new(place: StorePlace) -> Self {
        Self {
            place,
            store: Mutex::default(),
            changing: Mutex::default(),
            presences: Presences::default(),
            confirmed: Confirmed::default(),
            covered: Mutex::default(),
            has_gateway: AtomicBool::new(false),
        }
    }

    /// The store, if it is open.
    pub(in crate::hub) fn opened(&self) -> Option<Arc<Store>> {
        lock(&self.store).clone()
    }

    /// Whether there is a folder for what is durable.
    pub(in crate::hub) fn has_folder(&self) -> bool {
        self.place.folder.is_ok()
    }

    /// Whether a subscription is kept.
    pub(super) fn has(&self, name: &SubscriptionName) -> bool {
        self.opened().is_some_and(|store| store.meta().subscription(name).is_some())
    }

    /// Returns the life and generation of a name that is attached here.
    pub(in crate::hub) fn served(&self, name: &SubscriptionName) -> Option<Served> {
        self.presences.served(name)
    }

    /// The store, which is opened, and made, if it is not.
    pub(super) fn store(&self) -> Result<Arc<Store>, String> {
        let mut store = lock(&self.store);
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let folder = self.place.folder.as_ref().map_err(Clone::clone)?;
        let opened = Store::open(folder, self.place.settings.clone()).map_err(|error| error.to_string())?;
        Ok(Arc::clone(store.insert(Arc::new(opened))))
    }

    /// The coverage of a subscription has grown: other brokers are told soon.
    pub(super) fn on_covered(&self, name: &SubscriptionName) {
        let mut covered = lock(&self.covered);
        if !covered.contains(name) {
            covered.insert(name.clone());
        }
    }

    /// Forgets a subscription that was ended.
    pub(super) fn forget(&self, name: &SubscriptionName) {
        self.presences.end(name);
        self.confirmed.forget(name);
    }
}
