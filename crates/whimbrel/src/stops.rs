//! The codes with which the peer stopped byte streams. Kept here because the session forgets streams that are over.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_proto::StreamId;

use crate::stream_code::StreamCode;

/// The streams that have a writer, and the codes of those that were stopped. There may be very many of the former.
#[derive(Default)]
pub(crate) struct Stops {
    writers: BTreeSet<StreamId>,
    codes: BTreeMap<StreamId, StreamCode>,
}

impl Stops {
    /// Handles that a stream got its writer.
    pub(crate) fn watch(&mut self, id: StreamId) {
        self.writers.insert(id);
    }

    /// Handles that the writer of a stream is gone.
    pub(crate) fn forget(&mut self, id: StreamId) {
        self.writers.remove(&id);
        self.codes.remove(&id);
    }

    /// Keeps the code of a stream that the peer stopped, if the stream has a writer.
    pub(crate) fn on_stopped(&mut self, id: StreamId, code: StreamCode) {
        if self.writers.contains(&id) {
            self.codes.insert(id, code);
        }
    }

    /// Returns the code with which the peer stopped a stream, if it did.
    pub(crate) fn code(&self, id: StreamId) -> Option<StreamCode> {
        self.codes.get(&id).copied()
    }
}
