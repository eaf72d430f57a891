//! What each way in needs: the rules, the peers that flows go to, and the limits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;

use crate::policy::{Action, Decision, Key, Protocol, Rule, Rules};
use crate::protocol::{Answer, Manner, Opening, Target};
use crate::relay::{DirectFlow, Flows, Limits, Opened, Peer, Refused};

/// How long a program waits for an absent peer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where flows go, and what they may take. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ingress(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    peers: BTreeMap<Arc<str>, Peer>,
    /// The peer of flows for which no rule names one.
    first: Peer,
    rules: RwLock<Arc<Rules>>,
    limits: Arc<Limits>,
    flows: Flows,
}

/// A flow that is open: carried, or not.
#[derive(Debug)]
pub(super) enum Way {
    /// Over a session with this peer.
    Carried(Box<Opened>, Peer),
    /// By a connection of this proxy.
    Direct(Box<DirectFlow>),
}

impl Ingress {
    /// Flows go to `first`, or to one of `peers` that a rule names.
    pub fn new(
        first: Peer,
        peers: impl IntoIterator<Item = Peer>,
        rules: Rules,
        limits: Arc<Limits>,
        flows: Flows,
    ) -> Self {
        let peers = peers.into_iter().map(|peer| (Arc::clone(&peer.context().peer), peer)).collect();
        Self(Arc::new(Inner { peers, first, rules: RwLock::new(Arc::new(rules)), limits, flows }))
    }

    /// Sets the rules for flows that are opened from now on.
    pub fn set_rules(&self, rules: Rules) {
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(super) fn flows(&self) -> &Flows {
        &self.0.flows
    }

    /// Returns the peer that a decision names. The settings were checked, so it exists.
    pub(super) fn peer(&self, decision: &Decision) -> &Peer {
        let named = decision.peer.as_ref().and_then(|name| self.0.peers.get(name.as_str()));
        debug_assert!(decision.peer.is_none() || named.is_some(), "a rule names a peer that is not there");
        named.unwrap_or(&self.0.first)
    }

    /// Returns the name of a peer that these rules name and that is not there.
    pub(crate) fn lacks<'a>(&self, rules: &'a [Rule]) -> Option<&'a str> {
        let names = rules.iter().filter_map(|rule| rule.peer.as_deref());
        names.into_iter().find(|name| !self.0.peers.contains_key(*name))
    }

    /// Opens a flow as the rules say, and waits for its peer if that is absent. `first` was read from the program
    /// already; it rides with the opening. Waits for the answer.
    pub(super) async fn open(
        &self,
        target: &Target,
        source: SocketAddr,
        first: Bytes,
    ) -> Result<(Way, Option<SocketAddr>), Refused> {
        let opened = self.decide(target, source, first).await;
        if let Err(refused) = &opened {
            self.note_refused(target, source, *refused);
        }
        opened
    }

    async fn decide(
        &self,
        target: &Target,
        source: SocketAddr,
        first: Bytes,
    ) -> Result<(Way, Option<SocketAddr>), Refused> {
        let key = Key { protocol: Protocol::Tcp, target: target.clone(), source };
        let decision = self.rules().decide(&key);
        match decision.action {
            Action::Carry => {}
            Action::Direct => {
                let mut flow =
                    DirectFlow::open(target, source, &decision, &self.0.limits, &self.0.flows).await?;
                let address = flow.local_addr();
                flow.send_early(first).await?;
                return Ok((Way::Direct(Box::new(flow)), address));
            }
            Action::Reject => return Err(Refused::ByRule),
            Action::Drop => {
                tokio::time::sleep(self.0.limits.connect_timeout).await;
                return Err(Refused::ByRule);
            }
        }
        let peer = self.peer(&decision).clone();
        let session = peer.session_within(PATIENCE).await.ok_or(Refused::NoSession)?;
        let opening = Opening { target: target.clone(), source: Some(source), manner: manner(&decision) };
        let mut opened = session.open(&opening, decision.rule.map(|(_, name)| name)).await?;
        if !first.is_empty() {
            opened.send_early(first).await?;
        }
        let Answer { address, .. } = opened.answer().await?;
        Ok((Way::Carried(Box::new(opened), peer), address))
    }

    /// Runs a flow to its end.
    pub(super) async fn run(&self, way: Way, tcp: TcpStream) {
        match way {
            Way::Carried(opened, peer) => {
                let record = opened.record();
                let ended = opened.run(tcp, &self.0.limits).await;
                peer.context().note_ended(&record, ended);
            }
            Way::Direct(flow) => {
                let record = flow.record();
                let ended = flow.run(tcp, &self.0.limits).await;
                self.0.first.context().note_ended(&record, ended);
            }
        }
    }

    fn note_refused(&self, target: &Target, source: SocketAddr, why: Refused) {
        self.0.first.context().note(
            "flow refused",
            serde_json::json!({
                "protocol": "tcp", "by_peer": false, "target": target.to_string(), "program": source,
                "why": why.to_string(),
            }),
        );
    }
}

/// Returns how a decision wants a flow to be sent.
pub(super) fn manner(decision: &Decision) -> Manner {
    Manner { priority: decision.priority, lifetime: decision.lifetime }
}
