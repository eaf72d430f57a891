//! Appending, and reading what was appended.

use super::*;

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
    let queue = super::super::queue::Queue::new(1_000);
    let long = queue.push(&entry(origin(1), 1, 5_000)).unwrap();
    assert!(
        matches!(queue.push(&entry(origin(1), 2, 0)), Err(AppendError::Busy(waiting)) if waiting > 5_000)
    );
    queue.refuse(AppendError::Closed);
    assert!(matches!(queue.push(&entry(origin(1), 3, 0)), Err(AppendError::Closed)));
    queue.fail(AppendError::Closed);
    assert!(matches!(long.wait(), Err(AppendError::Closed)));
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
    assert_eq!(sequences(super::open(&after, small()).log()), up_to(5));
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
    let again = super::open(&after, settings);
    assert!(again.log().figures().segments >= full);
    assert!(up_to(60).starts_with(&sequences(again.log())));
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
fn regression_appends_that_never_end_do_not_keep_the_disk_from_being_synchronised() {
    use super::super::queue::{Queue, Work};
    let queue = Queue::new(1_000);
    let _ticket = queue.push(&entry(origin(1), 1, 0)).unwrap();
    let due = std::time::Instant::now();
    assert!(matches!(queue.next(&mut Vec::new(), Some(due)), Work::Sync));
    queue.ask_to_roll();
    assert!(matches!(queue.next(&mut Vec::new(), None), Work::Roll));
    assert!(matches!(queue.next(&mut Vec::new(), None), Work::Write(batch) if batch.names.len() == 1));
    queue.refuse(AppendError::Closed);
    assert!(matches!(queue.next(&mut Vec::new(), None), Work::Close));
}
