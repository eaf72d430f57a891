//! The database on a real file, which is damaged, old, new, and out of space.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::coverage::{Coverage, Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::fact::consequences;
use super::limits::{MOST_SUBSCRIPTIONS, MOST_TOMBSTONES_OF_OWNER};
use super::state::State;
use super::*;
use crate::durable::{Known, Life, Step};
use crate::store::testing::{Folder, entry, origin};

const CHANNEL: ChannelId = ChannelId(3);
/// Longer than a test: nothing is written late by itself.
const NEVER: Duration = Duration::from_secs(3_600);

fn name(text: &str) -> SubscriptionName {
    SubscriptionName::new(text).unwrap()
}

fn fish(generation: u64) -> DurableSubscription {
    DurableSubscription {
        name: name("fish"),
        owner: b"key".to_vec(),
        filter: "prices/#".to_owned(),
        selector: Some("sector = 'fish'".to_owned()),
        channels: vec![CHANNEL],
        generation,
        born: 0,
    }
}

fn range(first: u64, last: u64) -> Range {
    Range { first, last }
}

fn file(folder: &Folder) -> std::path::PathBuf {
    folder.0.join("meta.redb")
}

#[test]
fn all_is_there_again_after_a_start() {
    let folder = Folder::new("meta-again");
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    assert_eq!(meta.broker(BrokerId(7)).unwrap(), BrokerId(7));
    assert!(!meta.subscribe(&fish(1)).unwrap());
    assert_eq!(meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 40)).unwrap(), None);
    meta.cover(&name("fish"), CHANNEL, origin(1), range(50, 60)).unwrap();
    meta.cover(&name("fish"), ChannelId(9), origin(2), range(5, 5)).unwrap();
    meta.see(CHANNEL, origin(1), 77).unwrap();
    meta.see(CHANNEL, origin(1), 70).unwrap();
    meta.retain(CHANNEL, entry(origin(1), 9, 10));
    meta.retain(ChannelId(4), entry(origin(1), 10, 10));
    meta.subscribe(&DurableSubscription { name: name("other"), ..fish(5) }).unwrap();
    assert!(
        meta.unsubscribe(&name("other"), 5_000).unwrap() && !meta.unsubscribe(&name("other"), 1).unwrap()
    );
    let coverage = meta.coverage(&name("fish"));
    drop(meta);
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    assert_eq!(meta.broker(BrokerId(8)).unwrap(), BrokerId(7));
    assert_eq!(meta.subscriptions(), [Arc::new(fish(1))]);
    assert_eq!(meta.coverage(&name("fish")), coverage);
    assert_eq!(meta.seen(CHANNEL), [(origin(1), 77)]);
    assert_eq!(meta.retained(CHANNEL).unwrap(), [entry(origin(1), 9, 10)]);
    assert_eq!(meta.tombstone(&name("other")), Some(Tombstone { generation: 5, ends_ms: 5_000, born: 0 }));
    meta.release(CHANNEL, b"t/u");
    assert_eq!((meta.retained(CHANNEL).unwrap(), meta.retained(ChannelId(4)).unwrap().len()), (vec![], 1));
    meta.forget(CHANNEL, origin(1)).unwrap();
    assert!(
        meta.seen(CHANNEL).is_empty() && meta.coverage(&name("fish")).unwrap().of(ChannelId(9)).is_some()
    );
    assert_eq!((meta.expire(4_999).unwrap(), meta.expire(5_000).unwrap()), (0, 1));
    drop(meta);
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    assert_eq!((meta.seen(CHANNEL), meta.tombstone(&name("other"))), (vec![], None));
    assert_eq!(meta.uncovered(CHANNEL, origin(1), range(1, 40)), 40, "it was forgotten");
}

#[test]
fn what_a_client_waits_for_survives_a_crash_and_coverage_follows() {
    let folder = Folder::new("meta-crash");
    let copy = Folder::new("meta-crash-copy");
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    meta.subscribe(&fish(1)).unwrap();
    meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 40)).unwrap();
    // As a crash leaves it: the file as it is now.
    let crash = || {
        fs::copy(file(&folder), file(&copy)).unwrap();
        let meta = Meta::open(&file(&copy), NEVER).unwrap();
        (meta.subscription(&name("fish")).is_some(), meta.uncovered(CHANNEL, origin(1), range(1, 40)))
    };
    assert_eq!(crash(), (true, 40), "coverage is late");
    meta.flush().unwrap();
    assert_eq!(crash(), (true, 0));
}

