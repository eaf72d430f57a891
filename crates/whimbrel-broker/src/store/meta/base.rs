//! The database file.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, Error, ReadableDatabase, StorageError, TableError, WriteTransaction,
};
use whimbrel_pubsub::message::ChannelId;

use super::super::error::StoreError;
use super::super::format::Entry;
use super::error::MetaError;
use super::overlay::Overlay;
use super::session::FoundSession;
use super::state::State;
use super::tables;
use crate::store::format::parse_message;

/// The most memory that the database uses for its pages, bytes (8 MiB).
const CACHE: usize = 8 << 20;

/// The database, which is opened again after an error.
#[derive(Debug)]
pub(super) struct Base {
    file: PathBuf,
    database: Option<Database>,
}

impl Base {
    /// Opens or creates the database, and reads it.
    pub(super) fn open(file: &Path) -> Result<(Self, State), MetaError> {
        let exists = file.try_exists().map_err(|error| StoreError::io(file, error))?;
        if !exists {
            create(file)?;
        }
        let state = look(file)?;
        let mut base = Self { file: file.to_owned(), database: None };
        base.database = Some(base.connect()?);
        Ok((base, state))
    }

    /// Reads the database, and changes nothing.
    pub(super) fn check(file: &Path) -> Result<(), MetaError> {
        look(file).map(drop)
    }

    /// Writes in one transaction, which is on disk when this returns. Nothing is changed if it fails.
    pub(super) fn write(
        &mut self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), Error>,
    ) -> Result<(), MetaError> {
        let database = self.take()?;
        let changed = database.begin_write().map_err(Error::from).and_then(|transaction| {
            change(&transaction)?;
            Ok(transaction.commit()?)
        });
        match changed {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            // It takes nothing after an error until it is opened again.
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The last values of a channel.
    pub(super) fn retained(&mut self, channel: ChannelId) -> Result<Vec<Entry>, MetaError> {
        let database = self.take()?;
        let read = database
            .begin_read()
            .map_err(Error::from)
            .and_then(|transaction| tables::retained(&transaction, channel))
            .map_err(|error| self.failed(error))?;
        self.database = Some(database);
        let entries: Option<_> = read.iter().map(|value| parse_message(value)).collect();
        entries.ok_or_else(|| MetaError::damaged(&self.file, "a last value in it cannot be read"))
    }

    /// All sessions.
    pub(super) fn sessions(&mut self) -> Result<Vec<FoundSession>, MetaError> {
        self.sessions_in(None)
    }

    /// A session.
    pub(super) fn session(&mut self, name: &[u8]) -> Result<Option<FoundSession>, MetaError> {
        Ok(self.sessions_in(Some(name))?.pop())
    }

    fn sessions_in(&mut self, name: Option<&[u8]>) -> Result<Vec<FoundSession>, MetaError> {
        let database = self.take()?;
        let read = database
            .begin_read()
            .map_err(Error::from)
            .and_then(|transaction| tables::sessions(&transaction, name))
            .map_err(|error| self.failed(error))?;
        self.database = Some(database);
        read.ok_or_else(|| MetaError::damaged(&self.file, "a session in it cannot be read"))
    }

    fn take(&mut self) -> Result<Database, MetaError> {
        match self.database.take() {
            Some(database) => Ok(database),
            None => self.connect(),
        }
    }

    fn connect(&self) -> Result<Database, MetaError> {
        let file = &self.file;
        let opened = catch_unwind(|| Builder::new().set_cache_size(CACHE).open(file));
        opened
            .map_err(|_| MetaError::damaged(&self.file, "it cannot be opened"))?
            .map_err(|error| self.failed(error.into()))
    }

    fn failed(&self, error: Error) -> MetaError {
        MetaError::Write { file: self.file.clone(), error: Arc::new(error) }
    }
}

/// Creates a database. It gets its name when it is whole.
fn create(file: &Path) -> Result<(), MetaError> {
    let draft = file.with_extension("redb.part");
    let failed = |error: Error| MetaError::Write { file: file.to_owned(), error: Arc::new(error) };
    let made = fresh(&draft).and_then(|()| Ok(fs::rename(&draft, file)?)).and_then(|()| keep_name(file));
    made.map_err(|error| {
        fs::remove_file(&draft).ok();
        failed(error)
    })
}

fn fresh(draft: &Path) -> Result<(), Error> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    crate::store::disk::private(&mut options);
    let database = Builder::new().create_with_backend(FileBackend::new(options.open(draft)?)?)?;
    let transaction = database.begin_write()?;
    tables::create(&transaction)?;
    Ok(transaction.commit()?)
}

fn keep_name(file: &Path) -> Result<(), Error> {
    match file.parent() {
        Some(folder) if cfg!(unix) => Ok(File::open(folder)?.sync_all()?),
        _ => Ok(()),
    }
}

/// Reads a database without changing it, every page with its checksum.
fn look(file: &Path) -> Result<State, MetaError> {
    let opened = File::open(file).map_err(|error| StoreError::io(file, error))?;
    let length = opened.metadata().map_err(|error| StoreError::io(file, error))?.len();
    if length == 0 {
        return Err(MetaError::damaged(file, "it is empty"));
    }
    let overlay = Overlay::new(opened).map_err(|error| StoreError::io(file, error))?;
    // The library panics over some damage.
    let read = catch_unwind(AssertUnwindSafe(|| read(overlay)));
    match read {
        Err(_) => Err(MetaError::damaged(file, "its pages contradict each other")),
        Ok(Err(Error::Io(error)))
            if error.kind() != std::io::ErrorKind::InvalidData
                && error.kind() != std::io::ErrorKind::UnexpectedEof =>
        {
            Err(StoreError::io(file, error).into())
        }
        Ok(Err(error)) => Err(MetaError::damaged(file, error.to_string())),
        Ok(Ok(Found::Newer(version))) => {
            let (version, known) = (u16::try_from(version).unwrap_or(u16::MAX), tables::VERSION as u16);
            Err(StoreError::Newer { file: file.to_owned(), version, known }.into())
        }
        Ok(Ok(Found::Wrong(why))) => Err(MetaError::damaged(file, why)),
        Ok(Ok(Found::State(state))) => Ok(*state),
    }
}

enum Found {
    State(Box<State>),
    Newer(u64),
    Wrong(&'static str),
}

fn read(overlay: Overlay) -> Result<Found, Error> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
    let database = match builder.create_with_backend(overlay) {
        Err(DatabaseError::Storage(StorageError::Io(error))) => return Err(Error::Io(error)),
        opened => opened?,
    };
    let transaction = database.begin_read()?;
    let facts = match transaction.open_table(tables::FACTS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Found::Wrong("it is not a broker's database")),
        facts => facts?,
    };
    match facts.get(tables::FACT_VERSION)?.map(|version| version.value()) {
        Some(tables::VERSION) => {}
        Some(version) if version > tables::VERSION => return Ok(Found::Newer(version)),
        _ => return Ok(Found::Wrong("it has no version")),
    }
    Ok(match tables::load(&transaction)? {
        Ok(state) => Found::State(Box::new(state)),
        Err(why) => Found::Wrong(why),
    })
}
