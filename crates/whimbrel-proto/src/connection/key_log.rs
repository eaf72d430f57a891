//! Keys for a packet dissector, if somebody asks for them.

use std::collections::VecDeque;

use super::{Connection, Main};
use crate::ConnectionId;

/// What was logged, and what waits to be.
#[derive(Debug, Default)]
pub(super) struct KeyLog {
    lines: VecDeque<String>,
    early: Option<ConnectionId>,
    generation: Option<u64>,
}

impl Connection {
    /// The next line of the key log (docs/dissector.md): both directions of each generation, and early packets. None unless
    /// [`crate::TransportConfig::key_log`] is set. Whoever has the lines reads the connection. Ask after each batch of packets.
    pub fn poll_key_log(&mut self) -> Option<String> {
        self.log_keys();
        self.key_log.as_mut()?.lines.pop_front()
    }

    fn log_keys(&mut self) {
        let (path, ours, theirs) =
            (self.paths[Main].id, self.paths[Main].local_id, self.paths[Main].remote_id);
        let Some(log) = &mut self.key_log else { return };
        // A client has early keys for each PING it tries, known by where they go.
        if let Some(early) = &self.early_seal
            && log.early.replace(theirs) != Some(theirs)
        {
            log.lines.push_back(early.log(path, theirs));
        }
        if let Some(early) = &self.early_open
            && log.early.replace(ours) != Some(ours)
        {
            log.lines.push_back(early.log(path, ours));
        }
        if let Some(keys) = &self.keys
            && log.generation.replace(keys.updates()) != Some(keys.updates())
        {
            log.lines.extend(keys.keys().log(path, ours, theirs));
        }
    }
}
