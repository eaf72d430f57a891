//! The context of the sessions with a peer: its permits and shares, and what all peers have in common.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use whimbrel_service::ActivityLog;

use super::dictionaries::Dictionaries;
use super::flows::Flows;
use super::limits::Limits;
use super::means::CompressionMeans;
use super::own_ports::OwnPorts;
use super::record::FlowRecord;
use super::refused::Refused;
use super::shares::Shares;
use crate::compress::Budget;
use crate::flow::Ended;
use crate::multicast::Multicast;
use crate::policy::{Permits, Protocol};
use crate::sockets::Mark;

/// The context of all sessions with one peer.
#[derive(Debug)]
pub struct SessionContext {
    /// The peer's name, or its key.
    pub peer: Arc<str>,
    permits: RwLock<Arc<Permits>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) flows: Flows,
    pub(in crate::relay) shares: Shares,
    pub(in crate::relay) means: CompressionMeans,
    activity: Option<ActivityLog>,
    /// The mark of connections and datagrams that are sent for the peer, and of direct ones.
    pub(crate) mark: Mark,
    /// Forwards the peer's multicast groups, if set.
    pub(crate) multicast: Option<Arc<Multicast>>,
    /// Our own ports.
    pub(crate) own: Arc<OwnPorts>,
}

impl SessionContext {
    /// Creates the context of a peer, which may open what `permits` say.
    pub fn new(
        peer: &str,
        permits: Permits,
        limits: Arc<Limits>,
        flows: Flows,
        (dictionaries, compression): (Arc<Dictionaries>, &Budget),
        activity: Option<ActivityLog>,
    ) -> Self {
        let (permits, shares) = (RwLock::new(Arc::new(permits)), Shares::new(&limits));
        let (peer, own) = (peer.into(), Arc::default());
        let means = CompressionMeans::new(dictionaries, compression);
        Self { peer, permits, limits, flows, shares, means, activity, mark: None, multicast: None, own }
    }

    /// Marks what is sent for the peer.
    pub fn marked(mut self, mark: Option<u32>) -> Self {
        self.mark = mark;
        self
    }

    /// Has the peer's groups sent on there.
    pub(crate) fn with_multicast(mut self, multicast: Option<Arc<Multicast>>) -> Self {
        self.multicast = multicast;
        self
    }

    /// Refuses targets at these ports of ours.
    pub(crate) fn with_own(mut self, own: &Arc<OwnPorts>) -> Self {
        self.own = Arc::clone(own);
        self
    }

    /// Returns what the peer may open.
    pub fn permits(&self) -> Arc<Permits> {
        Arc::clone(&self.permits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what the peer may open from now on.
    pub fn set_permits(&self, permits: Permits) {
        *self.permits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(permits);
    }

    /// Returns whether a target is this proxy itself. If it is, that is noted.
    pub(super) fn is_loop(&self, protocol: Protocol, target: SocketAddr) -> bool {
        let is_loop = self.own.has(protocol, target);
        if is_loop {
            let why = "the target is a port of this proxy: a loop";
            self.note(
                "loop refused",
                serde_json::json!({ "protocol": protocol, "target": target, "why": why }),
            );
        }
        is_loop
    }

    /// The dictionaries.
    pub(crate) fn dictionaries(&self) -> &Dictionaries {
        self.means.dictionaries()
    }

    pub(crate) fn note(&self, what: &str, more: serde_json::Value) {
        let Some(activity) = &self.activity else { return };
        let mut fields = serde_json::Map::from_iter([("peer".to_owned(), (*self.peer).into())]);
        if let serde_json::Value::Object(more) = more {
            fields.extend(more);
        }
        activity.note(what, fields.into());
    }

    /// Notes a flow that the far end refused after its program was let in.
    pub(crate) fn note_refused(&self, record: &FlowRecord, why: Refused) {
        self.flows.count_refused(why);
        self.note("flow refused", serde_json::json!({
            "protocol": record.protocol, "by_peer": record.by_peer, "target": record.target, "program": record.program,
            "rule": record.rule, "why": why.to_string(),
        }));
    }

    pub(crate) fn note_ended(&self, record: &FlowRecord, ended: Ended) {
        let ((to_peer, from_peer), link) = (record.bytes(), record.link());
        self.note("flow ended", serde_json::json!({
            "protocol": record.protocol, "by_peer": record.by_peer, "target": record.target, "program": record.program, "rule": record.rule,
            "to_peer_bytes": to_peer, "from_peer_bytes": from_peer, "to_peer_link_bytes": link.0, "from_peer_link_bytes": link.1,
            "how": how(ended),
        }));
    }
}

fn how(ended: Ended) -> String {
    match ended {
        Ended::Finished => "finished".to_owned(),
        Ended::ResetByProgram => "reset by the program".to_owned(),
        Ended::ResetByPeer(code) => format!("reset by the peer with code {code}"),
        Ended::SessionLost => "the session ended".to_owned(),
        Ended::GivenUp(code) => format!("given up with code {code}"),
    }
}
