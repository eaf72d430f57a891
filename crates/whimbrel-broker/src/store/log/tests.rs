//! Logs on a disk in memory that fails, fills up and loses power.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::*;
use crate::store::Sync;
use crate::store::disk::memory::{Faults, Memory};
use crate::store::testing::{entry, origin};

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

#[test]
fn what_was_appended_is_read_and_found_before_and_after_a_start() {
    let disk = Memory::default();
    let first = open(&disk, small());
    append(first.log(), 1..=300);
    let check = |log: &Log| {
        assert_eq!(sequences(log), up_to(300));
        for sequence in 1..=300 {
            assert_eq!(log.find(origin(1), sequence).unwrap(), Some(Position(sequence - 1)));
        }
        assert_eq!(log.find(origin(1), 301).unwrap(), None);
        assert_eq!(log.find(origin(2), 1).unwrap(), None);
        let held = log.held().unwrap();
        assert_eq!((held.len(), held[&origin(1)].len(), held[&origin(1)].count()), (1, 1, 300));
        assert!(log.figures().segments > 5 && log.notices().is_empty());
    };
    check(first.log());
    drop(first);
    let second = open(&disk, small());
    check(second.log());
    append(second.log(), 301..=310);
    assert_eq!(sequences(second.log()), up_to(310));
}

#[test]
fn many_appends_share_one_synchronisation() {
    let disk = Memory::default();
    let open = open(&disk, LogSettings::default());
    let log = open.log();
    append(log, 1..=1);
    let (before, groups) = (disk.syncs(), log.figures().groups);
    let tickets: Vec<_> =
        (2..=5_001).map(|sequence| log.append(&entry(origin(1), sequence, 50)).unwrap()).collect();
    let positions: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(positions, (1..=5_000).map(Position).collect::<Vec<_>>());
    let groups = log.figures().groups - groups;
    assert!(groups < 2_500, "{groups} groups");
    assert_eq!(disk.syncs() - before, groups);
}

#[test]
fn a_ticket_is_a_future() {
    use std::task::{Context, Poll, Wake, Waker};
    struct Woken(std::sync::mpsc::Sender<()>);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.send(()).ok();
        }
    }
    let disk = Memory::default();
    let open = open(&disk, LogSettings::default());
    let (tell, told) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Woken(tell)));
    let mut ticket = std::pin::pin!(open.log().append(&entry(origin(1), 1, 0)).unwrap());
    loop {
        match ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => break assert_eq!(done.unwrap(), Position(0)),
            Poll::Pending => told.recv().unwrap(),
        }
    }
}

#[test]
fn a_full_queue_is_told_and_a_long_message_is_taken_all_the_same() {
    let queue = super::queue::Queue::new(1_000);
    let long = queue.push(&entry(origin(1), 1, 5_000)).unwrap();
    assert!(
        matches!(queue.push(&entry(origin(1), 2, 0)), Err(AppendError::Busy(waiting)) if waiting > 5_000)
    );
    queue.refuse(AppendError::Closed);
    assert!(matches!(queue.push(&entry(origin(1), 3, 0)), Err(AppendError::Closed)));
    queue.fail(&AppendError::Closed);
    assert!(matches!(long.wait(), Err(AppendError::Closed)));
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_nothing_else() {
    let disk = Memory::default();
    let open = open(&disk, LogSettings::default());
    let log = open.log();
    append(log, 1..=10);
    let used = log.figures().bytes;
    disk.faults(Faults { room: Some(used + 1_000), ..Faults::default() });
    let refused = log.append(&entry(origin(1), 11, 5_000)).unwrap().wait().unwrap_err();
    assert!(
        matches!(&refused, AppendError::Full(_)) && refused.to_string().contains("disk is full"),
        "{refused}"
    );
    append(log, 11..=12);
    assert!(log.refusal().is_none());
    disk.faults(Faults::default());
    log.append(&entry(origin(1), 13, 5_000)).unwrap().wait().unwrap();
    append(log, 14..=20);
    assert_eq!(sequences(log), up_to(20));
    drop(open);
    assert_eq!(sequences(super::tests::open(&disk, small()).log()), up_to(20));
}

#[test]
fn of_one_group_the_small_are_stored_if_a_large_one_does_not_fit() {
    let disk = Memory::default();
    let open = open(&disk, LogSettings::default());
    let log = open.log();
    append(log, 1..=1);
    disk.faults(Faults { room: Some(log.figures().bytes + 4_000), ..Faults::default() });
    let wanted = [(2, 50), (3, 9_000), (4, 50), (5, 9_500), (6, 50)];
    let tickets: Vec<_> =
        wanted.map(|(sequence, more)| log.append(&entry(origin(1), sequence, more)).unwrap()).into();
    let stored: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().ok()).collect();
    assert_eq!(stored, [Some(Position(1)), None, Some(Position(2)), None, Some(Position(3))]);
    assert_eq!(sequences(log), [1, 2, 4, 6]);
}