#[test]
fn coverage_is_written_by_itself_in_time() {
    let folder = Folder::new("meta-late");
    let copy = Folder::new("meta-late-copy");
    let meta = Meta::open(&file(&folder), Duration::from_millis(20)).unwrap();
    meta.subscribe(&fish(1)).unwrap();
    meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 40)).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        assert!(std::time::Instant::now() < deadline, "it was never written");
        fs::copy(file(&folder), file(&copy)).unwrap();
        // A copy that was made while it was written may be refused.
        if Meta::open(&file(&copy), NEVER)
            .is_ok_and(|copy| copy.uncovered(CHANNEL, origin(1), range(1, 40)) == 0)
        {
            break;
        }
    }
}

/// The owner with the most gives way, on disk, too. What began anew meanwhile stays.
#[test]
fn regression_a_memory_that_gave_way_is_not_on_disk_and_takes_nothing_with_it() {
    let folder = Folder::new("meta-gave-way");
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    let life = Life { born: 7, generation: 1 };
    let ended = |at: usize| Fact::Ended {
        name: name(&format!("greedy/{at:04}")),
        life,
        left: Duration::from_secs(100 + at as u64),
    };
    let facts: Vec<_> = (0..MOST_TOMBSTONES_OF_OWNER).map(ended).collect();
    meta.learn(&facts, 1_000).unwrap();
    meta.learn(&[ended(5_000), ended(5_001)], 1_000).unwrap();
    assert_eq!(meta.tombstone(&name("greedy/0000")), None);
    // What would be the next to go is not taken, so that brokers do not tell it to each other for ever.
    meta.learn(&[ended(0)], 1_000).unwrap();
    assert_eq!(meta.tombstone(&name("greedy/0000")), None);
    let again = DurableSubscription { name: name("greedy/0001"), born: 9, ..fish(1) };
    meta.subscribe(&again).unwrap();
    drop(meta);
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    assert_eq!(meta.tombstone(&name("greedy/0000")), None);
    assert_eq!(meta.known(&name("greedy/0001")), Known::Alive(again.life()), "its birth stays");
    assert!(meta.tombstone(&name("greedy/5001")).is_some());
}

#[test]
fn generations_owners_and_selections_are_held_apart() {
    let folder = Folder::new("meta-rules");
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    meta.subscribe(&fish(3)).unwrap();
    meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 40)).unwrap();
    assert!(matches!(meta.subscribe(&fish(2)), Err(MetaError::Outdated { known: 3, .. })));
    let theirs = DurableSubscription { owner: b"else".to_vec(), ..fish(4) };
    assert!(matches!(meta.subscribe(&theirs), Err(MetaError::Owner(_))));
    assert!(!meta.subscribe(&fish(4)).unwrap());
    assert_eq!(meta.uncovered(CHANNEL, origin(1), range(1, 41)), 1, "the coverage stays");
    let other = DurableSubscription { selector: None, ..fish(5) };
    assert!(meta.subscribe(&other).unwrap());
    assert_eq!(meta.uncovered(CHANNEL, origin(1), range(1, 41)), 41, "another selection covers nothing");
    meta.unsubscribe(&name("fish"), 9).unwrap();
    assert!(matches!(meta.subscribe(&fish(5)), Err(MetaError::Outdated { known: 5, .. })));
    meta.subscribe(&fish(6)).unwrap();
    assert_eq!(meta.tombstone(&name("fish")), None);
    let nobody = name("nobody");
    assert!(matches!(meta.cover(&nobody, CHANNEL, origin(1), range(1, 1)), Err(MetaError::Unknown(_))));
    for bad in ["", "a\nb", &"x".repeat(256)] {
        assert!(SubscriptionName::new(bad).is_err());
    }
    let long = DurableSubscription { filter: "x".repeat(70_000), ..fish(7) };
    assert!(meta.subscribe(&long).unwrap_err().to_string().contains("70000 bytes"));
}

#[test]
fn a_message_is_wanted_until_every_subscription_of_its_channel_covers_it() {
    let folder = Folder::new("meta-wanted");
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    let all = range(1, 100);
    assert_eq!(meta.uncovered(CHANNEL, origin(1), all), 0, "nobody wants it");
    meta.subscribe(&fish(1)).unwrap();
    let elsewhere = DurableSubscription { name: name("elsewhere"), channels: vec![ChannelId(8)], ..fish(1) };
    meta.subscribe(&elsewhere).unwrap();
    meta.subscribe(&DurableSubscription { name: name("second"), ..fish(1) }).unwrap();
    meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 90)).unwrap();
    assert_eq!(meta.uncovered(CHANNEL, origin(1), all), 100);
    meta.cover(&name("second"), CHANNEL, origin(1), range(20, 95)).unwrap();
    assert_eq!(meta.uncovered(CHANNEL, origin(1), all), 19 + 10);
    assert_eq!(meta.uncovered(CHANNEL, origin(1), range(20, 90)), 0);
}

