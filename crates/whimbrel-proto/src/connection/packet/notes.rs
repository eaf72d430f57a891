//! The consequences of packets' fates for their path.

use crate::PathId;
use crate::recovery::Fate;

/// Collected while items are told the fates of their packets, and acted on once the path is no longer borrowed.
#[derive(Debug, Default)]
pub(in crate::connection) struct Notes {
    pub(in crate::connection) sack_acked: Option<u64>,
    /// The last acknowledged SACK of another path. If there were several, ranges of the others are dropped with their
    /// next SACK.
    pub(in crate::connection) other_sack_acked: Option<(PathId, u64)>,
    pub(in crate::connection) mtu_probe: Option<(u16, Fate)>,
    /// Packets newly acknowledged.
    pub(in crate::connection) acked: u64,
    pub(in crate::connection) fin_ack_acked: bool,
    /// Parts of messages newly lost.
    pub(in crate::connection) lost_parts: u32,
    /// Packets acknowledged after they counted as lost.
    pub(in crate::connection) spurious: u64,
}