#[test]
fn a_segment_that_cannot_be_ended_or_begun_takes_nothing_until_there_is_room() {
    let disk = Memory::default();
    let open = open(&disk, small());
    let log = open.log();
    let mut sequence = 0;
    // Until the next append has to begin a segment.
    while log.figures().bytes < 4 << 10 {
        sequence += 1;
        append(log, sequence..=sequence);
    }
    for room in [0, 100, 250] {
        disk.faults(Faults { room: Some(log.figures().bytes + room), ..Faults::default() });
        let refused = log.append(&entry(origin(1), sequence + 1, 0)).unwrap().wait();
        assert!(matches!(refused, Err(AppendError::Full(_))), "{refused:?}");
    }
    disk.faults(Faults::default());
    append(log, sequence + 1..=sequence + 100);
    assert_eq!(sequences(log), up_to(sequence + 100));
    drop(open);
    assert_eq!(sequences(super::tests::open(&disk, small()).log()), up_to(sequence + 100));
}

#[test]
fn short_writes_are_continued() {
    let disk = Memory::default();
    disk.faults(Faults { short: Some(7), ..Faults::default() });
    let open = open(&disk, small());
    append(open.log(), 1..=100);
    assert_eq!(sequences(open.log()), up_to(100));
}

#[test]
fn after_a_failed_synchronisation_nothing_is_taken_until_the_log_is_opened_again() {
    for (faults, what) in [
        (Faults { sync_fails_in: Some(0), ..Faults::default() }, "synchronisation"),
        (Faults { write_fails_in: Some(0), ..Faults::default() }, "write"),
    ] {
        let disk = Memory::default();
        let open = open(&disk, small());
        let log = open.log();
        append(log, 1..=5);
        disk.faults(faults);
        let failed = log.append(&entry(origin(1), 6, 50)).unwrap().wait().unwrap_err();
        assert!(matches!(failed, AppendError::Broken(_)), "{what}: {failed:?}");
        let refused = log.append(&entry(origin(1), 7, 50)).unwrap_err();
        assert!(refused.to_string().contains("opened again"), "{what}: {refused}");
        assert!(open.is_broken());
        assert_eq!(sequences(log), up_to(5), "{what}");
        drop(open);
        let again = super::tests::open(&disk, small());
        assert_eq!(sequences(again.log()), up_to(5), "{what}: what was not acknowledged is not there");
        append(again.log(), 6..=50);
        assert_eq!(sequences(again.log()), up_to(50));
    }
}

#[test]
fn what_was_acknowledged_survives_a_power_failure_whenever_it_comes() {
    for seed in 0..200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut disk = Memory::default();
        let (mut acknowledged, mut next) = (BTreeSet::new(), 1);
        for _ in 0..4 {
            let open = open(&disk, small());
            let log = open.log();
            let found = sequences(log);
            let set: BTreeSet<_> = found.iter().copied().collect();
            assert_eq!(set.len(), found.len(), "seed {seed}: twice");
            assert!(found.is_sorted(), "seed {seed}: order");
            assert!(
                set.is_superset(&acknowledged),
                "seed {seed}: {:?} are lost",
                acknowledged.difference(&set)
            );
            assert!(set.iter().all(|sequence| *sequence < next), "seed {seed}: made up");
            let mut tickets = Vec::new();
            for _ in 0..random.random_range(0..120) {
                tickets
                    .push((next, log.append(&entry(origin(1), next, random.random_range(0..400))).unwrap()));
                next += 1;
            }
            let waited = random.random_range(0..=tickets.len());
            for (sequence, ticket) in tickets.drain(..waited) {
                ticket.wait().unwrap();
                acknowledged.insert(sequence);
            }
            // The writer goes on meanwhile with what was not waited for.
            let crashed = disk.crash(&mut random);
            drop(open);
            disk = crashed;
        }
    }
}

