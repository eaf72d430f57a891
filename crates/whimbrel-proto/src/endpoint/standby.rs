//! Sessions by their ids, those that wait for their peer, and those that did so in vain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Handle;
use crate::crypto::PublicKey;

/// Sessions remembered that nobody came back to in time.
const MOST_EXPIRED: usize = 1024;

type SessionId = [u8; 16];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// Who came first keeps an id: another session of that id cannot be resumed.
    by_id: BTreeMap<SessionId, Handle>,
    waiting: BTreeMap<Handle, (PublicKey, u64)>,
    expired: VecDeque<SessionId>,
    known_expired: BTreeSet<SessionId>,
}

impl Standby {
    pub(super) fn insert(&mut self, id: SessionId, handle: Handle) {
        self.by_id.entry(id).or_insert(handle);
    }

    /// The session was taken up here: whatever had the id before is no more.
    pub(super) fn take_over(&mut self, id: SessionId, handle: Handle) {
        self.by_id.insert(id, handle);
        if self.known_expired.remove(&id) {
            self.expired.retain(|expired| *expired != id);
        }
    }

    pub(super) fn find(&self, id: &SessionId) -> Option<Handle> {
        self.by_id.get(id).copied()
    }

    pub(super) fn is_expired(&self, id: &SessionId) -> bool {
        self.known_expired.contains(id)
    }

    /// A session of `peer` is to wait; says whether it may.
    pub(super) fn admit(
        &mut self,
        handle: Handle,
        peer: PublicKey,
        bytes: u64,
        limits: (usize, u64),
    ) -> bool {
        let own = || self.waiting.values().filter(|(of, _)| *of == peer);
        let fits = own().count() < limits.0
            && own().map(|(_, bytes)| bytes).sum::<u64>().saturating_add(bytes) <= limits.1;
        if fits {
            self.waiting.insert(handle, (peer, bytes));
        }
        fits
    }

    /// It was taken up again.
    pub(super) fn on_reattached(&mut self, handle: Handle) {
        self.waiting.remove(&handle);
    }

    /// The session is over.
    pub(super) fn forget(&mut self, handle: Handle, id: SessionId) {
        if self.by_id.get(&id) == Some(&handle) {
            self.by_id.remove(&id);
        }
        if self.waiting.remove(&handle).is_some() && self.known_expired.insert(id) {
            self.expired.push_back(id);
            if self.expired.len() > MOST_EXPIRED
                && let Some(oldest) = self.expired.pop_front()
            {
                self.known_expired.remove(&oldest);
            }
        }
    }
}
