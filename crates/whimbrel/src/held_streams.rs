//! Streams as the handles of a session know them.

use std::collections::BTreeMap;
use std::task::Waker;

use whimbrel_proto::StreamId;

use crate::backlog::Backlog;
use crate::stops::Stops;
use crate::woken::Woken;

/// The tasks that wait for streams, and the streams that wait to be accepted.
#[derive(Default)]
pub(crate) struct HeldStreams {
    pub(crate) readers: BTreeMap<StreamId, Waker>,
    pub(crate) writers: BTreeMap<StreamId, Waker>,
    pub(crate) stops: Stops,
    pub(crate) backlog: Backlog,
}

impl HeldStreams {
    /// Has all readers and writers woken.
    pub(crate) fn leave_for(&mut self, woken: &mut Woken) {
        let (readers, writers) = (std::mem::take(&mut self.readers), std::mem::take(&mut self.writers));
        woken.add(readers.into_values().chain(writers.into_values()));
    }
}
