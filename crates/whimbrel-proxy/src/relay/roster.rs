//! All peers as they are now. They come and go while the proxy runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use whimbrel::PublicKey;

use super::peer::Peer;
use crate::protocol::{Announcement, Manner};

/// All peers as they are now. Cheap to clone; each clone sees every change.
#[derive(Clone, Debug)]
pub struct Roster(watch::Sender<Arc<Peers>>);

/// The peers at one moment.
#[derive(Debug, Default)]
pub struct Peers {
    by_key: BTreeMap<PublicKey, Peer>,
    by_name: BTreeMap<Arc<str>, Peer>,
    first: Option<Peer>,
}

impl Peers {
    /// These peers. Flows for which no rule names a peer go to the one with the key `first`. Of two with one name, the later one
    /// has it.
    pub fn new(peers: impl IntoIterator<Item = (PublicKey, Peer)>, first: Option<&PublicKey>) -> Self {
        let mut this = Self::default();
        for (key, peer) in peers {
            this.by_name.insert(Arc::clone(&peer.context().peer), peer.clone());
            this.by_key.insert(key, peer);
        }
        this.first = first.and_then(|key| this.by_key.get(key)).cloned();
        this
    }

    /// Returns the peer with this key.
    pub(crate) fn of_key(&self, key: &PublicKey) -> Option<&Peer> {
        self.by_key.get(key)
    }

    /// Returns the peer with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Peer> {
        self.by_name.get(name)
    }

    /// Returns the peer of flows for which no rule names one.
    pub(crate) fn first(&self) -> Option<&Peer> {
        self.first.as_ref()
    }

    /// Returns all, by their keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&PublicKey, &Peer)> {
        self.by_key.iter()
    }

    /// Returns the standby for a peer that cannot be reached, if it has one that can.
    pub(crate) fn standby<'a>(&'a self, wanted: &Peer) -> Option<&'a Peer> {
        let mut peer = wanted.clone();
        let mut found = None;
        // Each is looked at once, even if they stand by for one another.
        for _ in 0..self.by_key.len() {
            if peer.is_usable() {
                return found.filter(|found: &&Peer| !found.is(wanted));
            }
            found = Some(self.named(&peer.standby()?)?);
            peer = found?.clone();
        }
        None
    }
}

impl Roster {
    /// A roster of these peers.
    pub fn new(peers: Peers) -> Self {
        Self(watch::channel(Arc::new(peers)).0)
    }

    /// Returns the peers as they are now.
    pub(crate) fn now(&self) -> Arc<Peers> {
        Arc::clone(&self.0.borrow())
    }

    /// Sets other peers.
    pub(crate) fn set(&self, peers: Peers) {
        self.0.send_replace(Arc::new(peers));
    }

    /// Sends a datagram to the peers with these names, or to all if there are none. Each gets a copy of its own.
    pub(crate) fn send(&self, names: &[String], announcement: &Announcement, payload: &[u8]) {
        let peers = self.now();
        let gets = |peer: &&Peer| names.is_empty() || names.iter().any(|name| **name == *peer.context().peer);
        for session in peers.all().map(|(_, peer)| peer).filter(gets).filter_map(Peer::session) {
            let payload = Bytes::copy_from_slice(payload);
            session.outgoing().send(announcement, Manner::default(), payload);
        }
    }

    /// Follows every change.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<Peers>> {
        self.0.subscribe()
    }
}
