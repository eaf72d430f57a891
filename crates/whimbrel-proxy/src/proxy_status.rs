//! The status of a proxy.

use crate::connector::Connector;
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
        let now = self.peers.now();
        let sessions = now.all().flat_map(|(_, peer)| peer.sessions());
        // The endpoint knows nothing of them.
        let over_tcp = sessions.filter(|session| session.link().connector() == Connector::Tcp).count();
        serde_json::json!({ "peers": peers, "sessions_over_tcp": over_tcp, "flows": self.flows.shown() })
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Protocol;
    use crate::relay::{FlowRecord, Flows};

    #[test]
    fn regression_datagrams_do_not_open_for_ever() {
        let flows = Flows::default();
        let add = |protocol| flows.add(FlowRecord::new(protocol, "far".into()), 9).unwrap();
        let _running = [Protocol::Tcp, Protocol::Udp].map(add);
        let shown = flows.shown();
        let state = |at: usize| shown["list"][at]["state"].as_str().unwrap().to_owned();
        assert_eq!([state(0), state(1)], ["opening", "running"]);
    }
}
