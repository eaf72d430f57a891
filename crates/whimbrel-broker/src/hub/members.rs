//! The brokers of the cluster, and which of them are linked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use whimbrel_pubsub::message::BrokerId;

use crate::locking::lock;

/// The brokers beside this one that are linked, and what they have told.
#[derive(Debug, Default)]
pub(super) struct Members {
    linked: Mutex<BTreeMap<BrokerId, Linked>>,
    /// Those that have told what they know, at any time of this run. Only configured brokers are linked.
    ever_told: Mutex<BTreeSet<BrokerId>>,
    changes: watch::Sender<()>,
}

/// The links with a broker that takes part in keeping durable messages.
#[derive(Debug, Default)]
struct Linked {
    links: usize,
    /// Whether it has told all subscriptions that it knows.
    has_told: bool,
}

/// A link with a member. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Membership {
    members: Arc<Members>,
    peer: BrokerId,
}

impl Members {
    /// Enters a link with a peer.
    pub(super) fn join(self: &Arc<Self>, peer: BrokerId) -> Membership {
        self.linked().entry(peer).or_default().links += 1;
        self.changes.send_replace(());
        Membership { members: Arc::clone(self), peer }
    }

    /// A peer has told all subscriptions that it knows.
    pub(super) fn on_told(&self, peer: BrokerId) {
        if let Some(linked) = self.linked().get_mut(&peer) {
            linked.has_told = true;
        }
        lock(&self.ever_told).insert(peer);
        self.changes.send_replace(());
    }

    /// Learns of links that come, have told all, or go.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether this peer is linked.
    pub(super) fn is_linked(&self, peer: BrokerId) -> bool {
        self.linked().contains_key(&peer)
    }

    /// Those of these peers that have not told what they know.
    pub(super) fn silent(&self, peers: &[BrokerId]) -> Vec<BrokerId> {
        let linked = self.linked();
        let has_told = |peer| linked.get(peer).is_some_and(|linked| linked.has_told);
        peers.iter().filter(|peer| !has_told(peer)).copied().collect()
    }

    /// Whether most brokers of a channel that these peers carry, and this one, have told what they know since this run began. Then every
    /// subscription to it that was made before is known here.
    pub(super) fn know(&self, peers: &[BrokerId]) -> bool {
        let ever_told = lock(&self.ever_told);
        is_most(peers.iter().filter(|peer| ever_told.contains(peer)).count(), peers)
    }

    /// Whether most brokers of a channel that these peers carry, and this one, are linked and have told what they know.
    pub(super) fn have_most_told(&self, peers: &[BrokerId]) -> bool {
        is_most(peers.len() - self.silent(peers).len(), peers)
    }

    fn linked(&self) -> MutexGuard<'_, BTreeMap<BrokerId, Linked>> {
        self.linked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether so many of the peers, with this broker, are most.
fn is_most(some: usize, peers: &[BrokerId]) -> bool {
    2 * (some + 1) > peers.len() + 1
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut linked = self.members.linked();
        if let Some(of_peer) = linked.get_mut(&self.peer) {
            of_peer.links -= 1;
            if of_peer.links == 0 {
                linked.remove(&self.peer);
            }
        }
        drop(linked);
        self.members.changes.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_more_than_half_and_counts_this_broker() {
        let members = Arc::<Members>::default();
        assert!(members.have_most_told(&[]), "1 of 1");
        let two = [BrokerId(2)];
        assert!(!members.have_most_told(&two), "1 of 2");
        let link = members.join(BrokerId(2));
        let newer = members.join(BrokerId(2));
        assert!(members.is_linked(BrokerId(2)) && !members.have_most_told(&two), "it has not told yet");
        assert!(!members.know(&two));
        members.on_told(BrokerId(2));
        drop(link);
        assert!(members.have_most_told(&two), "2 of 2");
        drop(newer);
        assert_eq!((members.have_most_told(&two), members.silent(&two)), (false, vec![BrokerId(2)]));
        assert!(members.know(&two), "it has told once");
        let _link = members.join(BrokerId(3));
        members.on_told(BrokerId(3));
        assert!(members.have_most_told(&[BrokerId(2), BrokerId(3)]), "2 of 3");
        assert!(!members.have_most_told(&two), "another channel's brokers say nothing of this one's");
    }
}
