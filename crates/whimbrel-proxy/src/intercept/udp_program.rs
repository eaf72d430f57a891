//! A UDP program at the near end: what the rules say of its datagrams, and the peers that it uses.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::dns::{PORT, Questions};
use super::ingress::Ingress;
use crate::policy::{Action, Decision, Dns, Dscp, Protocol, Rules};
use crate::protocol::{Announcement, Target};
use crate::relay::{Peer, ProgramGuard, Reply};

/// The most remotes whose decisions are remembered.
const MOST_REMOTES: usize = 1_024;

/// A UDP program. Dropping it ends its flows.
#[derive(Debug)]
pub(super) struct UdpProgram {
    ingress: Ingress,
    address: SocketAddr,
    /// The decisions of the rules on each remote, for datagrams with each DSCP if they ask for that.
    remotes: HashMap<Target, Vec<(Option<Dscp>, Decision)>>,
    /// Its questions for names that have no answer yet.
    questions: Questions,
    /// The rules by which that was decided.
    rules: Arc<Rules>,
    /// The peers that it uses, by name.
    peers: BTreeMap<Arc<str>, (Peer, ProgramGuard)>,
    replies: mpsc::Sender<Reply>,
}

impl UdpProgram {
    /// A program that sends from `address`. What its peers answer goes to `replies`.
    pub(super) fn new(ingress: Ingress, address: SocketAddr, replies: mpsc::Sender<Reply>) -> Self {
        let rules = ingress.rules();
        let (remotes, questions, peers) = (HashMap::new(), Questions::default(), BTreeMap::new());
        Self { ingress, address, remotes, questions, rules, peers, replies }
    }

    /// Sends a datagram as the rules say. Returns what they say, and the bytes that compression has saved.
    pub(super) fn send(&mut self, remote: Target, payload: &[u8]) -> (Action, usize) {
        self.send_with(remote, payload, None)
    }

    /// Sends a datagram that has this DSCP.
    pub(super) fn send_with(
        &mut self,
        remote: Target,
        payload: &[u8],
        dscp: Option<Dscp>,
    ) -> (Action, usize) {
        let decision = self.decide(&remote, dscp);
        if decision.action != Action::Carry {
            return (decision.action, 0);
        }
        let (program, replies) = (self.address, &self.replies);
        let Some(peer) = self.ingress.peer(&decision) else { return (Action::Carry, 0) };
        let name = Arc::clone(&peer.context().peer);
        // There may be another one of its name by now.
        if self.peers.get(&name).is_none_or(|(known, _)| !known.is(&peer)) {
            let added = peer.programs().add(program, replies.clone());
            self.peers.insert(Arc::clone(&name), (peer.clone(), added));
        }
        if decision.dns == Dns::Cache && remote.port == PORT {
            let name = &peer.context().peer;
            let answer = self.questions.ask(self.ingress.answers(), (&decision, name), &remote, payload);
            if let Some(answer) = answer {
                let reply = Reply { peer: Arc::clone(name), from: remote, payload: answer.into(), saved: 0 };
                // A full queue loses the datagram.
                self.replies.try_send(reply).ok();
                return (Action::Carry, 0);
            }
        }
        // Without a session the datagram is lost, as on a link that is down.
        if let Some(session) = peer.session() {
            let manner = self.ingress.manner(&decision);
            let announcement = Announcement::of_program(program, remote, manner);
            let saved = session.outgoing().send(&announcement, manner, Bytes::copy_from_slice(payload));
            return (Action::Carry, saved);
        }
        (Action::Carry, 0)
    }

    /// Takes a reply. Returns whether it is for this program: what it reaches over one peer, no other may answer for.
    pub(super) fn may_answer(&mut self, reply: &Reply) -> bool {
        let ingress = &self.ingress;
        let goes = |decision: &Decision| {
            let peer = ingress.peer(decision).filter(|_| decision.action == Action::Carry);
            peer.is_some_and(|peer| peer.context().peer == reply.peer)
        };
        let may = match self.remotes.get(&reply.from) {
            Some(known) => known.iter().any(|(_, decision)| goes(decision)),
            None => {
                let key = ingress.key(Protocol::Udp, reply.from.clone(), self.address);
                goes(&ingress.rules().decide(&key))
            }
        };
        if may && reply.from.port == PORT {
            self.questions.on_reply(self.ingress.answers(), (&reply.from, &reply.peer), &reply.payload);
        }
        may
    }

    fn decide(&mut self, remote: &Target, dscp: Option<Dscp>) -> Decision {
        let rules = self.ingress.rules();
        if !Arc::ptr_eq(&rules, &self.rules) || self.remotes.len() >= MOST_REMOTES {
            self.remotes.clear();
            self.rules = rules;
        }
        let dscp = dscp.filter(|_| self.rules.asks().dscp);
        let known = self.remotes.get(remote).and_then(|known| known.iter().find(|(of, _)| *of == dscp));
        if let Some((_, decision)) = known {
            return decision.clone();
        }
        let key = self.ingress.with_dscp(dscp).key(Protocol::Udp, remote.clone(), self.address);
        let decision = self.rules.decide(&key);
        self.ingress.log(&decision, &key);
        self.remotes.entry(remote.clone()).or_default().push((dscp, decision.clone()));
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
