//! The backbone that joins the brokers of a cluster: a [`Mesh`] links each with every other over the transport.
//!
//! Messages go from the broker at which they entered to each other one, once. What a link loses, the brokers ask each other for. So a broker
//! that was cut off, or is new, fills its buffer in the same way.

mod dialling;
mod frame;
mod link;
mod links;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use whimbrel::{Endpoint, Mocket, PublicKey, Url};
use whimbrel_pubsub::message::BrokerId;

pub use frame::PROTOCOL;
pub(crate) use frame::read_again;

use crate::hub::Hub;
use frame::MeshFrame;
use links::Links;

/// Another broker.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// Where it is dialled, if this broker knows.
    pub url: Option<Url>,
}

/// A broker's part of the mesh.
#[derive(Debug)]
pub struct Mesh {
    hub: Arc<Hub>,
    peers: BTreeMap<PublicKey, BrokerId>,
    links: Arc<Links>,
}

/// How often brokers are asked for what is missing, if anything is.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How often brokers are told of the highest sequences, also when nothing is published.
const HEADS_EVERY: u32 = 10;
/// Closing a link that speaks another version, or is of another cluster.
const MISUSED: u64 = 1;

impl Mesh {
    /// Joins the mesh: dials the peers that have a URL, and asks for what is missing.
    pub fn start(hub: Arc<Hub>, endpoint: &Endpoint, peers: &[Peer]) -> Arc<Self> {
        let ids = peers.iter().map(|peer| (peer.key, crate::settings::broker_id(&peer.key))).collect();
        let mesh = Arc::new(Self { hub, peers: ids, links: Arc::default() });
        for peer in peers {
            if let Some(url) = &peer.url {
                tokio::spawn(dialling::run(Arc::clone(&mesh), endpoint.clone(), url.clone()));
            }
        }
        if !peers.is_empty() {
            tokio::spawn(ask(Arc::downgrade(&mesh)));
        }
        mesh
    }

    /// Serves a broker that has connected, until the link ends.
    pub async fn accepted(self: Arc<Self>, mocket: Mocket) {
        if let Err(why) = link::run(&self, &mocket).await {
            mocket.close(MISUSED, &why).await;
        }
    }

    /// The brokers that are linked now.
    pub fn linked(&self) -> Vec<BrokerId> {
        self.links.brokers()
    }

    /// The broker with this key, if it is configured.
    fn peer(&self, key: Option<PublicKey>) -> Option<BrokerId> {
        self.peers.get(&key?).copied()
    }
}

/// Asks for what is missing, and tells what is known, as long as the mesh lives.
async fn ask(mesh: std::sync::Weak<Mesh>) {
    let mut interval = tokio::time::interval(ASK_EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for turn in 0_u32.. {
        interval.tick().await;
        let Some(mesh) = mesh.upgrade() else { return };
        for (channel, request) in mesh.hub.poll_requests() {
            let to = request.to;
            mesh.links.send(to, &MeshFrame::Request(channel, request.origin, request.ranges));
        }
        if turn % HEADS_EVERY == 0 {
            for channel in mesh.hub.channels() {
                mesh.links.send_all(&MeshFrame::Heads(channel, mesh.hub.heads(channel)));
            }
        }
    }
}
