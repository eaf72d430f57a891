//! Salvage saves everything that can be read of a damaged segment.

use std::fs;
use std::path::PathBuf;

use whimbrel_broker::store::{Notice, Store, StoreError, StoreSettings, salvage};

use super::{CHANNEL, Folder, entry, sequences};

fn segment(folder: &Folder) -> PathBuf {
    folder.0.join(format!("log-{}/{:020}.seg", CHANNEL.0, 0))
}

#[test]
fn a_damaged_segment_is_refused_until_it_is_salvaged() {
    let folder = Folder::new("store-salvage");
    let store = Store::open(&folder.0, StoreSettings::default()).unwrap();
    let log = store.log(CHANNEL).unwrap();
    for sequence in 1..=100 {
        log.append(&entry(sequence, 100)).unwrap().wait().unwrap();
    }
    drop((log, store));
    let file = segment(&folder);
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();

    let store = Store::open(&folder.0, StoreSettings::default()).unwrap();
    let error = store.log(CHANNEL).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    drop(store);
    let saved = salvage(&file).unwrap();
    assert_eq!(saved.messages, 99);
    assert!(saved.lost_bytes > 100 && saved.lost_bytes < 400, "{saved:?}");
    assert_eq!(fs::read(&saved.former).unwrap(), bytes);

    let store = Store::open(&folder.0, StoreSettings::default()).unwrap();
    let log = store.log(CHANNEL).unwrap();
    assert_eq!(log.notices(), [] as [Notice; 0]);
    let found = sequences(&log);
    assert_eq!(found.len(), 99);
    log.append(&entry(101, 0)).unwrap().wait().unwrap();
    assert_eq!(sequences(&log).last(), Some(&101));
}

#[test]
fn what_is_no_segment_is_not_salvaged() {
    let folder = Folder::new("store-no-segment");
    let file = segment(&folder);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, [7; 1_000]).unwrap();
    let error = salvage(&file).unwrap_err().to_string();
    assert!(error.contains("move the file away"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), [7; 1_000]);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}
