//! The limits on clients of MQTT.

use std::time::Duration;

/// The longest time for which a session is kept.
pub(super) const LONGEST_SESSION: Duration = Duration::from_secs(86_400);

/// Limits on clients of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest packet of a client, bytes. Default: 1 MiB.
    pub max_packet: usize,
    /// Connections at a time. Default: 10,000.
    pub max_connections: usize,
    /// Connections at a time from one IPv4 address or 64 bits of IPv6. Default: 5,000.
    pub max_connections_per_address: usize,
    /// Attempts to connect a second from one IPv4 address or 64 bits of IPv6. Those of two seconds may come together. Default: 1,000.
    pub max_attempts_per_address: u32,
    /// Subscriptions of one client. Default: 1,000.
    pub max_subscriptions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_packet: 1 << 20,
            max_connections: 10_000,
            max_connections_per_address: 5_000,
            max_attempts_per_address: 1_000,
            max_subscriptions: 1_000,
        }
    }
}
