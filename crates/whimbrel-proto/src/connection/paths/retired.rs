//! Connection ids that are no longer used, kept until no packet can come to them.

use crate::{ConnectionId, Time};

/// Ids that are no longer used, and until when packets to them may still arrive.
#[derive(Debug, Default)]
pub(in crate::connection) struct Retired(Vec<(ConnectionId, Time)>);

impl Retired {
    /// Keeps an id from now on until `until`.
    pub(in crate::connection) fn retire(&mut self, id: ConnectionId, until: Time) {
        self.0.push((id, until));
    }

    pub(in crate::connection) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::connection) fn contains(&self, id: ConnectionId) -> bool {
        self.0.iter().any(|(retired, _)| *retired == id)
    }

    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        self.0.iter().map(|(_, until)| *until).min()
    }

    /// Removes and returns the ids to which no packet can come any more.
    pub(in crate::connection) fn take_over(&mut self, now: Time) -> impl Iterator<Item = ConnectionId> {
        self.0.extract_if(.., move |(_, until)| *until <= now).map(|(id, _)| id)
    }
}
