//! Disks that are full, fail, and lose power.

use super::*;

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
    assert_eq!(sequences(super::open(&disk, small()).log()), up_to(20));
}

/// Other brokers send a message once. What a full disk refuses comes as soon as there is room.
#[test]
fn regression_what_nobody_waits_for_is_appended_until_there_is_room() {
    let disk = Memory::default();
    let open = open(&disk, LogSettings::default());
    let (log, later) = (open.log(), Later::default());
    append(log, 1..=1);
    disk.faults(Faults { room: Some(log.figures().bytes + 100), ..Faults::default() });
    let wait = || log.append(&entry(origin(1), 9, 5_000)).unwrap().wait();
    assert!(later.append(log, entry(origin(2), 1, 5_000)));
    assert!(wait().is_err(), "the disk is full");
    later.again(log);
    assert!(wait().is_err() && sequences(log) == [1], "and still is");
    disk.faults(Faults::default());
    later.again(log);
    wait().unwrap();
    later.again(log);
    wait().unwrap();
    let mine: Vec<_> = all(log).into_iter().filter(|(from, _)| *from == origin(2)).collect();
    assert_eq!(mine, [(origin(2), 1)], "it is stored, and once");
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
    assert_eq!(sequences(super::open(&disk, small()).log()), up_to(sequence + 100));
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
        assert!(refused.to_string().contains("reopened"), "{what}: {refused}");
        assert!(open.is_broken());
        assert_eq!(sequences(log), up_to(5), "{what}");
        drop(open);
        let again = super::open(&disk, small());
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
fn regression_what_a_failed_synchronisation_left_is_written_again_before_it_counts() {
    let disk = Memory::default();
    let open = open(&disk, small());
    append(open.log(), 1..=5);
    // The broker is killed before it can cut off what it did not acknowledge.
    disk.faults(Faults { sync_fails_in: Some(0), no_cuts: true, ..Faults::default() });
    open.log().append(&entry(origin(1), 6, 1_500)).unwrap().wait().unwrap_err();
    drop(open);
    disk.faults(Faults::default());
    let open = super::open(&disk, small());
    assert_eq!(sequences(open.log()), up_to(6), "the system hands it out");
    append(open.log(), 7..=7);
    for seed in 0..20 {
        let after = disk.crash(&mut ChaCha8Rng::seed_from_u64(seed));
        assert_eq!(sequences(super::open(&after, small()).log()), up_to(7));
    }
}

#[test]
fn a_writer_that_dies_leaves_nobody_waiting() {
    let disk = Memory::default();
    let open = open(&disk, small());
    append(open.log(), 1..=5);
    disk.faults(Faults { panics: true, ..Faults::default() });
    let tickets = [6, 7, 8].map(|sequence| open.log().append(&entry(origin(1), sequence, 0)));
    assert!(tickets.into_iter().flatten().all(|ticket| ticket.wait().is_err()));
    while !open.is_broken() {
        std::thread::yield_now();
    }
    disk.faults(Faults::default());
    drop(open);
    let open = super::open(&disk, small());
    assert_eq!(sequences(open.log()), up_to(5));
    append(open.log(), 6..=9);
}
