//! A broker's part of the mesh: what it consists of, and what is known of its peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use whimbrel::{PublicKey, Url};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::super::frame::{Introduction, SAYS_MORE};
use super::super::standing::Standing;
use super::super::traffic::Traffic;
use super::links::Links;
use crate::hub::{ChannelMap, Hub};

/// Another broker.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// The address at which it is dialled, if this broker knows it.
    pub url: Option<Url>,
    /// The channels that go to it, if it has them. `None`: all.
    pub channels: Option<Vec<ChannelId>>,
}

/// A broker's part of the mesh.
#[derive(Debug)]
pub struct Mesh {
    pub(super) hub: Arc<Hub>,
    /// The key of this broker.
    pub(super) key: PublicKey,
    pub(super) peers: BTreeMap<BrokerId, Peer>,
    pub(super) links: Arc<Links>,
    pub(super) traffic: BTreeMap<BrokerId, Traffic>,
}

impl Mesh {
    /// The broker with this key, if it is configured.
    pub(super) fn peer(&self, key: Option<PublicKey>) -> Option<BrokerId> {
        let key = key?;
        self.peers.iter().find(|(_, peer)| peer.key == key).map(|(broker, _)| *broker)
    }

    /// Describes the channels here to a broker.
    pub(super) fn map_for(&self, broker: BrokerId) -> Vec<ChannelMap> {
        let channels = self.peers.get(&broker).and_then(|peer| peer.channels.as_ref());
        self.hub.map(|channel| channels.is_none_or(|channels| channels.contains(&channel)))
    }

    /// How this broker introduces itself to one that speaks this version, and is told of these channels.
    pub(super) fn introduction(&self, channels: &[ChannelMap], version: u16) -> Introduction {
        let kept = (version >= SAYS_MORE).then(|| self.hub.kept(channels));
        let (name, channels) = (self.hub.name().name.clone(), channels.to_vec());
        Introduction { key: self.key, name, channels, kept }
    }

    /// Names another broker to clients, with its URL if that is known here.
    pub(super) fn called(&self, broker: BrokerId, name: &str) -> String {
        let url = self.peers.get(&broker).and_then(|peer| peer.url.as_ref());
        url.map_or_else(|| format!("the broker {name}"), |url| format!("the broker {name}, {url}"))
    }

    /// How this broker stands with one that is configured.
    pub(super) fn standing(&self, broker: BrokerId) -> Option<&Standing> {
        Some(&self.traffic.get(&broker)?.standing)
    }
}
