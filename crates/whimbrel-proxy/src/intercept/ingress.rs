//! What each way in needs: the peer that flows go to, and the limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;

use crate::protocol::{Opening, Target};
use crate::relay::{Limits, Opened, Peer, Refused};

/// How long a program waits for an absent peer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where flows go, and what they may take. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ingress {
    /// The peer.
    pub peer: Peer,
    /// The limits.
    pub limits: Arc<Limits>,
}

impl Ingress {
    /// Opens a flow, and waits for the peer if it is absent.
    pub(super) async fn open(&self, target: Target, source: SocketAddr) -> Result<Opened, Refused> {
        let session = self.peer.session_within(PATIENCE).await.ok_or(Refused::NoSession)?;
        session.open(&Opening { target, source: Some(source) }).await
    }

    /// Runs a flow to its end.
    pub(super) async fn run(&self, opened: Opened, tcp: TcpStream, first: Bytes) {
        let record = opened.record();
        let ended = opened.run(tcp, first, &self.limits).await;
        self.peer.context().note_ended(&record, ended);
    }

    /// Notes a flow that could not be opened.
    pub(super) fn note_refused(&self, target: &Target, source: SocketAddr, why: Refused) {
        self.peer.context().note("flow refused", serde_json::json!({
            "protocol": "tcp", "by_peer": false, "target": target.to_string(), "program": source, "why": why.to_string(),
        }));
    }
}
