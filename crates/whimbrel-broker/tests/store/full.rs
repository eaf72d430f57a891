//! A disk that is full: publishers are refused, nothing acknowledged is lost, and it goes on when there is room.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use whimbrel_broker::store::{
    AppendError, DurableSubscription, LogSettings, Store, StoreSettings, SubscriptionName,
};
use whimbrel_pubsub::coverage::Range;
use whimbrel_testing::skipped;

use super::{CHANNEL, Folder, ORIGIN, again, command, entry, sequences};

const FOLDER: &str = "WHIMBREL_STORE_FULL";

fn subscription(nth: u32) -> DurableSubscription {
    DurableSubscription {
        name: SubscriptionName::new(&format!("nth {nth}")).unwrap(),
        owner: Vec::new(),
        filter: "x".repeat(60_000),
        selector: None,
        channels: vec![CHANNEL],
        generation: 1,
        born: 0,
    }
}

/// Runs in a mount namespace of its own.
#[test]
fn inside() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let disk = Path::new(&folder);
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(disk).status();
    assert!(mounted.unwrap().success());
    let log = LogSettings { segment_bytes: 64 << 10, ..LogSettings::default() };
    let settings = StoreSettings { log, ..StoreSettings::default() };
    let folder = disk.join("store");
    let store = Store::open(&folder, settings.clone()).unwrap();
    let log = store.log(CHANNEL).unwrap();
    let mut stored = Vec::new();
    let mut publish = |sequence: u64| {
        let outcome = log.append(&entry(sequence, 1_000)).unwrap().wait();
        if outcome.is_ok() {
            stored.push(sequence);
        }
        outcome.map(drop)
    };
    (1..=500).for_each(|sequence| publish(sequence).unwrap());
    store.meta().subscribe(&subscription(0)).unwrap();

    let ballast = disk.join("ballast");
    let mut file = File::create(&ballast).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
    let refusals: Vec<_> = (501..=900).filter_map(|sequence| publish(sequence).err()).collect();
    assert!(refusals.len() > 300, "{} were refused", refusals.len());
    for refusal in &refusals {
        assert!(matches!(refusal, AppendError::Full(_)), "{refusal}");
    }
    assert!(refusals[0].to_string().contains("free some space"), "{}", refusals[0]);
    // The database has some room of its own.
    let refused =
        (1..200).find_map(|nth| store.meta().subscribe(&subscription(nth)).err().map(|error| (nth, error)));
    let (refused, error) = refused.expect("the database takes no more");
    assert!(error.to_string().contains("meta.redb: the database cannot be written"), "{error}");
    assert!(store.meta().subscription(&subscription(refused).name).is_none());
    let range = Range { first: 1, last: 10 };
    let first = subscription(0).name;
    store.meta().cover(&first, CHANNEL, ORIGIN, range).unwrap();
    println!("{} refused, subscription {refused}, coverage {:?}", refusals.len(), store.meta().flush().err());

    std::fs::remove_file(&ballast).unwrap();
    drop(file);
    (901..=1_000).for_each(|sequence| publish(sequence).unwrap());
    store.meta().subscribe(&subscription(refused)).unwrap();
    store.meta().flush().unwrap();
    assert!(store.meta().trouble().is_none());
    assert_eq!(sequences(&log), stored);
    drop((log, store));
    let store = Store::open(&folder, settings).unwrap();
    assert_eq!(sequences(&store.log(CHANNEL).unwrap()), stored);
    assert_eq!(store.meta().subscriptions().len() as u32, refused + 1);
    assert_eq!(store.meta().coverage(&first).unwrap().of(CHANNEL).unwrap().next_gap(ORIGIN), 11);
}

#[test]
fn a_full_disk_refuses_publishers_and_loses_nothing() {
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return skipped("a mount namespace needs root and unshare");
    }
    let folder = Folder::new("store-full");
    let mut words = vec!["unshare".into(), "--mount".into(), "--propagation".into(), "private".into()];
    words.extend(again("full::inside"));
    let ended = command(words).env(FOLDER, &folder.0).output().unwrap();
    let (told, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    println!("{told}{errors}");
    assert!(ended.status.success() && told.contains("1 passed"));
}
