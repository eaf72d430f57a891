//! News for a path from the fates of its packets.

use crate::PathId;
use crate::recovery::Fate;

/// Collected while packets' items are told their fates; acted on when the path is free again.
#[derive(Debug, Default)]
pub(in crate::connection) struct Notes {
    pub(in crate::connection) sack_acked: Option<u64>,
    /// Of several the last: ranges of the others are dropped with their next.
    pub(in crate::connection) other_sack_acked: Option<(PathId, u64)>,
    pub(in crate::connection) mtu_probe: Option<(u16, Fate)>,
    /// Packets newly acknowledged.
    pub(in crate::connection) acked: u64,
    pub(in crate::connection) fin_ack_acked: bool,
}
