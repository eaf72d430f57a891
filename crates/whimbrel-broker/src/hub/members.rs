//! The brokers of the cluster, and which of them are linked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use whimbrel_pubsub::message::BrokerId;

/// The configured brokers beside this one.
#[derive(Debug)]
pub(super) struct Members {
    peers: Vec<BrokerId>,
    linked: Mutex<BTreeMap<BrokerId, Linked>>,
    /// Whether most have told what they know, at any time of this run.
    knows: AtomicBool,
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
    pub(super) fn new(peers: impl IntoIterator<Item = BrokerId>) -> Self {
        let mut peers: Vec<_> = peers.into_iter().collect();
        peers.sort_unstable();
        peers.dedup();
        let (linked, knows, changes) = (Mutex::default(), AtomicBool::new(false), watch::Sender::default());
        Self { peers, linked, knows, changes }
    }

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
        if self.have_most_told() {
            self.knows.store(true, Ordering::Relaxed);
        }
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

    /// The peers that are linked.
    pub(super) fn all_linked(&self) -> Vec<BrokerId> {
        self.linked().keys().copied().collect()
    }

    /// The configured peers that have not told what they know.
    pub(super) fn silent(&self) -> Vec<BrokerId> {
        let linked = self.linked();
        let has_told = |peer| linked.get(peer).is_some_and(|linked| linked.has_told);
        self.peers.iter().filter(|peer| !has_told(peer)).copied().collect()
    }

    /// The configured peers.
    pub(super) fn peers(&self) -> &[BrokerId] {
        &self.peers
    }

    /// Whether most brokers have told what they know since this run began. Then every subscription that was made before is known here.
    pub(super) fn know_all(&self) -> bool {
        self.knows.load(Ordering::Relaxed) || self.have_most_told()
    }

    /// Whether most brokers of the cluster, this one among them, have told what they know.
    pub(super) fn have_most_told(&self) -> bool {
        let all = self.peers.len() + 1;
        let told = all - self.silent().len();
        2 * told > all
    }

    fn linked(&self) -> MutexGuard<'_, BTreeMap<BrokerId, Linked>> {
        self.linked.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        assert!(Arc::new(Members::new([])).have_most_told(), "1 of 1");
        let two = Arc::new(Members::new([BrokerId(2)]));
        assert!(!two.have_most_told(), "1 of 2");
        let link = two.join(BrokerId(2));
        let newer = two.join(BrokerId(2));
        assert!(two.is_linked(BrokerId(2)) && !two.have_most_told(), "it has not told yet");
        two.on_told(BrokerId(2));
        drop(link);
        assert!(two.have_most_told(), "2 of 2");
        drop(newer);
        assert_eq!((two.have_most_told(), two.silent()), (false, vec![BrokerId(2)]));
        assert!(two.know_all(), "it has told once");
        let three = Arc::new(Members::new([BrokerId(2), BrokerId(3), BrokerId(2)]));
        let _link = three.join(BrokerId(3));
        three.on_told(BrokerId(3));
        assert!(three.have_most_told(), "2 of 3");
    }
}
