//! Connection ids that are no longer used, kept until no packet can come to them.

use crate::{ConnectionId, Time};

/// Ids that are no longer used, and until when packets to them may still arrive.
#[derive(Debug, Default)]
pub(in crate::connection) struct Retired(pub(in crate::connection) Vec<(ConnectionId, Time)>);

impl Retired {
    pub(in crate::connection) fn contains(&self, id: ConnectionId) -> bool {
        self.0.iter().any(|(retired, _)| *retired == id)
    }

    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        self.0.iter().map(|(_, until)| *until).min()
    }
}
