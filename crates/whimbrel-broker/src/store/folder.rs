//! The folder of a store.
//!
//! ```text
//! lock  meta.redb  log-CHANNEL/POSITION.seg
//! ```

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use whimbrel_pubsub::coverage::MOST_CHANNELS;
use whimbrel_pubsub::message::ChannelId;

use super::disk::{Disk, Real, create_private_folder, private};
use super::error::StoreError;
use super::log::Log;
use super::log::OpenLog;
use super::meta::{Meta, MetaError};
use super::settings::{LogSettings, StoreSettings};

/// The most logs of a store: as many as a coverage can speak of.
const MOST_LOGS: usize = MOST_CHANNELS;
/// The file whose lock a broker holds.
pub(super) const LOCK: &str = "lock";
/// The file of the database.
pub(super) const META: &str = "meta.redb";

/// A broker's store on disk. Dropping it writes what waits, and ends its threads.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    settings: StoreSettings,
    meta: Meta,
    logs: Mutex<BTreeMap<ChannelId, OpenLog>>,
    /// Held as long as the store is open.
    _lock: File,
}

impl Store {
    /// Opens a folder, which is created if it is missing. Logs are opened when they are asked for.
    ///
    /// # Errors
    /// The folder cannot be used, another process uses it, or the database is damaged or of a newer version. Nothing is changed then.
    pub fn open(folder: &Path, settings: StoreSettings) -> Result<Self, MetaError> {
        create_private_folder(folder).map_err(|error| StoreError::io(folder, error))?;
        let lock = lock(folder)?;
        let meta = Meta::open(&folder.join(META), settings.cursor_every)?;
        Ok(Self { folder: folder.to_owned(), settings, meta, logs: Mutex::default(), _lock: lock })
    }

    /// Returns the database.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the log of a channel. It is opened the first time, and again if it is broken. That reads the last segment, so it may take a while.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged or of a newer version. Other logs are not affected.
    pub fn log(&self, channel: ChannelId) -> Result<Log, StoreError> {
        self.log_with(channel, &self.settings.log)
    }

    /// Returns the log of a channel, as [`Store::log`], with settings of its own if it is not open yet.
    ///
    /// # Errors
    /// As there.
    pub fn log_with(&self, channel: ChannelId, settings: &LogSettings) -> Result<Log, StoreError> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = logs.get(&channel)
            && !open.is_broken()
        {
            return Ok(open.log().clone());
        }
        // One writer at a time.
        drop(logs.remove(&channel));
        if logs.len() == MOST_LOGS {
            return Err(StoreError::TooManyLogs(MOST_LOGS));
        }
        let folder = self.folder.join(format!("log-{}", channel.0));
        let disk: Arc<dyn Disk> = Arc::new(Real);
        let open = OpenLog::open(disk, folder, channel, settings.clone())?;
        let log = open.log().clone();
        logs.insert(channel, open);
        Ok(log)
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    private(&mut options);
    let file = options.open(&path).map_err(|error| StoreError::io(&path, error))?;
    try_lock(&file, folder)?;
    Ok(file)
}

/// Takes the lock of a folder, unless another process has it.
pub(super) fn try_lock(file: &File, folder: &Path) -> Result<(), StoreError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::InUse(folder.to_owned()),
        TryLockError::Error(error) => StoreError::io(&folder.join(LOCK), error),
    })
}
