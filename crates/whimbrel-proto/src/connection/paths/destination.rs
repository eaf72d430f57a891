//! Which path a packet is for.

use super::path_set::At;
use crate::PathId;

/// The path that a packet is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum Destination {
    Path(At),
    /// The packet would open this path.
    New(PathId),
}
