//! A folder belongs to one store at a time, and logs in it to channels.

use whimbrel_broker::store::{MetaError, Store, StoreError, StoreSettings};
use whimbrel_pubsub::message::ChannelId;

use super::{CHANNEL, Folder, entry, sequences};

#[test]
fn a_folder_in_use_is_refused() {
    let folder = Folder::new("store-in-use");
    let store = Store::open(&folder.0, StoreSettings::default()).unwrap();
    let error = Store::open(&folder.0, StoreSettings::default()).unwrap_err();
    assert!(matches!(error, MetaError::Store(StoreError::InUse(_))), "{error}");
    assert!(error.to_string().contains("another broker uses this folder"));
    drop(store);
    Store::open(&folder.0, StoreSettings::default()).unwrap();
}

#[test]
fn each_channel_has_a_log_and_there_is_a_bound() {
    let folder = Folder::new("store-channels");
    let store = Store::open(&folder.0, StoreSettings::default()).unwrap();
    let (first, second) = (store.log(CHANNEL).unwrap(), store.log(ChannelId(2)).unwrap());
    first.append(&entry(1, 0)).unwrap().wait().unwrap();
    second.append(&entry(7, 0)).unwrap().wait().unwrap();
    assert_eq!(sequences(&store.log(CHANNEL).unwrap()), [1], "it is the same log");
    assert_eq!(sequences(&second), [7]);
    for channel in 3..=64 {
        store.log(ChannelId(channel)).unwrap();
    }
    assert!(matches!(store.log(ChannelId(65)), Err(StoreError::TooManyLogs(64))));
    drop(store);
    assert!(first.append(&entry(2, 0)).is_err(), "the store was closed");
    assert_eq!(sequences(&first), [1], "and can still be read");
}