#[test]
fn a_damaged_database_is_refused_with_the_reason_and_never_written() {
    let folder = Folder::new("meta-damaged");
    let path = file(&folder);
    let meta = Meta::open(&path, NEVER).unwrap();
    meta.subscribe(&fish(1)).unwrap();
    meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 40)).unwrap();
    drop(meta);
    let whole = fs::read(&path).unwrap();
    let try_with = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let opened = Meta::open(&path, NEVER);
        let is_opened = opened.is_ok();
        if let Err(error) = &opened {
            let text = error.to_string();
            assert!(text.contains("meta.redb: ") && text.contains("move it away"), "{text}");
            assert!(fs::read(&path).unwrap() == bytes, "a refused database was changed");
        }
        is_opened
    };
    assert!(!try_with(b"") && !try_with(b"no database") && !try_with(&vec![0; 100_000]));
    assert!(!try_with(&whole[..whole.len() / 2]) && !try_with(&whole[..1_000]));
    let (mut refused, mut tried) = (0, 0);
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        tried += 1;
        refused += u32::from(!try_with(&damaged));
    }
    // Most pages of a small database are empty; what is opened has lost nothing.
    assert!(refused > 0, "none of {tried}");
    let needle = b"sector = 'fish'";
    let at = whole.windows(needle.len()).position(|bytes| bytes == needle).unwrap();
    let mut damaged = whole.clone();
    for copy in 0..whole.len() - needle.len() {
        if &whole[copy..copy + needle.len()] == needle {
            damaged[copy] ^= 1;
        }
    }
    assert_ne!(damaged[at], whole[at]);
    assert!(!try_with(&damaged), "a changed selector");
    assert!(try_with(&whole));
}

