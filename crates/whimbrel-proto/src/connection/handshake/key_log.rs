//! Keys for a packet dissector, if somebody asks for them.

use std::collections::VecDeque;

use crate::ConnectionId;

/// What was logged, and what waits to be. Never printed: the lines are keys.
#[derive(Default)]
pub(in crate::connection) struct KeyLog {
    pub(in crate::connection) lines: VecDeque<String>,
    pub(in crate::connection) early: Option<ConnectionId>,
    pub(in crate::connection) generation: Option<u64>,
    /// The ids of each path, ours and the peer's, whose keys of this generation were logged.
    pub(in crate::connection) named: Vec<(ConnectionId, ConnectionId)>,
}
