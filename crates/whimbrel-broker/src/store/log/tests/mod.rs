//! Logs on a disk in memory that fails, fills up and loses power.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::file_names::file_name;
use super::*;
use crate::locking::lock;
use crate::store::disk::Disk;
use crate::store::disk::memory::{Faults, Memory};
use crate::store::error::{AppendError, Damage, Notice, StoreError};
use crate::store::position::Position;
use crate::store::settings::{LogSettings, Sync};
use crate::store::testing::{entry, origin};

mod appending;
mod failing;
mod keeping;
mod opening;

const CHANNEL: ChannelId = ChannelId(3);

fn folder() -> PathBuf {
    PathBuf::from("/store/log-3")
}

fn small() -> LogSettings {
    LogSettings { segment_bytes: 4 << 10, ..LogSettings::default() }
}

fn try_open(disk: &Memory, settings: LogSettings) -> Result<OpenLog, StoreError> {
    OpenLog::open(Arc::new(disk.clone()), folder(), CHANNEL, settings)
}

fn open(disk: &Memory, settings: LogSettings) -> OpenLog {
    try_open(disk, settings).unwrap()
}

fn append(log: &Log, sequences: std::ops::RangeInclusive<u64>) {
    for sequence in sequences {
        log.append(&entry(origin(1), sequence, 50)).unwrap().wait().unwrap();
    }
}

/// All that is in a log, each message checked.
fn all(log: &Log) -> Vec<(Origin, u64)> {
    let (mut from, mut found) = (log.figures().begin, Vec::new());
    loop {
        let batch = log.read(from, Most { messages: 7, bytes: 2_000 }).unwrap();
        if batch.records.is_empty() {
            assert_eq!(batch.next, log.figures().end);
            return found;
        }
        for record in batch.records {
            let stamp = record.entry.stamp;
            let more = record.entry.message.payload().len() - 8;
            assert_eq!(record.entry, entry(stamp.origin, stamp.sequence, more));
            assert!(record.position >= from);
            found.push((stamp.origin, stamp.sequence));
        }
        from = batch.next;
    }
}

fn sequences(log: &Log) -> Vec<u64> {
    all(log).into_iter().map(|(_, sequence)| sequence).collect()
}

fn up_to(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

/// The file of the segment that begins at `first`.
fn segment(first: u64) -> PathBuf {
    folder().join(file_name(first))
}

impl OpenLog {
    /// The first position of the nth full segment.
    fn shared_first(&self, nth: usize) -> u64 {
        lock(&self.log().shared.segments).full[nth].opening.first
    }
}
