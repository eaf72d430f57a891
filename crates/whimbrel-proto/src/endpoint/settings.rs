//! Settings for accepting and opening connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::Ticket;
use crate::config::TransportConfig;
use crate::crypto::{PublicKey, Secret};
use crate::debug_only::debug_only;
use crate::handshake::{AcceptorConfig, ServerKey};

/// The settings of a listener.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct ListenConfig {
    /// The handshake's settings.
    pub acceptor: AcceptorConfig,
    /// Keys that may connect. `None`: any key, so the listener is open.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub allow: Option<BTreeSet<PublicKey>>,
    /// Keys that may not connect, whatever `allow` and `admit` say. Default: none.
    /// [`Endpoint::revoke`](crate::Endpoint::revoke) adds keys.
    pub deny: BTreeSet<PublicKey>,
    /// A function asked about each client that the lists admit, with its key and address, before anything is kept for
    /// it. If it returns false, the client gets no answer. It is called while the endpoint is borrowed, so it must be
    /// quick and must not call the endpoint. `None`: no further check.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub admit: Option<Admit>,
    /// Application protocols served; empty: any.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::names"))]
    pub protocols: Vec<Bytes>,
    /// Gives clients tickets, and delivers early data from the first packet of a returning client. The data arrives
    /// half a round trip after the client connects, and not one and a half. Default: false. Such data is `early`,
    /// like any that comes with PING, and its sender's address is not proven. Whoever can hold back that packet can
    /// deliver it later, once, while its ticket is valid.
    pub early_from_tickets: bool,
    /// The most connections at a time; beyond it PINGs are not answered. Default: 100,000. Sessions whose peers are
    /// suspended or out of reach count, and may be up to half of them.
    pub max_connections: usize,
    /// The most connections at a time for one client key; beyond it PINGs are not answered. Default: 1,024. Higher:
    /// one client can take more of `max_connections`. Lower: a gateway that connects for many under one key is
    /// refused.
    pub max_per_key: usize,
    /// The percentage of `max_connections` that one network may take of an open listener (`allow` is `None`). It
    /// holds for an IPv4 /24 and an IPv6 /48; an IPv6 /56 may take half of it. Default: 25. A network may always have
    /// 16 connections, and loopback has no limit. Higher: fewer networks can fill the listener; 100 turns the limit
    /// off. Lower: a large NAT is refused sooner.
    pub network_share: u8,
    /// PINGs with a valid cookie accepted per second and address (its /24 or /56). Default: 1,000; each costs five
    /// Diffie-Hellman operations. A /20 or /48 may have twice as many, a /16 or /40 four times.
    pub pings_per_address: u32,
    /// PINGs per second whose key agreements are run, for all clients together. Default: 10,000. Strangers get at
    /// most three quarters; the rest is for tickets and for networks with connected clients. Higher: a flood takes
    /// more processor time from connected clients. Lower: fewer handshakes a second.
    pub handshakes_per_second: u32,
    /// SYNs answered per second, for all clients together. Default: 20,000. A larger flood takes from strangers, who
    /// retry, and not from connected clients. Higher: more processor time for strangers. Lower: fewer handshakes a
    /// second.
    pub syns_per_second: u32,
}

debug_only!(ListenConfig { acceptor, protocols, early_from_tickets, max_connections });

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

/// The settings of an outgoing connection.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// The server's key, as far as it is known.
    pub server_key: ServerKey,
    /// The application protocol to ask for.
    pub protocol: Bytes,
    /// A pre-shared key. It disables early data.
    pub psk: Option<Secret>,
    /// A ticket from an earlier connection to this server. Data sent at once then travels with the first packet.
    pub ticket: Option<Ticket>,
    /// Further addresses of the server. While none has answered, one more is tried every 250 ms. The first that
    /// answers is used.
    pub alternatives: Vec<SocketAddr>,
    /// The connection's transport settings.
    pub transport: TransportConfig,
}

/// Decides whether a client with this key and address is admitted.
pub type Admit = Arc<dyn Fn(&PublicKey, SocketAddr) -> bool + Send + Sync>;