#[test]
fn a_newer_database_and_another_program_s_are_refused() {
    let folder = Folder::new("meta-newer");
    let path = file(&folder);
    drop(Meta::open(&path, NEVER).unwrap());
    let change = |version| {
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(tables::FACTS).unwrap().insert(tables::FACT_VERSION, version).unwrap();
        transaction.commit().unwrap();
    };
    change(2);
    let before = fs::read(&path).unwrap();
    let error = Meta::open(&path, NEVER).unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("update it"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
    fs::remove_file(&path).unwrap();
    drop(redb::Database::create(&path).unwrap());
    let error = Meta::open(&path, NEVER).unwrap_err().to_string();
    assert!(error.contains("not a broker's database"), "{error}");
}

#[test]
fn a_file_seems_to_be_written_and_is_not() {
    use redb::StorageBackend;
    let folder = Folder::new("meta-overlay");
    let path = folder.0.join("beneath");
    let beneath: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
    fs::write(&path, &beneath).unwrap();
    let overlay = overlay::Overlay::new(fs::File::open(&path).unwrap()).unwrap();
    let mut model = beneath.clone();
    let check = |model: &[u8]| {
        assert_eq!(overlay.len().unwrap(), model.len() as u64);
        let mut read = vec![0; model.len()];
        overlay.read(0, &mut read).unwrap();
        assert!(read == model);
        assert!(overlay.read(model.len() as u64, &mut [0]).is_err());
    };
    check(&model);
    overlay.write(4_000, &[1; 5_000]).unwrap();
    model[4_000..9_000].fill(1);
    check(&model);
    overlay.set_len(5_000).unwrap();
    overlay.set_len(12_000).unwrap();
    model.truncate(5_000);
    model.resize(12_000, 0);
    check(&model);
    overlay.write(11_999, &[7; 3]).unwrap();
    model.truncate(11_999);
    model.extend([7; 3]);
    check(&model);
    assert!(fs::read(&path).unwrap() == beneath);
}

#[test]
fn what_other_brokers_tell_survives_and_the_later_word_counts() {
    let folder = Folder::new("meta-facts");
    let told = |born, generation| DurableSubscription { born, ..fish(generation) };
    let covered = |life, range: Range| {
        let mut coverage = Coverage::default();
        coverage.entry(CHANNEL).unwrap().insert(origin(1), range).unwrap();
        Fact::Covered { name: name("fish"), life, selects: None, coverage }
    };
    let (first, second) = (told(10, 3), told(20, 1));
    {
        let meta = Meta::open(&file(&folder), NEVER).unwrap();
        let facts = [Fact::Kept(first.clone()), covered(first.life(), range(1, 5)), Fact::Kept(told(10, 2))];
        let steps = meta.learn(&facts, 1_000).unwrap();
        assert_eq!(
            steps,
            [Step::Begin(first.life()), Step::Keep, Step::Keep],
            "an older generation changes nothing"
        );
        meta.learn(&[covered(second.life(), range(1, 9))], 1_000).unwrap();
    }
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    assert_eq!(meta.known(&name("fish")), Known::Alive(first.life()));
    let ranges = |meta: &Meta| {
        let coverage = meta.coverage(&name("fish")).unwrap();
        coverage.of(CHANNEL).and_then(|coverage| coverage.of(origin(1))).cloned().unwrap_or_default()
    };
    assert_eq!(ranges(&meta), Ranges::of(range(1, 5)), "coverage of another life says nothing");
    assert_eq!(meta.facts_of(&name("fish"), 1_000).len(), 2);
    let left = Duration::from_secs(9);
    let ended = Fact::Ended { name: name("fish"), life: first.life(), left };
    let again = Fact::Kept(told(10, 9));
    meta.learn(&[ended.clone(), again], 1_000).unwrap();
    assert_eq!(meta.facts_of(&name("fish"), 1_000), [ended], "one that was away does not bring it back");
    drop(meta);
    let meta = Meta::open(&file(&folder), NEVER).unwrap();
    assert_eq!(meta.known(&name("fish")), Known::Ended(first.life()));
    meta.learn(&[Fact::Kept(second.clone())], 1_000).unwrap();
    assert_eq!(meta.known(&name("fish")), Known::Alive(second.life()));
    assert!(ranges(&meta).is_empty());
    assert_eq!(meta.names_after(None, 9), [name("fish")]);
    assert!(meta.names_after(Some(&name("fish")), 9).is_empty());
}

/// Both are known only by their subscribers' word, so their lives cannot be told apart.
#[test]
fn regression_of_two_with_one_name_the_same_stays_everywhere_with_its_own_coverage() {
    let fish = fish(1);
    let fowl = DurableSubscription { selector: Some("sector = 'fowl'".to_owned()), ..fish.clone() };
    assert!(fowl.selects() != fish.selects());
    let covered = |of: &DurableSubscription, range: Range| {
        let mut coverage = Coverage::default();
        coverage.entry(CHANNEL).unwrap().insert(origin(1), range).unwrap();
        Fact::Covered { name: name("fish"), life: of.life(), selects: Some(of.selects()), coverage }
    };
    for (ours, theirs) in [(&fish, &fowl), (&fowl, &fish)] {
        let folder = Folder::new("meta-rivals");
        let meta = Meta::open(&file(&folder), NEVER).unwrap();
        meta.subscribe(ours).unwrap();
        meta.cover(&name("fish"), CHANNEL, origin(1), range(1, 5)).unwrap();
        let facts = [Fact::Kept(theirs.clone()), covered(theirs, range(1, 3)), covered(ours, range(1, 7))];
        let steps = meta.learn(&facts, 1_000).unwrap();
        let is_anew = theirs.selector == fowl.selector;
        assert_eq!(steps[0], if is_anew { Step::Begin(theirs.life()) } else { Step::Keep });
        assert_eq!(meta.subscription(&name("fish")).unwrap().selector, fowl.selector);
        let left = meta.uncovered(CHANNEL, origin(1), range(1, 10));
        assert_eq!(left, if is_anew { 7 } else { 3 }, "coverage is of what is selected");
        let mine = |of: &DurableSubscription| {
            meta.cover_as((&name("fish"), of.selects()), CHANNEL, origin(1), range(1, 10))
        };
        assert!(mine(&fish).is_err() && mine(&fowl).is_ok());
    }
}

/// One that had been ended was kept beyond the limit, and then there was room for less than nothing.
#[test]
fn regression_a_full_store_keeps_no_more_that_others_tell() {
    let mut state = State::default();
    let kept = |text: &str, born| DurableSubscription { name: name(text), born, ..fish(1) };
    state.subscribe(&kept("ended", 1), false);
    state.unsubscribe(&name("ended"), Tombstone { generation: 1, ends_ms: 9, born: 1 });
    for at in 0..MOST_SUBSCRIPTIONS {
        state.subscribe(&kept(&at.to_string(), 1), false);
    }
    let told = [kept("ended", 2), kept("new", 2), kept("7", 2)];
    let facts = told.clone().map(Fact::Kept);
    let (steps, changes) = consequences(&state, &facts, 0);
    let begins = Step::Begin(told[2].life());
    assert_eq!(
        (steps, changes.len()),
        (vec![Step::Keep, Step::Keep, begins], 1),
        "it takes a former one's place"
    );
    // A database may have more, if the limit was higher.
    state.subscribe(&kept("one more", 1), false);
    assert_eq!(state.room(), 0);
    assert!(state.check(&kept("new", 1)).is_err());
}
