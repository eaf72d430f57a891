//! The status of a proxy.

use crate::relay::{Flows, PeerState, Roster};

/// The status that [`Proxy::status`](crate::Proxy::status) returns. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProxyStatus {
    pub(crate) peers: Roster,
    pub(crate) flows: Flows,
}

impl ProxyStatus {
    /// Returns the status of peers and flows.
    pub fn shown(&self) -> serde_json::Value {
        let peers = self.peers.now();
        let peers: Vec<_> = peers
            .all()
            .map(|(key, peer)| {
                let (state, why) = match peer.state() {
                    PeerState::Absent => ("absent", None),
                    PeerState::Connected if !peer.is_usable() => ("unreachable", None),
                    PeerState::Connected => ("connected", None),
                    PeerState::Failed(why) => ("absent", Some(why)),
                };
                let connector = peer.session().map(|session| session.link().connector());
                serde_json::json!({
                    "name": *peer.context().peer, "key": key.to_string(), "state": state, "why": why, "connector": connector,
                })
            })
            .collect();
        serde_json::json!({ "peers": peers, "flows": self.flows.shown() })
    }
}
