//! The mesh: each broker has a session with every other over the transport.
//!
//! Messages go from the broker at which they entered to each other one, once. What a link loses, the brokers ask each other for. So a broker
//! that was cut off, or is new, fills its buffer in the same way.

mod core;
mod dialling;
mod link;
mod links;
mod receiving;
mod sending;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use whimbrel::{Endpoint, Mocket};
use whimbrel_pubsub::message::BrokerId;

pub use self::core::{Mesh, Peer};

use super::frame::MeshFrame;
use super::link_report::{LinkReport, LinkState};
use super::standing::Stand;
use super::traffic::Traffic;
use crate::hub::Hub;
use crate::ids::broker_id;

/// How often brokers are asked for what is missing, if anything is.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How often brokers are told of the highest sequences, also when nothing is published.
const HEADS_EVERY: u32 = 10;
/// How often brokers are asked who has messages of other runs on disk, if anybody waits for that.
const CONFIRM_EVERY: u32 = 4;

impl Mesh {
    /// Joins the mesh: dials the peers that have a URL, and asks for what is missing.
    pub fn start(hub: Arc<Hub>, endpoint: &Endpoint, peers: &[Peer]) -> Arc<Self> {
        let known: BTreeMap<_, _> = peers.iter().map(|peer| (broker_id(&peer.key), peer.clone())).collect();
        let traffic = known.iter().map(|(id, peer)| (*id, Traffic::with(peer.key))).collect();
        let key = endpoint.public_key();
        let mesh = Arc::new(Self { hub, key, peers: known, links: Arc::default(), traffic });
        for peer in peers {
            if let Some(url) = &peer.url {
                let broker = broker_id(&peer.key);
                tokio::spawn(dialling::run(Arc::clone(&mesh), endpoint.clone(), url.clone(), broker));
            }
        }
        if !peers.is_empty() {
            tokio::spawn(ask(Arc::downgrade(&mesh)));
        }
        mesh
    }

    /// Serves a broker that has connected, until the link ends.
    pub async fn accepted(self: Arc<Self>, mocket: Mocket) {
        link::run(&self, &mocket).await;
    }

    /// The brokers that are linked now.
    pub fn linked(&self) -> Vec<BrokerId> {
        self.links.brokers()
    }

    /// Learns how fast links carry messages, `elapsed` after the last time.
    pub fn look(&self, elapsed: Duration) {
        self.traffic.values().for_each(|traffic| traffic.look(elapsed));
    }

    /// Returns a report on each configured broker.
    pub fn report(&self) -> Vec<LinkReport> {
        let now = self.hub.clock().time();
        let highest = self.hub.own_highest();
        let of = |(broker, traffic): (&BrokerId, &Traffic)| {
            let Stand { state, lasted, next_attempt, trouble } = traffic.standing.look(now);
            let linked = state == LinkState::Linked;
            let lasted = lasted.as_secs_f64();
            let mocket = self.links.newest(*broker);
            let stats = mocket.as_ref().map(Mocket::stats);
            let paths = stats.as_ref().map_or(&[][..], |stats| &stats.connection.paths);
            let works = |path: &&whimbrel::PathStats| {
                matches!(path.state, whimbrel::PathState::Active | whimbrel::PathState::Standby)
            };
            let key = traffic.key.to_string();
            LinkReport {
                name: key.chars().take(8).collect(),
                key,
                linked,
                state,
                linked_s: linked.then_some(lasted),
                away_s: (!linked).then_some(lasted),
                next_attempt_s: next_attempt.map(|next| next.as_secs_f64()),
                address: mocket.as_ref().map(Mocket::peer_addr),
                paths: paths.len() as u64,
                working_paths: paths.iter().filter(works).count() as u64,
                rtt_ms: paths.iter().filter(works).map(|path| path.rtt.as_secs_f64() * 1e3).reduce(f64::min),
                sent: traffic.sent(),
                received: traffic.received(),
                sent_per_s: traffic.sent_rate.per_second(),
                received_per_s: traffic.received_rate.per_second(),
                trouble,
                behind: linked.then(|| traffic.behind(|channel| highest.get(&channel).copied().unwrap_or(0))),
            }
        };
        self.traffic.iter().map(of).collect()
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
            mesh.links.send(to, channel, &MeshFrame::Request(channel, request.origin, request.ranges));
        }
        if turn % CONFIRM_EVERY == 0 {
            for (channel, origin, ranges) in mesh.hub.poll_confirms() {
                mesh.links.send_all(channel, &MeshFrame::Confirm(channel, origin, ranges));
            }
        }
        if turn % HEADS_EVERY == 0 {
            for channel in mesh.hub.channels() {
                mesh.links.send_all(channel, &MeshFrame::Heads(channel, mesh.hub.heads(channel)));
            }
        }
    }
}
