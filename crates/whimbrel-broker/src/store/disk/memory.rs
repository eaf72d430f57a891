//! A disk in memory that fills up, fails, and loses power.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rand::{Rng, RngExt};

use super::{Disk, Handle};

/// The unit in which a disk loses what was not synchronised.
const PAGE: usize = 512;

/// The faults to inject. Counts are of calls from now on.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Faults {
    /// The most bytes of all files. Default: no bound.
    pub(in crate::store) room: Option<u64>,
    /// Each write takes at most so many bytes.
    pub(in crate::store) short: Option<usize>,
    /// The so manieth next synchronisation fails.
    pub(in crate::store) sync_fails_in: Option<u32>,
    /// The so manieth next write fails.
    pub(in crate::store) write_fails_in: Option<u32>,
    /// A write panics, as no disk does.
    pub(in crate::store) panics: bool,
    /// No file can be cut.
    pub(in crate::store) no_cuts: bool,
}

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<PathBuf, Arc<Mutex<File>>>,
    /// The names that survive a power failure.
    kept: BTreeMap<PathBuf, Arc<Mutex<File>>>,
    faults: Faults,
    syncs: u64,
    opened: u64,
}

/// A file: as programs see it, and as it is on disk.
#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    disk: Vec<u8>,
    /// The pages that the next synchronisation writes. After one that failed they count as written, as on Linux.
    dirty: BTreeSet<usize>,
}

impl File {
    fn page(bytes: &[u8], page: usize) -> &[u8] {
        bytes.get(page * PAGE..).map_or(&[], |rest| &rest[..rest.len().min(PAGE)])
    }

    /// Writes a page to disk.
    fn put(disk: &mut [u8], page: usize, bytes: &[u8]) {
        if let Some(there) = disk.get_mut(page * PAGE..) {
            let length = there.len().min(bytes.len());
            there[..length].copy_from_slice(&bytes[..length]);
        }
    }

    fn synchronise(&mut self) {
        self.disk.resize(self.bytes.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            Self::put(&mut self.disk, page, Self::page(&self.bytes, page));
        }
    }
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Memory {
    inner: Arc<Mutex<Inner>>,
}

impl Memory {
    pub(in crate::store) fn faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// The number of synchronisations of files.
    pub(in crate::store) fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// The number of files that were opened.
    pub(in crate::store) fn opened(&self) -> u64 {
        self.lock().opened
    }

    /// Loses power: each page that was not synchronised is as it was, as it is, or as neither. Returns the disk afterwards.
    pub(in crate::store) fn crash(&self, random: &mut impl Rng) -> Self {
        let inner = self.lock();
        let after = |file: &Mutex<File>| {
            let file = file.lock().unwrap();
            let bytes = lose(&file, random);
            Arc::new(Mutex::new(File { disk: bytes.clone(), bytes, dirty: BTreeSet::new() }))
        };
        let mut after = after;
        let names: BTreeMap<_, _> =
            inner.kept.iter().map(|(path, file)| (path.clone(), after(file))).collect();
        Self { inner: Arc::new(Mutex::new(Inner { kept: names.clone(), names, ..Inner::default() })) }
    }

    /// The bytes of a file, to be looked at and changed behind the log's back.
    pub(in crate::store) fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.lock().names[path].clone();
        let mut file = file.lock().unwrap();
        change(&mut file.bytes);
        file.disk = file.bytes.clone();
        file.dirty.clear();
    }

    pub(in crate::store) fn files(&self) -> Vec<PathBuf> {
        self.lock().names.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn handle(&self, file: Arc<Mutex<File>>) -> Arc<dyn Handle> {
        Arc::new(Open { disk: self.clone(), file })
    }
}

fn lose(file: &File, random: &mut impl Rng) -> Vec<u8> {
    let (least, most) = (file.disk.len().min(file.bytes.len()), file.disk.len().max(file.bytes.len()));
    let length = if random.random() { file.bytes.len() } else { random.random_range(least..=most) };
    let mut after = file.disk.clone();
    after.resize(length, 0);
    for page in &file.dirty {
        if random.random() {
            File::put(&mut after, *page, File::page(&file.bytes, *page));
        }
    }
    after
}

impl Disk for Memory {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Handle>> {
        let mut inner = self.lock();
        if inner.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file: Arc<Mutex<File>> = Arc::default();
        inner.names.insert(path.to_owned(), file.clone());
        drop(inner);
        Ok(self.handle(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Handle>> {
        let mut inner = self.lock();
        inner.opened += 1;
        let file = inner.names.get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        drop(inner);
        Ok(self.handle(file))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock().names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.files().into_iter().filter(|path| path.parent() == Some(folder)).collect())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        inner.kept = inner.names.clone();
        Ok(())
    }
}

/// An open file of the disk.
#[derive(Debug)]
struct Open {
    disk: Memory,
    file: Arc<Mutex<File>>,
}

/// Counts a fault down. Returns whether it is there.
fn strikes(count: &mut Option<u32>) -> bool {
    match count {
        Some(0) => {
            *count = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

impl Handle for Open {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let is_panicking = self.disk.lock().faults.panics;
        assert!(!is_panicking, "a fault of the test");
        let mut inner = self.disk.lock();
        if strikes(&mut inner.faults.write_fails_in) {
            return Err(io::Error::other("a fault of the test"));
        }
        let used: u64 = inner.names.values().map(|file| file.lock().unwrap().bytes.len() as u64).sum();
        let mut file = self.file.lock().unwrap();
        let offset = offset as usize;
        let grows = (offset + bytes.len()).saturating_sub(file.bytes.len());
        let room = inner.faults.room.map_or(usize::MAX, |room| room.saturating_sub(used) as usize);
        let most = inner.faults.short.unwrap_or(usize::MAX);
        let taken = bytes.len().saturating_sub(grows.saturating_sub(room)).min(most);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let end = (offset + taken).max(file.bytes.len());
        file.bytes.resize(end, 0);
        file.bytes[offset..offset + taken].copy_from_slice(&bytes[..taken]);
        file.dirty.extend(offset / PAGE..(offset + taken).div_ceil(PAGE));
        Ok(taken)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = self.file.lock().unwrap();
        let there = file.bytes.get(offset as usize..).unwrap_or_default();
        let taken = there.len().min(bytes.len());
        bytes[..taken].copy_from_slice(&there[..taken]);
        Ok(taken)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if self.disk.lock().faults.no_cuts {
            return Err(io::Error::other("a fault of the test"));
        }
        let mut file = self.file.lock().unwrap();
        file.bytes.resize(length as usize, 0);
        file.dirty.retain(|page| page * PAGE < length as usize);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().unwrap().bytes.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.syncs += 1;
        let is_failing = strikes(&mut inner.faults.sync_fails_in);
        drop(inner);
        let mut file = self.file.lock().unwrap();
        if is_failing {
            file.dirty.clear();
            return Err(io::Error::other("a fault of the test"));
        }
        file.synchronise();
        Ok(())
    }
}
