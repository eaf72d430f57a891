//! Sessions by their ids, those that wait for their peer, and those that waited in vain.

use std::collections::{BTreeMap, VecDeque};

use super::handle::Handle;
use crate::crypto::PublicKey;

/// The number of sessions remembered that are no longer here.
const MOST_GONE: usize = 1024;

type SessionId = [u8; 16];

/// The sessions; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Connections by session id. The first session keeps its id: another session with that id cannot be resumed.
    by_id: BTreeMap<SessionId, Handle>,
    /// Waiting sessions, each with the peer and bytes that it counts against, or `None` if this side made it wait.
    waiting: BTreeMap<Handle, Option<(PublicKey, u64)>>,
    /// The number and bytes of waiting sessions of each peer.
    tallies: BTreeMap<PublicKey, (usize, u64)>,
    admitted: usize,
    gone: VecDeque<SessionId>,
    known_gone: BTreeMap<SessionId, Gone>,
}

/// Why a session is no longer here, although its peer may look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The peer did not return in time.
    Expired,
    /// The session was suspended, and continues elsewhere or here again.
    Left,
}

impl Waiting {
    pub(super) fn insert(&mut self, id: SessionId, handle: Handle) {
        self.by_id.entry(id).or_insert(handle);
    }

    /// Gives a session id to a session that was taken up here, whatever had the id before.
    pub(super) fn take_over(&mut self, id: SessionId, handle: Handle) {
        self.by_id.insert(id, handle);
        if self.known_gone.remove(&id).is_some() {
            self.gone.retain(|gone| *gone != id);
        }
    }

    pub(super) fn find(&self, id: &SessionId) -> Option<Handle> {
        self.by_id.get(id).copied()
    }

    pub(super) fn what_became_of(&self, id: &SessionId) -> Option<Gone> {
        self.known_gone.get(id).copied()
    }

    /// Lets a session of `peer` wait, if limits allow. Returns whether it may.
    pub(super) fn admit(
        &mut self,
        handle: Handle,
        peer: PublicKey,
        bytes: u64,
        limits: (usize, u64),
    ) -> bool {
        self.on_reattached(handle);
        let tally = self.tallies.get(&peer).copied().unwrap_or_default();
        let fits = tally.0 < limits.0 && tally.1.saturating_add(bytes) <= limits.1;
        if fits {
            self.tallies.insert(peer, (tally.0 + 1, tally.1 + bytes));
            self.admitted += 1;
            self.waiting.insert(handle, Some((peer, bytes)));
        }
        fits
    }

    /// Lets a session wait that counts against no peer.
    pub(super) fn wait(&mut self, handle: Handle) {
        self.on_reattached(handle);
        self.waiting.insert(handle, None);
    }

    /// The number of admitted sessions that still wait.
    pub(super) fn admitted(&self) -> usize {
        self.admitted
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notes that a session was resumed or given up. Returns whether it was waiting.
    pub(super) fn on_reattached(&mut self, handle: Handle) -> bool {
        let Some(counted) = self.waiting.remove(&handle) else { return false };
        if let Some((peer, bytes)) = counted {
            self.admitted -= 1;
            let (sessions, held) = self.tallies.get(&peer).copied().unwrap_or_default();
            if sessions > 1 {
                self.tallies.insert(peer, (sessions - 1, held - bytes));
            } else {
                self.tallies.remove(&peer);
            }
        }
        true
    }

    /// Notes that a session is over.
    pub(super) fn forget(&mut self, handle: Handle, id: SessionId) {
        if self.by_id.get(&id) == Some(&handle) {
            self.by_id.remove(&id);
        }
        if self.on_reattached(handle) {
            self.remember(id, Gone::Expired);
        }
    }

    /// Notes that a session was suspended.
    pub(super) fn leave(&mut self, handle: Handle, id: SessionId) {
        self.on_reattached(handle);
        self.forget(handle, id);
        self.remember(id, Gone::Left);
    }

    fn remember(&mut self, id: SessionId, why: Gone) {
        if self.known_gone.insert(id, why).is_some() {
            return;
        }
        self.gone.push_back(id);
        if self.gone.len() > MOST_GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.known_gone.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Identity;

    #[test]
    fn what_waits_is_counted_for_each_peer() {
        let peers = [1, 2].map(|byte| Identity::from_secret([byte; 32]).public());
        let mut waiting = Waiting::default();
        let admit = |waiting: &mut Waiting, handle, peer, bytes| {
            waiting.admit(Handle(handle), peers[peer], bytes, (2, 100))
        };
        assert!(admit(&mut waiting, 0, 0, 60));
        assert!(!admit(&mut waiting, 1, 0, 60), "too many bytes");
        assert!(admit(&mut waiting, 1, 0, 40));
        assert!(!admit(&mut waiting, 2, 0, 0), "too many sessions");
        assert!(admit(&mut waiting, 2, 1, 100), "another's");
        assert_eq!(waiting.admitted(), 3);
        waiting.wait(Handle(3));
        assert_eq!(waiting.admitted(), 3, "one's own does not count");
        waiting.on_reattached(Handle(0));
        assert!(admit(&mut waiting, 0, 0, 60), "its place is free again");
        waiting.insert([7; 16], Handle(1));
        waiting.forget(Handle(1), [7; 16]);
        assert_eq!(waiting.what_became_of(&[7; 16]), Some(Gone::Expired));
        assert_eq!(waiting.find(&[7; 16]), None);
        for handle in [0, 2, 3] {
            assert!(waiting.on_reattached(Handle(handle)));
        }
        assert!(waiting.is_empty() && waiting.tallies.is_empty() && waiting.admitted() == 0);
    }
}
