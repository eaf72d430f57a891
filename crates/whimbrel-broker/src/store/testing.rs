//! Helpers that the tests of the store share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Origin, PartitionId, Stamp};

use super::disk::memory::{Faults, Memory};
use super::log::OpenLog;
use super::{Entry, Log, LogSettings};

pub(super) fn origin(epoch: u64) -> Origin {
    Origin { broker: BrokerId(1), epoch }
}

/// A message of an origin that says its sequence, with so many bytes more.
pub(super) fn entry(origin: Origin, sequence: u64, more: usize) -> Entry {
    let mut payload = sequence.to_le_bytes().to_vec();
    payload.resize(8 + more, sequence as u8);
    let message = Draft { topic: "t/u", payload: &payload, ..Draft::default() }.finish().unwrap();
    let stamp =
        Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published: Hlc(sequence) };
    Entry { stamp, arrived_ms: 1_000 + sequence, age: Duration::from_millis(3), message }
}

/// A folder of its own for a test, which is removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("whimbrel-store-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A log on a disk in memory that can be filled and emptied.
pub(crate) struct SmallDisk {
    disk: Memory,
    open: OpenLog,
}

impl SmallDisk {
    pub(crate) fn new(channel: ChannelId) -> Self {
        let disk = Memory::default();
        let open = OpenLog::open(Arc::new(disk.clone()), "/log".into(), channel, LogSettings::default());
        Self { disk, open: open.unwrap() }
    }

    pub(crate) fn log(&self) -> Log {
        self.open.log().clone()
    }

    /// Leaves room for nothing more.
    pub(crate) fn fill(&self) {
        self.disk.faults(Faults { room: Some(self.open.log().figures().bytes), ..Faults::default() });
    }

    /// Makes room.
    pub(crate) fn empty(&self) {
        self.disk.faults(Faults::default());
    }
}
