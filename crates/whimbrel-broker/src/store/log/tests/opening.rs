//! Opening files that are torn, damaged, or not what they should be.

use super::*;

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
        let open = super::open(&disk, LogSettings::default());
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
        let open = super::open(&disk, LogSettings::default());
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
    let open = super::open(&disk, settings);
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
        let open = super::open(&disk, small());
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
    let open = super::open(&disk, small());
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
