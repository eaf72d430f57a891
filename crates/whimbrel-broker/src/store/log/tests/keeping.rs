//! Tests of trimming: which segments stay, and which go.

use super::*;

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
    let again = super::open(&disk, small());
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
