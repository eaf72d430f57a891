//! A UDP program at the near end: what the rules say of its datagrams, and the peers that it uses.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::ingress::Ingress;
use crate::policy::{Action, Decision, Key, Protocol, Rules};
use crate::protocol::{Announcement, Target};
use crate::relay::{Peer, Program, Reply};

/// The most remotes whose decisions are remembered.
const MOST_REMOTES: usize = 1_024;

/// A UDP program. Dropping it ends its flows.
#[derive(Debug)]
pub(super) struct UdpProgram {
    ingress: Ingress,
    address: SocketAddr,
    /// The decisions of the rules on each remote.
    remotes: HashMap<Target, Decision>,
    /// The rules by which that was decided.
    rules: Arc<Rules>,
    /// The peers that it uses, by name.
    peers: BTreeMap<Arc<str>, (Peer, Program)>,
    replies: mpsc::Sender<Reply>,
}

impl UdpProgram {
    /// A program that sends from `address`. What its peers answer goes to `replies`.
    pub(super) fn new(ingress: Ingress, address: SocketAddr, replies: mpsc::Sender<Reply>) -> Self {
        let rules = ingress.rules();
        Self { ingress, address, remotes: HashMap::new(), rules, peers: BTreeMap::new(), replies }
    }

    /// Sends a datagram as the rules say. Returns what they say, and the bytes that compression has saved.
    pub(super) fn send(&mut self, remote: Target, payload: &[u8]) -> (Action, usize) {
        let decision = self.decide(&remote);
        if decision.action != Action::Carry {
            return (decision.action, 0);
        }
        let (program, replies) = (self.address, &self.replies);
        let peer = self.ingress.peer(&decision);
        let name = Arc::clone(&peer.context().peer);
        let (peer, _) = self
            .peers
            .entry(name)
            .or_insert_with(|| (peer.clone(), peer.programs().add(program, replies.clone())));
        // Without a session the datagram is lost, as on a link that is down.
        if let Some(session) = peer.session() {
            let manner = self.ingress.manner(&decision);
            let announcement = Announcement { program, remote, to_program: false, manner };
            let saved = session.outgoing().send(&announcement, manner, Bytes::copy_from_slice(payload));
            return (Action::Carry, saved);
        }
        (Action::Carry, 0)
    }

    /// Returns whether a reply is for this program: what it reaches over one peer, no other may answer for.
    pub(super) fn may_answer(&self, reply: &Reply) -> bool {
        let decided;
        let decision = match self.remotes.get(&reply.from) {
            Some(decision) => decision,
            None => {
                let (target, source) = (reply.from.clone(), self.address);
                decided = self.ingress.rules().decide(&Key { protocol: Protocol::Udp, target, source });
                &decided
            }
        };
        decision.action == Action::Carry && self.ingress.peer(decision).context().peer == reply.peer
    }

    fn decide(&mut self, remote: &Target) -> Decision {
        let rules = self.ingress.rules();
        if !Arc::ptr_eq(&rules, &self.rules) || self.remotes.len() >= MOST_REMOTES {
            self.remotes.clear();
            self.rules = rules;
        }
        if let Some(decision) = self.remotes.get(remote) {
            return decision.clone();
        }
        let key = Key { protocol: Protocol::Udp, target: remote.clone(), source: self.address };
        let decision = self.rules.decide(&key);
        self.remotes.insert(remote.clone(), decision.clone());
        decision
    }
}

impl Drop for UdpProgram {
    fn drop(&mut self) {
        for (peer, _) in self.peers.values() {
            if let Some(session) = peer.session() {
                session.outgoing().forget(self.address);
            }
        }
    }
}