#[test]
fn by_interval_the_disk_follows_in_time() {
    let disk = Memory::default();
    let open = open(&disk, LogSettings { sync: Sync::Interval(Duration::from_millis(20)), ..small() });
    append(open.log(), 1..=5);
    let (before, deadline) = (disk.syncs(), std::time::Instant::now() + Duration::from_secs(30));
    while disk.syncs() == before {
        assert!(std::time::Instant::now() < deadline, "it was never synchronised");
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = disk.crash(&mut ChaCha8Rng::seed_from_u64(1));
    assert_eq!(sequences(super::tests::open(&after, small()).log()), up_to(5));
}

#[test]
fn without_synchronisation_only_full_segments_are_sure() {
    let disk = Memory::default();
    let settings = LogSettings { sync: Sync::Never, ..small() };
    let open = open(&disk, settings.clone());
    append(open.log(), 1..=1);
    let before = disk.syncs();
    append(open.log(), 2..=10);
    assert_eq!(disk.syncs(), before);
    append(open.log(), 11..=60);
    let full = open.log().figures().segments - 1;
    assert!(full > 0);
    let after = disk.crash(&mut ChaCha8Rng::seed_from_u64(1));
    let again = super::tests::open(&after, settings);
    assert!(again.log().figures().segments >= full);
    assert!(up_to(60).starts_with(&sequences(again.log())));
}

#[test]
fn a_torn_end_is_cut_off_and_told() {
    let disk = Memory::default();
    let first = open(&disk, LogSettings::default());
    append(first.log(), 1..=20);
    let whole = {
        let mut whole = Vec::new();
        disk.change(&segment(0), |bytes| whole = bytes.clone());
        whole
    };
    std::mem::forget(first);
    let last = whole.len() - 100;
    for length in 40..whole.len() {
        let disk = disk.crash(&mut ChaCha8Rng::seed_from_u64(1));
        disk.change(&segment(0), |bytes| bytes.truncate(length));
        let open = super::tests::open(&disk, LogSettings::default());
        let found = sequences(open.log());
        assert!(up_to(20).starts_with(&found) && (length < last || found.len() >= 18), "{length}: {found:?}");
        match open.log().notices() {
            [] => {}
            [Notice::Cut { offset, bytes, .. }] => assert_eq!(offset + bytes, length as u64),
            other => panic!("{other:?}"),
        }
        append(open.log(), found.len() as u64 + 1..=found.len() as u64 + 3);
    }
    // Cut within the opening, which nothing can follow yet.
    for length in 0..40 {
        let disk = disk.crash(&mut ChaCha8Rng::seed_from_u64(1));
        disk.change(&segment(0), |bytes| bytes.truncate(length));
        let open = super::tests::open(&disk, LogSettings::default());
        assert_eq!((sequences(open.log()), open.log().notices().len()), (Vec::new(), 1));
        append(open.log(), 1..=3);
    }
}

#[test]
fn damage_before_the_end_is_refused_with_its_place_and_changes_nothing() {
    let disk = Memory::default();
    let first = open(&disk, LogSettings::default());
    append(first.log(), 1..=20);
    drop(first);
    let mut whole = Vec::new();
    disk.change(&segment(0), |bytes| whole = bytes.clone());
    for at in (40..whole.len() - 20).step_by(7) {
        let disk = disk.crash(&mut ChaCha8Rng::seed_from_u64(1));
        disk.change(&segment(0), |bytes| bytes[at] ^= 4);
        let error = try_open(&disk, LogSettings::default()).unwrap_err();
        let StoreError::Damaged(damage) = &error else { panic!("{error}") };
        assert!(damage.offset as usize <= at && at < damage.offset as usize + 200, "{at}: {damage}");
        let text = error.to_string();
        assert!(text.contains(&format!("at byte {}", damage.offset)) && text.contains("Restore"), "{text}");
        disk.change(&segment(0), |bytes| {
            bytes[at] ^= 4;
            assert_eq!(*bytes, whole, "nothing was written");
        });
    }
}

#[test]
fn a_damaged_full_segment_is_read_up_to_the_damage_and_behind_it() {
    let disk = Memory::default();
    let settings = LogSettings { segment_bytes: 40 << 10, ..LogSettings::default() };
    let open = open(&disk, settings.clone());
    append(open.log(), 1..=600);
    drop(open);
    disk.change(&segment(0), |bytes| bytes[5_000] ^= 1);
    let open = super::tests::open(&disk, settings);
    let log = open.log();
    let (mut from, mut found, mut damages) = (Position(0), 0, 0);
    while from < log.figures().end {
        match log.read(from, Most::default()) {
            Ok(batch) => {
                found += batch.records.len();
                from = batch.next;
            }
            Err(StoreError::Damaged(damage)) => {
                damages += 1;
                assert!((4_500..=5_000).contains(&damage.offset), "{damage}");
                from = damage.resume.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(damages, 1);
    assert!((600 - 128..600).contains(&found), "{found}");
}

#[test]
fn a_damaged_index_of_a_full_segment_is_made_anew() {
    let disk = Memory::default();
    let open = open(&disk, small());
    append(open.log(), 1..=100);
    drop(open);
    for from_end in [1, 7, 12, 40, 120] {
        disk.change(&segment(0), |bytes| {
            let at = bytes.len() - from_end;
            bytes[at] ^= 1;
        });
        let open = super::tests::open(&disk, small());
        let notices = open.log().notices();
        // What is farther from the end may be the index itself, which is looked at only when it is needed.
        assert!(from_end > 8 || matches!(notices, [Notice::Reindexed { .. }]), "{from_end}: {notices:?}");
        assert_eq!(sequences(open.log()), up_to(100));
        if notices.is_empty() {
            disk.change(&segment(0), |bytes| {
                let at = bytes.len() - from_end;
                bytes[at] ^= 1;
            });
        }
        assert!(open.log().find(origin(1), 3).unwrap().is_some());
    }
}

#[test]
fn segments_that_are_missing_misplaced_or_of_others_are_told() {
    let disk = Memory::default();
    let open = open(&disk, small());
    append(open.log(), 1..=200);
    let second = open.shared_first(1);
    let third = open.shared_first(2);
    drop(open);
    disk.remove(&segment(second)).unwrap();
    let stray = folder().join("notes.txt");
    disk.create(&stray).unwrap();
    let open = super::tests::open(&disk, small());
    let missing = Notice::Missing { channel: CHANNEL, first: second, last: third - 1 };
    let notices = open.log().notices();
    assert_eq!(notices.len(), 2);
    assert!(notices.contains(&missing) && notices.contains(&Notice::Ignored { file: stray }), "{notices:?}");
    assert_eq!(sequences(open.log()).len() as u64, 200 - (third - second));
    drop(open);
    let mut bytes = Vec::new();
    disk.change(&segment(third), |found| bytes = found.clone());
    let misplaced = disk.create(&segment(second)).unwrap();
    misplaced.write_at(&bytes, 0).unwrap();
    let error = try_open(&disk, small()).unwrap_err().to_string();
    assert!(
        error.contains(&format!("from position {third} on")) && error.contains("move it back"),
        "{error}"
    );
}

impl OpenLog {
    /// The first position of the nth full segment.
    fn shared_first(&self, nth: usize) -> u64 {
        lock(&self.log().shared.segments).full[nth].opening.first
    }
}

#[test]
fn a_segment_goes_when_all_of_it_is_covered_and_not_before() {
    let disk = Memory::default();
    let open = open(&disk, small());
    let log = open.log();
    append(log, 1..=200);
    let (second, before) = (open.shared_first(1), log.figures());
    let covered_to =
        |last: u64| move |_: Origin, range: Range| range.last.saturating_sub(last.max(range.first - 1));
    assert_eq!(log.trim(0, covered_to(second - 1)).unwrap(), Trimmed::default(), "one is missing");
    let trimmed = log.trim(0, covered_to(second)).unwrap();
    assert_eq!((trimmed.segments, trimmed.messages, trimmed.uncovered), (1, second, 0));
    assert_eq!(log.figures().begin, Position(second));
    assert_eq!(log.figures().bytes, before.bytes - trimmed.bytes);
    let batch = log.read(Position(0), Most::default()).unwrap();
    assert_eq!(batch.records[0].position, Position(second), "reading goes on with the oldest");
    assert_eq!(log.find(origin(1), 1).unwrap(), None);
    let rest = log.trim(0, |_, _| 0).unwrap();
    assert!(rest.segments > 1 && log.figures().segments == 1);
    append(log, 201..=400);
    assert_eq!(*sequences(log).last().unwrap(), 400);
    drop(open);
    let again = super::tests::open(&disk, small());
    assert!(again.log().notices().is_empty());
    assert_eq!(again.log().figures().end, Position(400));
}

#[test]
fn limits_of_size_and_age_remove_what_is_wanted_and_say_so() {
    let disk = Memory::default();
    let settings = LogSettings { max_bytes: Some(10_000), max_age: Some(Duration::from_secs(1)), ..small() };
    let open = open(&disk, settings);
    let log = open.log();
    append(log, 1..=300);
    let wanted = |_: Origin, range: Range| range.count();
    let trimmed = log.trim(1_300, wanted).unwrap();
    assert!(trimmed.uncovered == trimmed.messages && trimmed.messages > 100, "{trimmed:?}");
    assert!(log.figures().bytes <= 10_000);
    let left = sequences(log);
    assert_eq!(left, (trimmed.messages + 1..=300).collect::<Vec<_>>());
    // All of it is too old, also what is in the segment that is being written.
    let mut gone = 0;
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while gone < left.len() as u64 {
        assert!(std::time::Instant::now() < deadline, "{gone} of {} are gone", left.len());
        gone += log.trim(3_000, wanted).unwrap().uncovered;
    }
    assert_eq!((log.figures().bytes, log.figures().segments), (0, 0));
    append(log, 301..=302);
    assert_eq!(log.read(Position(0), Most::default()).unwrap().records[0].position, Position(300));
}

#[test]
fn a_thousand_readers_keep_a_few_files_open() {
    let disk = Memory::default();
    let open = open(&disk, small());
    let log = open.log();
    append(log, 1..=100);
    let before = disk.opened();
    let mut readers = vec![Position(0); 1_000];
    for _ in 0..10 {
        for reader in &mut readers {
            let batch = log.read(*reader, Most { messages: 10, bytes: 1 << 20 }).unwrap();
            *reader = batch.next;
        }
    }
    assert!(readers.iter().all(|reader| *reader >= Position(70)));
    assert!(disk.opened() - before < 100, "{} files were opened", disk.opened() - before);
}

#[test]
fn hostile_bytes_in_a_segment_never_panic() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let disk = Memory::default();
        let log = open(&disk, small());
        append(log.log(), 1..=random.random_range(1..60));
        drop(log);
        let files = disk.files();
        let file: &Path = &files[random.random_range(0..files.len())];
        disk.change(file, |bytes| {
            for _ in 0..random.random_range(1..4) {
                match random.random_range(0..4) {
                    0 => bytes.truncate(random.random_range(0..=bytes.len())),
                    1 => bytes.extend((0..random.random_range(0..200)).map(|_| random.random::<u8>())),
                    2 if !bytes.is_empty() => {
                        let at = random.random_range(0..bytes.len());
                        bytes[at] = random.random();
                    }
                    _ => {
                        let (from, to) =
                            (random.random_range(0..=bytes.len()), random.random_range(0..=bytes.len()));
                        let part = bytes[from.min(to)..from.max(to)].to_vec();
                        bytes.extend(part);
                    }
                }
            }
        });
        let Ok(open) = try_open(&disk, small()) else { continue };
        let log = open.log();
        let mut from = Position(0);
        while from < log.figures().end {
            from = match log.read(from, Most::default()) {
                Ok(batch) => batch.next,
                Err(StoreError::Damaged(Damage { resume: Some(resume), .. })) => resume,
                Err(error) => panic!("seed {seed}: {error}"),
            };
        }
        drop((log.held(), log.find(origin(1), 3)));
    }
}
