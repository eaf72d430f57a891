//! The mesh: each broker has a session with every other over the transport.
//!
//! Messages go from the broker at which they entered to each other one, once. What a link loses, the brokers ask each other for. So a broker
//! that was cut off, or is new, fills its buffer in the same way.

mod dialling;
mod link;
mod links;
mod receiving;
mod sending;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use whimbrel::{Endpoint, Mocket, PublicKey, Url};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::frame::{Introduction, MeshFrame};
use super::link_report::LinkReport;
use super::traffic::Traffic;
use crate::hub::{ChannelMap, Hub};
use crate::ids::broker_id;
use links::Links;

/// Another broker.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// Where it is dialled, if this broker knows.
    pub url: Option<Url>,
    /// The channels that go to it, if it has them. `None`: all.
    pub channels: Option<Vec<ChannelId>>,
}

/// A broker's part of the mesh.
#[derive(Debug)]
pub struct Mesh {
    hub: Arc<Hub>,
    /// The key of this broker.
    key: PublicKey,
    peers: BTreeMap<BrokerId, Peer>,
    links: Arc<Links>,
    traffic: BTreeMap<BrokerId, Traffic>,
}

/// How often brokers are asked for what is missing, if anything is.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How often brokers are told of the highest sequences, also when nothing is published.
const HEADS_EVERY: u32 = 10;
/// How often brokers are asked who has messages of other runs on disk, if anybody waits for that.
const CONFIRM_EVERY: u32 = 4;
/// Closing a link that speaks another version, or is of another cluster.
const MISUSED: u64 = 1;

impl Mesh {
    /// Joins the mesh: dials the peers that have a URL, and asks for what is missing.
    pub fn start(hub: Arc<Hub>, endpoint: &Endpoint, peers: &[Peer]) -> Arc<Self> {
        let known: BTreeMap<_, _> = peers.iter().map(|peer| (broker_id(&peer.key), peer.clone())).collect();
        let traffic = known.iter().map(|(id, peer)| (*id, Traffic::with(peer.key))).collect();
        let key = endpoint.public_key();
        let mesh = Arc::new(Self { hub, key, peers: known, links: Arc::default(), traffic });
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
            let since = traffic.since();
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
                linked: since.is_some(),
                linked_s: since.map(|since| now.since(since).as_secs_f64()),
                address: mocket.as_ref().map(Mocket::peer_addr),
                paths: paths.len() as u64,
                working_paths: paths.iter().filter(works).count() as u64,
                rtt_ms: paths.iter().filter(works).map(|path| path.rtt.as_secs_f64() * 1e3).reduce(f64::min),
                sent: traffic.sent(),
                received: traffic.received(),
                sent_per_s: traffic.sent_rate.per_second(),
                received_per_s: traffic.received_rate.per_second(),
                trouble: traffic.trouble(),
                behind: since.map(|_| traffic.behind(|channel| highest.get(&channel).copied().unwrap_or(0))),
            }
        };
        self.traffic.iter().map(of).collect()
    }

    /// The broker with this key, if it is configured.
    fn peer(&self, key: Option<PublicKey>) -> Option<BrokerId> {
        let key = key?;
        self.peers.iter().find(|(_, peer)| peer.key == key).map(|(broker, _)| *broker)
    }

    /// Describes the channels here to a broker.
    fn map_for(&self, broker: BrokerId) -> Vec<ChannelMap> {
        let channels = self.peers.get(&broker).and_then(|peer| peer.channels.as_ref());
        self.hub.map(|channel| channels.is_none_or(|channels| channels.contains(&channel)))
    }

    /// How this broker introduces itself to one that is told of these channels.
    fn introduction(&self, channels: &[ChannelMap]) -> Introduction {
        Introduction { key: self.key, name: self.hub.name().name.clone(), channels: channels.to_vec() }
    }

    /// Names another broker to clients, with its URL if that is known here.
    fn called(&self, broker: BrokerId, name: &str) -> String {
        let url = self.peers.get(&broker).and_then(|peer| peer.url.as_ref());
        url.map_or_else(|| format!("the broker {name}"), |url| format!("the broker {name}, {url}"))
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
