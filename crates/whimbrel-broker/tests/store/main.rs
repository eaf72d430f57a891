//! The store on real files: processes that are killed, a disk that is full, and damaged segments.

#![allow(clippy::unwrap_used, reason = "what is unwrapped here is a failure of the test")]

mod crash;
mod full;
mod salvage;
mod sharing;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use whimbrel_broker::store::{Entry, Log, Most, Position};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Origin, PartitionId, Stamp};

const CHANNEL: ChannelId = ChannelId(1);
const ORIGIN: Origin = Origin { broker: BrokerId(1), epoch: 5 };

/// A message that says its sequence, with so many bytes more.
fn entry(sequence: u64, more: usize) -> Entry {
    let mut payload = sequence.to_le_bytes().to_vec();
    payload.resize(8 + more, sequence as u8);
    let message = Draft { topic: "t/u", payload: &payload, ..Draft::default() }.finish().unwrap();
    let stamp = Stamp {
        origin: ORIGIN,
        sequence,
        partition: PartitionId(0),
        ordinal: sequence,
        published: Hlc(sequence),
    };
    Entry { stamp, arrived_ms: sequence, age: Duration::ZERO, message }
}

/// The sequences in a log, each message checked.
fn sequences(log: &Log) -> Vec<u64> {
    let (mut from, mut found) = (Position(0), Vec::new());
    loop {
        let batch = log.read(from, Most::default()).unwrap();
        if batch.records.is_empty() {
            return found;
        }
        for record in batch.records {
            let sequence = record.entry.stamp.sequence;
            let more = record.entry.message.payload().len() - 8;
            assert_eq!(record.entry, entry(sequence, more));
            found.push(sequence);
        }
        from = batch.next;
    }
}

/// A folder of its own for a test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("whimbrel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// This program, to run one of its tests in another process.
fn again(test: &str) -> Vec<std::ffi::OsString> {
    let program = std::env::current_exe().unwrap();
    vec![program.into(), "--exact".into(), test.into(), "--nocapture".into(), "--test-threads=1".into()]
}

fn command(words: Vec<std::ffi::OsString>) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
