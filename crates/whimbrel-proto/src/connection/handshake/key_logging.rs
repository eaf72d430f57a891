//! Writing the key log, for debugging.

use crate::connection::paths::path_set::Main;
use crate::connection::state::Connection;

impl Connection {
    /// Returns the next line of the key log (docs/dissector.md). `None` if there is none, or
    /// [`TransportConfig::key_log`](crate::TransportConfig::key_log) is not set. The log covers both directions of each
    /// path in each key generation, and early packets. Whoever has the lines can read the connection. Call this after
    /// each batch of packets.
    pub fn poll_key_log(&mut self) -> Option<String> {
        self.log_keys();
        self.key_log.as_mut()?.lines.pop_front()
    }

    fn log_keys(&mut self) {
        let (path, ours, theirs) =
            (self.paths[Main].id(), self.paths[Main].local_id(), self.paths[Main].remote_id());
        let Some(log) = &mut self.key_log else { return };
        // A client has early keys for each PING it tries. They are told apart by the id that early packets go to.
        if let Some(early) = &self.early_keys.seal
            && log.early.replace(theirs) != Some(theirs)
        {
            log.lines.push_back(early.log(path, theirs));
        }
        if let Some(early) = &self.early_keys.open
            && log.early.replace(ours) != Some(ours)
        {
            log.lines.push_back(early.log(path, ours));
        }
        let Some(keys) = &self.keys else { return };
        if log.generation.replace(keys.updates()) != Some(keys.updates()) {
            log.named.clear();
        }
        log.named.retain(|named| self.paths.iter().any(|path| (path.local_id(), path.remote_id()) == *named));
        for path in self.paths.iter() {
            let ids = (path.local_id(), path.remote_id());
            if !log.named.contains(&ids) {
                log.named.push(ids);
                log.lines.extend(keys.keys().log(path.id(), ids.0, ids.1));
            }
        }
    }
}
