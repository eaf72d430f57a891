//! The durable side of a hub: its store, and the durable subscriptions that are attached.
//!
//! Nothing here is called on a task that must not wait, unless it says so: it reads and writes the disk.

mod attaching;
mod attachment;
mod ending;
mod opening;
mod report;
mod session_name;
mod sessions;
mod trimming;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use whimbrel_pubsub::frame::{Refusal, RefusalCode};

pub use attaching::{AttachDurable, MOST_OF_CLIENT};
pub use attachment::DurableAttachment;
pub use report::{DurableReport, LogReport};
pub use session_name::SessionName;
pub use sessions::KeptSession;

use super::signal::Signal;
use crate::store::{Meta, MetaError, Store, StoreSettings, SubscriptionName};

/// The most reads of logs at a time. Others wait in turn.
const MOST_READS: usize = 4;

/// Where durable channels and subscriptions are kept.
#[derive(Clone, Debug)]
pub struct StorePlace {
    /// The folder, or why there is none.
    pub folder: Result<PathBuf, String>,
    /// The settings of the store.
    pub settings: StoreSettings,
}

impl StorePlace {
    /// Nothing is kept.
    pub fn nowhere() -> Self {
        let why = "this broker has no folder for durable subscriptions".to_owned();
        Self { folder: Err(why), settings: StoreSettings::default() }
    }
}

/// The store of a hub, and who is attached.
#[derive(Debug)]
pub(super) struct Keeper {
    place: StorePlace,
    store: Mutex<Option<Arc<Store>>>,
    /// Held by whoever attaches or ends a subscription.
    changing: Mutex<()>,
    presence: Mutex<BTreeMap<SubscriptionName, Presence>>,
    reads: Arc<Semaphore>,
    /// Whether a gateway looks after sessions.
    has_gateway: AtomicBool,
}

/// Whether a durable subscription is attached.
#[derive(Debug)]
enum Presence {
    Attached {
        number: u64,
        signal: Arc<Signal>,
    },
    /// Since this time, milliseconds since 1970.
    Away(u64),
}

impl Keeper {
    pub(super) fn new(place: StorePlace) -> Self {
        Self {
            place,
            store: Mutex::default(),
            changing: Mutex::default(),
            presence: Mutex::default(),
            reads: Arc::new(Semaphore::new(MOST_READS)),
            has_gateway: AtomicBool::new(false),
        }
    }

    /// The store, if it is open.
    fn opened(&self) -> Option<Arc<Store>> {
        lock(&self.store).clone()
    }

    /// The store, which is opened, and made, if it is not.
    fn store(&self) -> Result<Arc<Store>, String> {
        let mut store = lock(&self.store);
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let folder = self.place.folder.as_ref().map_err(Clone::clone)?;
        let opened = Store::open(folder, self.place.settings.clone()).map_err(|error| error.to_string())?;
        Ok(Arc::clone(store.insert(Arc::new(opened))))
    }

    fn presence(&self) -> MutexGuard<'_, BTreeMap<SubscriptionName, Presence>> {
        lock(&self.presence)
    }
}

/// An error of the database, as a client hears of it.
fn refusal(error: &MetaError) -> Refusal {
    let code = match error {
        MetaError::Owner(_) => RefusalCode::NotPermitted,
        MetaError::Outdated { .. } => RefusalCode::Superseded,
        MetaError::TooMany { .. } => RefusalCode::Limit,
        MetaError::Name | MetaError::TooLong { .. } | MetaError::Unknown(_) => RefusalCode::Mistake,
        _ => RefusalCode::Unavailable,
    };
    Refusal::new(code, error)
}

fn unavailable(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalCode::Unavailable, format_args!("this broker cannot keep it now: {why}"))
}

/// The name by which the store knows a client's subscription: each client has names of its own.
fn name_of(owner: &[u8], name: &str) -> Result<SubscriptionName, Refusal> {
    let owner: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(char::is_control);
    if !is_name {
        let why = format_args!(
            "a durable subscription's name has 1 to {LONGEST_NAME} bytes and no control characters; this one does not"
        );
        return Err(Refusal::new(RefusalCode::Mistake, why));
    }
    SubscriptionName::new(&format!("{owner}/{name}")).map_err(|error| refusal(&error))
}

/// The name as its client knows it.
fn name_in(name: &SubscriptionName) -> &str {
    name.as_str().split_once('/').map_or(name.as_str(), |(_, name)| name)
}

/// The longest name of a durable subscription, bytes. With the client's key it is one of the store's.
const LONGEST_NAME: usize = 180;

/// How many durable subscriptions of the store satisfy a condition.
fn count(meta: &Meta, is_one: impl Fn(&crate::store::DurableSubscription) -> bool) -> usize {
    meta.subscriptions().iter().filter(|subscription| is_one(subscription)).count()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
