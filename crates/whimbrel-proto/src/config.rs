//! Settings of a connection, each with its unit, its default, and what gets worse when it changes.

use std::time::Duration;

use crate::congestion::Congestion;
use crate::connection::paths::cost::CostPolicy;
use crate::connection::paths::primary::PrimaryRule;
use crate::connection::paths::scheduler::Scheduling;
use crate::session::config::SessionConfig;

/// Settings of a connection. The guide's tuning page lists them all, and a test compares it with this type.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct TransportConfig {
    /// Settings of messages, streams and credit.
    pub session: SessionConfig,
    /// Credit that the streams of all sessions of the endpoint may have together beyond their assured shares, in
    /// bytes. Default: 1 GiB. Higher: slow readers can make the endpoint hold more. Lower: streams are slower when
    /// many are busy. One client key or one network gets only a part, as with `memory_budget`. The endpoint's own
    /// settings count, not those of one connection.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub credit_budget: u64,
    /// Memory that all sessions of the endpoint may hold for their peers beyond 320 KiB each, in bytes: unread
    /// messages, incomplete ones, and those behind a gap. One session gets at most an eighth of what is free, all
    /// sessions of one client key a quarter, all of one network of an open listener half. Default: 1 GiB. Higher:
    /// peers can make the process grow more. Lower: peers that hold much are closed sooner, and windows stay smaller.
    /// The endpoint's own settings count, not those of one connection.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub memory_budget: u64,
    /// The most that applications have handed over to all sessions of the endpoint and these still hold, in bytes: queued
    /// messages, and stream bytes until they are acknowledged. 64 KiB of each session and 16 KiB of each byte stream
    /// are assured. It is divided as `memory_budget` is. Beyond it, `send` waits or returns `QueueFull`, and `write`
    /// waits. Default: 1 GiB. Higher: peers that stop reading can make the process grow more. Lower: many busy
    /// sessions are slower on long fat paths. The endpoint's own settings count, not those of one connection.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub send_budget: u64,
    /// The congestion controller. Default: `Gauge`. `Cubic` wastes most of a lossy link; `Fixed` floods a link that
    /// is slower than its rate.
    pub congestion: Congestion,
    /// The largest UDP payload tried, and accepted from the peer, in bytes: longer packets are dropped. Default:
    /// 1,472 (an Ethernet packet over IPv4). Higher: it helps only where the whole path carries such packets. 1,200
    /// turns discovery off.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub max_udp_payload: u16,
    /// The silence after which the connection is given up, outages included. Default: 5 minutes, so that a tunnel or
    /// a lift does not end it. Longer: a dead peer is held longer. Shorter: an outage costs a handshake, or ends the
    /// session where `reattach` is off.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub idle_timeout: Duration,
    /// How long a session outlives a connection that was given up. Meanwhile messages wait within their limits,
    /// lifetimes run, and the side that connected dials until it is answered. Default: 1 h. Longer: memory for peers
    /// that never come back. `None`: the session ends with its connection.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::optional_duration"))]
    pub reattach: Option<Duration>,
    /// How often an otherwise idle connection is probed. Default: 25 s (NAT bindings last 30 s and more). `None`:
    /// never, and a dead peer is noticed only when something is sent. Shorter: a sleeping radio is woken more often.
    /// The accepting side waits a tenth longer, so that one probe serves both.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::optional_duration"))]
    pub keep_alive: Option<Duration>,
    /// The longest delay of an acknowledgement. Default: 25 ms. Longer: fewer packets on half-duplex links, but
    /// slower recovery.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub max_ack_delay: Duration,
    /// How often a small message is repeated in following packets while unacknowledged, on an underused path.
    /// Default: 1, and 2 where more than 8 % is lost. The end of bulk data is repeated as well where packets are
    /// lost, for at most an eighth more bytes. 0: never; a loss at the end of sparse traffic or bulk data then costs
    /// a round trip.
    pub repeats: Repeats,
    /// The most paths at a time. Default: 8, which is the maximum. 1: a single path, and no ids for others are kept
    /// (some 300 bytes a connection).
    pub max_paths: u8,
    /// How paths are used together. Default: `Aggregate`. `Primary`: the others wait for the best one to fail, and
    /// bandwidth does not add up.
    pub scheduler: Scheduling,
    /// How the primary path is chosen unless one is requested. Default: `LossAndRtt`. `MostReceived`: the path on
    /// which most arrives; the peer is told. It follows a receiver that moves, but does not decide while little
    /// arrives.
    pub primary_rule: PrimaryRule,
    /// Whether paths that seem to share a bottleneck take together what one flow would. Default: true. False: several
    /// paths through one bottleneck take as many shares of it.
    pub coupled: bool,
    /// How the cost of paths affects their use. Default: `CheapFirst`. `Ignore`: expensive paths carry as much as
    /// others. `NeverAbove`, `Ask`: messages wait where only expensive paths work.
    pub cost_policy: CostPolicy,
    /// The budget for copies of messages whose lifetime would end before a retransmission, in percent of all bytes
    /// sent. Default: 3. Higher: more such messages arrive in time where packets are lost, for more bytes. Messages
    /// of the session's `urgent_priority` are exempt. Messages longer than a packet have no copies.
    pub deadline_budget: u16,
    /// The most that may be sent to repair losses of such messages if they are longer than a packet, in percent of
    /// their bytes. Default: 60. How much is sent follows the loss: some 34 % at 5 %, 52 % at 10 %. Up to 100 % are
    /// sent for messages of the session's `urgent_priority`. 0: nothing; a message in parts whose lifetime is shorter than
    /// a retransmission is lost with any of its packets.
    pub repair_budget: u16,
    /// How often an unused path is probed while others are in use. Default: 1 s. Shorter: a failure of the path is
    /// noticed sooner. Longer: a radio sleeps longer. When nothing is sent on any path, it stretches to `keep_alive`.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub probe_interval: Duration,
    /// How long a session waits after its peer suspended it. Default: 1 h. Longer: memory for peers that never come
    /// back.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub wait_time: Duration,
    /// The most sessions of one peer key that may wait here, suspended or out of reach; beyond it they end. Default:
    /// 64. Sessions that this side dials for do not count. Higher: one peer can have more kept here. Lower: sessions
    /// of a peer that was out of reach are lost.
    pub max_waiting: usize,
    /// The most bytes that these sessions may hold together when they begin to wait. Default: 64 MiB. Higher: one
    /// peer can take more memory. Lower: sessions with much unread or unsent data end and do not wait.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::bytes"))]
    pub max_waiting_bytes: u64,
    /// How long connecting may take, and how long a server keeps a connection whose client is not proven yet.
    /// Default: 10 s. Shorter: slow links are given up. Longer: a wrong address is noticed later.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub handshake_timeout: Duration,
    /// How long a graceful close may take before the session is abandoned. Time while the peer is unreachable does
    /// not count: `idle_timeout` ends it, or `handshake_timeout` before the handshake is done. Default: 10 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub close_timeout: Duration,
    /// Packets sealed under one generation of keys. Default: 4,194,304 (2^22; RFC 9001 6.6 allows 2^23). Lower: more
    /// key derivations, no other harm.
    pub key_update_packets: u64,
    /// Whether the connection gives out its packet keys for a key log. Default: false. True: whoever reads the log can
    /// read the connection. Not in files, since it needs a place to write to. In the crate `whimbrel`,
    /// `Config::key_log` names that place and sets this.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub key_log: bool,
    /// Whether what the connection does is recorded in the qlog format. Default: false. True: some 300 bytes of text for
    /// each packet. Not in files, since it needs a place to write to. In the crate `whimbrel`, `Config::qlog_dir` names
    /// that place and sets this.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub qlog: bool,
    /// Whether packets are marked as ECN-capable and marks are read. Default: true.
    pub ecn: bool,
}

crate::setters!(TransportConfig {
    session: SessionConfig,
    credit_budget: u64,
    memory_budget: u64,
    send_budget: u64,
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
    repair_budget: u16,
    probe_interval: Duration,
    wait_time: Duration,
    max_waiting: usize,
    max_waiting_bytes: u64,
    handshake_timeout: Duration,
    close_timeout: Duration,
    key_update_packets: u64,
    key_log: bool,
    qlog: bool,
    ecn: bool,
});

/// How often small messages are repeated. Default: [`Repeats::Adaptive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Repeats {
    /// Once, and twice where more than 8 % of packets are lost.
    #[default]
    Adaptive,
    /// Always this often.
    Fixed(u8),
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            session: SessionConfig::default(),
            credit_budget: 1 << 30,
            memory_budget: 1 << 30,
            send_budget: 1 << 30,
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
            repair_budget: 60,
            probe_interval: Duration::from_secs(1),
            wait_time: Duration::from_secs(3600),
            max_waiting: 64,
            max_waiting_bytes: 64 << 20,
            handshake_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(10),
            key_update_packets: 1 << 22,
            key_log: false,
            qlog: false,
            ecn: true,
        }
    }
}
