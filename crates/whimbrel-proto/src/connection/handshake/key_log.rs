//! The key log for a packet dissector, if one is wanted.

use std::collections::VecDeque;

use crate::ConnectionId;

/// The key log: lines that wait to be read, and a record of those already logged. It has no `Debug`, since the lines
/// are keys.
#[derive(Default)]
pub(in crate::connection) struct KeyLog {
    pub(in crate::connection) lines: VecDeque<String>,
    pub(in crate::connection) early: Option<ConnectionId>,
    pub(in crate::connection) generation: Option<u64>,
    /// The connection ids of each path, ours and the peer's, whose keys of this generation were logged.
    pub(in crate::connection) named: Vec<(ConnectionId, ConnectionId)>,
}
