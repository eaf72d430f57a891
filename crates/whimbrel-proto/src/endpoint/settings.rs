//! How an endpoint accepts and connects.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::Ticket;
use crate::config::TransportConfig;
use crate::crypto::{PublicKey, Secret};
use crate::handshake::{AcceptorConfig, ServerKey};

/// How an endpoint accepts.
#[derive(Clone)]
#[non_exhaustive]
pub struct ListenConfig {
    /// The handshake's settings.
    pub acceptor: AcceptorConfig,
    /// Keys that may connect. None: any key, the listener is open.
    pub allow: Option<BTreeSet<PublicKey>>,
    /// Keys that may not connect, whatever `allow` and `admit` say. Default: none. [`Endpoint::revoke`](crate::Endpoint::revoke) adds to them.
    pub deny: BTreeSet<PublicKey>,
    /// Asked of whoever `allow` lets in, with what it came from, before anything is kept for it; false: it gets no answer, either. Called
    /// while the endpoint is held: it must be quick, and must not call the endpoint. None: nobody is asked.
    pub admit: Option<Admit>,
    /// Application protocols served. Empty: any.
    pub protocols: Vec<Bytes>,
    /// Give clients tickets, and deliver what comes with the first packet of one that returns: half a round trip after it connects, where
    /// others need one and a half. Default false: such data is as `early` as any that comes with PING, its sender's address is not proven,
    /// and whoever can hold that packet back can deliver it later, once, while its ticket lasts.
    pub early_from_tickets: bool,
    /// Connections at once; beyond it PING is not answered. Default 100,000. Sessions whose peers are suspended or out of reach count, and
    /// may be half of them.
    pub max_connections: usize,
    /// Connections at once of one client key; beyond it PING is not answered. Default 1,024. Higher: one client can take more of
    /// `max_connections`. Lower: a gateway that connects for many under one key is refused.
    pub max_per_key: usize,
    /// Percent of `max_connections` that one network may take of a listener that is open (`allow` is None): an IPv4 /24, an IPv6 /48, and half
    /// of it an IPv6 /56. Default 25. At least 16 connections; loopback has no limit. Higher: fewer networks can fill the listener; 100 turns the
    /// limit off. Lower: a large NAT is refused sooner.
    pub network_share: u8,
    /// PINGs with a valid cookie taken a second and address (the address's /24 or /56). Default 1,000: each costs five
    /// Diffie-Hellmans. A /20 or /48 has twice as many, a /16 or /40 four times.
    pub pings_per_address: u32,
    /// PINGs whose key agreements are made a second, from everybody together. Default 10,000, of which strangers have three quarters at the
    /// most: the rest is for tickets, and for networks from which somebody is connected. Higher: a flood takes more of the processor from
    /// those who are connected. Lower: fewer handshakes a second.
    pub handshakes_per_second: u32,
    /// SYNs answered a second, from everybody together. Default 20,000: a flood of more takes from strangers, who ask again, and not from
    /// those who are connected. Higher: more of the processor for strangers; lower: fewer handshakes a second.
    pub syns_per_second: u32,
}

crate::setters!(ListenConfig {
    acceptor: AcceptorConfig,
    allow: Option<BTreeSet<PublicKey>>,
    deny: BTreeSet<PublicKey>,
    admit: Option<Admit>,
    protocols: Vec<Bytes>,
    early_from_tickets: bool,
    max_connections: usize,
    max_per_key: usize,
    network_share: u8,
    pings_per_address: u32,
    handshakes_per_second: u32,
    syns_per_second: u32,
});

impl ListenConfig {
    pub(in crate::endpoint) fn lets_in(&self, key: &PublicKey, from: SocketAddr) -> bool {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        self.lists(key) && self.admit.as_ref().is_none_or(|admit| admit(key, from))
    }
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            acceptor: AcceptorConfig::default(),
            allow: None,
            deny: BTreeSet::new(),
            admit: None,
            protocols: Vec::new(),
            early_from_tickets: false,
            max_connections: 100_000,
            max_per_key: 1_024,
            network_share: 25,
            pings_per_address: 1_000,
            handshakes_per_second: 10_000,
            syns_per_second: 20_000,
        }
    }
}

/// Whom to connect to, and how.
#[derive(Clone)]
pub struct ConnectConfig {
    /// What is known of the server's key.
    pub server_key: ServerKey,
    /// The application protocol asked for.
    pub protocol: Bytes,
    /// A pre-shared key; turns early data off.
    pub psk: Option<Secret>,
    /// From an earlier connection to this server: what is sent at once travels with the first packet.
    pub ticket: Option<Ticket>,
    /// Further addresses of the server: while none has answered, one more is asked every 250 ms, and the first that answers is taken.
    pub alternatives: Vec<SocketAddr>,
    /// Settings of the connection.
    pub transport: TransportConfig,
}

/// Whether a client with this key, at this address, is let in.
pub type Admit = Arc<dyn Fn(&PublicKey, SocketAddr) -> bool + Send + Sync>;
