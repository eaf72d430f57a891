//! How fast the durable log is beside a bare loop of write and fdatasync, and how long it takes to open with two million messages:
//!
//! ```text
//! cargo run --release -p whimbrel-broker --example log_rate [FOLDER]
//! ```
//!
//! Both write the same bytes to the same disk in turn, so their ratio means something even on a disk whose speed changes. A publisher keeps twice
//! the group in flight, as many publishers do together. Without a folder it uses one in the folder for temporary files, which must be on a disk.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use whimbrel_broker::store::{Entry, Log, LogSettings, Most, Position, Store, StoreSettings, Sync};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Origin, PartitionId, Stamp};

const CHANNEL: ChannelId = ChannelId(0);
const ROUNDS: u32 = 15;
/// The time that the log and the loop take in turn.
const TURN: Duration = Duration::from_millis(200);
const MANY: u64 = 2_000_000;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [flag, folder] = &arguments[..]
        && flag == "--fill"
    {
        return fill(Path::new(folder));
    }
    let own = std::env::temp_dir().join(format!("whimbrel-log-rate-{}", std::process::id()));
    let folder = arguments.first().map_or(own, |folder| Path::new(folder).join("log-rate"));
    fs::create_dir_all(&folder).expect("a folder");
    println!("{:>6} {:>8} {:>12} {:>12} {:>6}", "group", "of mean", "log/s", "bare/s", "ratio");
    for group in [1, 10, 100, 1_000] {
        compare(&folder.join(group.to_string()), group);
    }
    open_many(&folder.join("many"));
    fs::remove_dir_all(&folder).expect("removed");
}

fn entry(sequence: u64) -> Entry {
    let message = Draft { topic: "t", payload: &[7; 128], ..Draft::default() }.finish().expect("a message");
    let origin = Origin { broker: BrokerId(1), epoch: 1 };
    let stamp =
        Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published: Hlc(sequence) };
    Entry { stamp, arrived_ms: sequence, age: Duration::ZERO, message }
}

/// Lets the log and the bare loop write in turn.
fn compare(folder: &Path, group: usize) {
    let store = Store::open(folder, StoreSettings::default()).expect("a store");
    let log = store.log(CHANNEL).expect("a log");
    let mut bare = File::create(folder.join("bare")).expect("a file");
    let (mut sequence, mut logged, mut written) = (0, (0, Duration::ZERO), (0, Duration::ZERO));
    let mut mean = group as u64;
    for _ in 0..ROUNDS {
        let (begin, before) = (Instant::now(), log.figures());
        logged.0 += publish(&log, &mut sequence, group);
        logged.1 += begin.elapsed();
        let after = log.figures();
        let number = after.end.0 - before.end.0;
        mean = (number / (after.groups - before.groups).max(1)).max(1);
        let bytes = vec![7; ((after.bytes - before.bytes) / number.max(1) * mean) as usize];
        let begin = Instant::now();
        while begin.elapsed() < TURN {
            bare.write_all(&bytes).expect("written");
            bare.sync_data().expect("synchronised");
            written.0 += mean;
        }
        written.1 += begin.elapsed();
    }
    let rate = |(number, time): (u64, Duration)| number as f64 / time.as_secs_f64();
    let (log, bare) = (rate(logged), rate(written));
    println!("{group:>6} {mean:>8} {log:>12.0} {bare:>12.0} {:>6.2}", log / bare);
}

/// Appends for a turn, and returns how many were acknowledged.
fn publish(log: &Log, sequence: &mut u64, group: usize) -> u64 {
    let in_flight = if group == 1 { 1 } else { 2 * group };
    let (mut waiting, mut done) = (VecDeque::new(), 0);
    let begin = Instant::now();
    while begin.elapsed() < TURN || !waiting.is_empty() {
        while waiting.len() < in_flight && begin.elapsed() < TURN {
            *sequence += 1;
            waiting.push_back(log.append(&entry(*sequence)).expect("taken"));
        }
        if let Some(ticket) = waiting.pop_front() {
            ticket.wait().expect("stored");
            done += 1;
        }
    }
    done
}

/// Fills a log and ends without closing it, as a crash does.
fn fill(folder: &Path) {
    let log = LogSettings { sync: Sync::Never, ..LogSettings::default() };
    let store = Store::open(folder, StoreSettings { log, ..StoreSettings::default() }).expect("a store");
    let log = store.log(CHANNEL).expect("a log");
    let mut waiting = VecDeque::new();
    for sequence in 1..=MANY {
        waiting.push_back(log.append(&entry(sequence)).expect("taken"));
        if waiting.len() == 10_000
            && let Some(ticket) = waiting.pop_front()
        {
            ticket.wait().expect("stored");
        }
    }
    for ticket in waiting {
        ticket.wait().expect("stored");
    }
    std::process::abort();
}

fn open_many(folder: &Path) {
    let program = std::env::current_exe().expect("this program");
    let status = Command::new(program).arg("--fill").arg(folder).status().expect("run");
    assert!(!status.success(), "it aborts");
    let begin = Instant::now();
    let store = Store::open(folder, StoreSettings::default()).expect("a store");
    let log = store.log(CHANNEL).expect("a log");
    let opened = begin.elapsed();
    let held: u64 = log.held().expect("indices").values().map(|held| held.count()).sum();
    let known = begin.elapsed();
    assert_eq!(held, MANY);
    println!("open after a crash with {MANY} messages: {opened:?}; with all indices read: {known:?}");
    let begin = Instant::now();
    let (mut from, mut read) = (Position(0), 0);
    while read < MANY {
        let batch = log.read(from, Most::default()).expect("read");
        read += batch.records.len() as u64;
        from = batch.next;
    }
    println!("read {read} messages: {:.2} M/s", read as f64 / begin.elapsed().as_secs_f64() / 1e6);
}
