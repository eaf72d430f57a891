//! Settings of a connection: each with unit, default, and what gets worse.

use std::time::Duration;

use crate::congestion::Congestion;
use crate::connection::paths::cost::CostPolicy;
use crate::connection::paths::primary::PrimaryRule;
use crate::connection::paths::scheduler::Scheduling;
use crate::session::config::SessionConfig;

/// Settings of a connection. The guide's tuning page lists them all; a test holds it against this type.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Messages, streams and credit.
    pub session: SessionConfig,
    /// Credit that streams of all sessions of the endpoint may have together beyond their assured shares, bytes. Default 1 GiB. Raised, slow
    /// readers can make the endpoint hold more; lowered, streams are slower when many are busy. One client key and one network have a part only,
    /// as of `memory_budget`. The endpoint's own settings count, not those of one connection.
    pub credit_budget: u64,
    /// Memory that all sessions of the endpoint may hold for their peers beyond 320 KiB each, bytes: unread, in parts, behind a gap. Of what is
    /// free one session gets an eighth at the most, all of one client key a quarter, all of one network of an open listener half. Default 1 GiB.
    /// Raised, peers can make the process grow more; lowered, peers that hold much are closed sooner, and windows stay smaller. The endpoint's
    /// own settings count, not those of one connection.
    pub memory_budget: u64,
    /// Congestion controller. Default: `Gauge`. `Cubic` loses most of a lossy link; `Fixed` floods a link slower than it says.
    pub congestion: Congestion,
    /// Largest UDP payload tried, and taken from the peer, bytes: longer packets are dropped. Default 1,472 (an Ethernet packet over IPv4). Larger ones help only where the whole path
    /// takes them; 1,200 turns discovery off.
    pub max_udp_payload: u16,
    /// Silence after which the connection is given up, out of service. Default 5 minutes: a tunnel or a lift is no end. Longer: a dead peer is
    /// held longer. Shorter: an outage costs a handshake, or ends the session where `reattach` is off.
    pub idle_timeout: Duration,
    /// How long a session outlives a connection that was given up: messages wait by their limits, lifetimes run, and the side that connected
    /// dials until it is answered. Default 1 h. Longer: memory for peers that never come back. None: the session ends with its connection.
    pub reattach: Option<Duration>,
    /// How often an otherwise idle connection is probed. Default 25 s (NAT bindings last 30 s and more). None: never, and a dead peer is
    /// noticed only when something is sent. Shorter: a sleeping radio is woken more often. Who was connected to waits a tenth longer, so that
    /// one probe serves both.
    pub keep_alive: Option<Duration>,
    /// Longest time an acknowledgement is held back. Default 25 ms. Longer: fewer packets on half-duplex links, slower recovery.
    pub max_ack_delay: Duration,
    /// How often a small message is repeated in following packets while unacknowledged, on an underused path. Default: 1, and 2
    /// where more than 8 % is lost. 0: never; the tail of sparse traffic then costs a round trip, and so does a loss at the end of bulk,
    /// which otherwise goes twice where packets are lost (at most an eighth more bytes).
    pub repeats: Repeats,
    /// Paths at once. Default 8, which is the most. 1: one path only, and no ids for others are kept (some 300 bytes a connection).
    pub max_paths: u8,
    /// How paths are used together. Default: `Aggregate`. `Primary`: the others wait for the best one to fail; bandwidth does not add up.
    pub scheduler: Scheduling,
    /// How the primary path is chosen while nobody asks for one. Default: `LossAndRtt`. `MostReceived`: the path on which most arrives, and the peer is
    /// told; it follows a receiver that moves, and says nothing while little arrives.
    pub primary_rule: PrimaryRule,
    /// Paths that seem to share a bottleneck take together what one flow would. Default true. False: several paths through one bottleneck take
    /// as many shares of it.
    pub coupled: bool,
    /// What the cost of paths means. Default: `CheapFirst`. `Ignore`: dear paths carry as much as others. `NeverAbove`, `Ask`: messages wait
    /// where only dear paths work.
    pub cost_policy: CostPolicy,
    /// What may be spent on copies of messages whose lifetime would end before they could be sent again, percent of all bytes sent. Default 3.
    /// More: more of them in time where packets are lost, and more bytes. Messages of the session's `urgent_priority` are exempt, those
    /// longer than a packet have no copies.
    pub deadline_budget: u16,
    /// How often a path that carries nothing is probed while others carry something. Default 1 s. Shorter: a path that fails unused is
    /// noticed sooner; longer: a radio sleeps longer. When nothing is sent anywhere it stretches to `keep_alive`.
    pub probe_interval: Duration,
    /// How long a session waits whose peer suspended it. Default 1 h. Longer: memory for peers that never come back.
    pub wait_time: Duration,
    /// Sessions that one peer key may have waiting here, suspended or out of reach; beyond it they end. Default 64. What this side dials for
    /// does not count. Raised, one peer can have more kept here; lowered, sessions of a peer that was out of reach are lost.
    pub max_waiting: usize,
    /// Bytes they may hold together when they begin to wait. Default 64 MiB. Raised, one peer can take more memory; lowered, sessions with
    /// much unread or unsent end instead of waiting.
    pub max_waiting_bytes: u64,
    /// How long connecting may take, and how long a server keeps a connection whose client is not proven yet. Default 10 s. Shorter: gives
    /// up on slow links. Longer: a wrong address is noticed later.
    pub handshake_timeout: Duration,
    /// How long a polite close may take before the session is abandoned, not counting the time for which the peer cannot be reached:
    /// that ends by `idle_timeout`, and before the handshake is done by `handshake_timeout`. Default 10 s.
    pub close_timeout: Duration,
    /// Packets sealed under one generation of keys. Default 4,194,304 (2^22; RFC 9001 6.6 allows 2^23). Fewer: more key
    /// derivations, no other harm.
    pub key_update_packets: u64,
    /// Offer packet keys by [`crate::Connection::poll_key_log`]. Default false. True: whoever reads the log reads the connection.
    pub key_log: bool,
    /// Mark packets as ECN-capable and read marks. Default true.
    pub ecn: bool,
}

