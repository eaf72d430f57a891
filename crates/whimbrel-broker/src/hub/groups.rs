//! The groups of this broker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::group::Group;
use super::seats::Seats;

/// A group has its own messages for each filter.
pub(super) type Key = (String, String);

/// The groups that have members here.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) entries: Mutex<BTreeMap<Key, Entry>>,
    pub(super) seats: Arc<Seats>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) group: Arc<Group>,
    pub(super) selector: Option<String>,
}

impl Groups {
    pub(super) fn remove(&self, key: &Key, group: &Arc<Group>) {
        let mut groups = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.group, group)) {
            groups.remove(key);
        }
    }
}
