//! Limits on what the flows of a proxy take.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;

/// Limits on flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The most TCP flows in all. Default 10,000. Further ones are refused.
    pub max_flows: usize,
    /// The most TCP flows that one peer may have opened here. Default 4,096.
    pub max_flows_per_peer: usize,
    /// The most connections that are being made for one peer at a time. Default 256. Further ones wait.
    pub max_connecting_per_peer: usize,
    /// The most UDP programs of one peer at a time, and under TPROXY of one host. Default 1,024.
    pub max_udp_programs: usize,
    /// The most pairs of a UDP program and a remote address at a time, for each session and direction. Default 4,096.
    pub max_udp_contexts: usize,
    /// The most compressed TCP flows. Default 5,120. Further ones are carried as they are.
    pub max_compressed_flows: usize,
    /// The most bytes of memory for compression. Default 600 MB. What finds no room is carried as it is.
    #[serde(with = "as_text::bytes")]
    pub compression_memory: usize,
    /// The most bytes that flows hold by `hold_bytes` of their rules while their peers cannot be reached, all together. Default 256 MB.
    #[serde(with = "as_text::bytes")]
    pub hold_memory: usize,
    /// The time that a stopping proxy gives its flows to end before it resets them. Default 5 s.
    #[serde(with = "as_text::duration")]
    pub drain: Duration,
    /// The time within which connecting to a target must succeed. Default 15 s.
    #[serde(with = "as_text::duration")]
    pub connect_timeout: Duration,
    /// After this time without a byte in either direction a TCP flow is reset. Default 2 h 4 min (RFC 5382 section 5).
    #[serde(with = "as_text::duration")]
    pub tcp_idle: Duration,
    /// The same limit once one direction has ended. Default 10 min.
    #[serde(with = "as_text::duration")]
    pub tcp_half_closed_idle: Duration,
    /// After this time without a datagram in either direction a UDP program's socket is closed. Default 5 min
    /// (RFC 4787 section 4.3).
    #[serde(with = "as_text::duration")]
    pub udp_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_flows: 10_000,
            max_flows_per_peer: 4_096,
            max_connecting_per_peer: 256,
            max_udp_programs: 1_024,
            max_udp_contexts: 4_096,
            max_compressed_flows: 5_120,
            compression_memory: 600_000_000,
            hold_memory: 256_000_000,
            drain: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(15),
            tcp_idle: Duration::from_secs(7_440),
            tcp_half_closed_idle: Duration::from_secs(600),
            udp_idle: Duration::from_secs(300),
        }
    }
}

/// A limit with which nothing is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[limits] {setting} must not be 0: {why}")]
pub struct LimitMistake {
    /// The setting.
    pub setting: &'static str,
    /// The consequence.
    why: &'static str,
}

impl Limits {
    /// Checks that flows can be.
    ///
    /// # Errors
    /// A limit is 0, and nothing would be carried.
    pub(crate) fn check(&self) -> Result<(), LimitMistake> {
        let all = [
            (self.max_flows == 0, "max_flows", "every flow would be refused"),
            (
                self.max_connecting_per_peer == 0,
                "max_connecting_per_peer",
                "every flow of a peer would wait forever",
            ),
            (self.connect_timeout.is_zero(), "connect_timeout", "no connection would be made in that time"),
            (self.tcp_idle.is_zero(), "tcp_idle", "every TCP flow would be reset at once"),
            (
                self.tcp_half_closed_idle.is_zero(),
                "tcp_half_closed_idle",
                "a TCP flow would be reset once one direction has ended",
            ),
            (self.udp_idle.is_zero(), "udp_idle", "every UDP program would be forgotten at once"),
        ];
        let wrong = all.into_iter().find(|(is_wrong, ..)| *is_wrong);
        wrong.map_or(Ok(()), |(_, setting, why)| Err(LimitMistake { setting, why }))
    }
}