crate::setters!(TransportConfig {
    session: SessionConfig,
    credit_budget: u64,
    memory_budget: u64,
    congestion: Congestion,
    max_udp_payload: u16,
    idle_timeout: Duration,
    reattach: Option<Duration>,
    keep_alive: Option<Duration>,
    max_ack_delay: Duration,
    repeats: Repeats,
    max_paths: u8,
    scheduler: Scheduling,
    primary_rule: PrimaryRule,
    coupled: bool,
    cost_policy: CostPolicy,
    deadline_budget: u16,
    probe_interval: Duration,
    wait_time: Duration,
    max_waiting: usize,
    max_waiting_bytes: u64,
    handshake_timeout: Duration,
    close_timeout: Duration,
    key_update_packets: u64,
    key_log: bool,
    ecn: bool,
});

/// Repeats of small messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// 1, and 2 where more than 8 % of packets is lost.
    Adaptive,
    /// Always this many.
    Fixed(u8),
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            session: SessionConfig::default(),
            credit_budget: 1 << 30,
            memory_budget: 1 << 30,
            congestion: Congestion::Gauge,
            max_udp_payload: 1472,
            idle_timeout: Duration::from_secs(300),
            reattach: Some(Duration::from_secs(3600)),
            keep_alive: Some(Duration::from_secs(25)),
            max_ack_delay: Duration::from_millis(25),
            repeats: Repeats::Adaptive,
            max_paths: 8,
            scheduler: Scheduling::default(),
            primary_rule: PrimaryRule::default(),
            coupled: true,
            cost_policy: CostPolicy::default(),
            deadline_budget: 3,
            probe_interval: Duration::from_secs(1),
            wait_time: Duration::from_secs(3600),
            max_waiting: 64,
            max_waiting_bytes: 64 << 20,
            handshake_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(10),
            key_update_packets: 1 << 22,
            key_log: false,
            ecn: true,
        }
    }
}
