//! A disk in memory that fills up, fails, and loses power.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rand::{Rng, RngExt};

use super::{Disk, Handle};

/// The unit in which a disk loses what was not synchronised.
const PAGE: usize = 512;

/// What is to go wrong. Counts are of calls from now on.
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
            Arc::new(Mutex::new(File { disk: bytes.clone(), bytes }))
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
    if file.bytes == file.disk {
        return file.bytes.clone();
    }
    let longest = file.bytes.len().max(file.disk.len());
    let length = if random.random() {
        file.bytes.len()
    } else {
        random.random_range(file.disk.len().min(file.bytes.len())..=longest)
    };
    let mut after = vec![0; length];
    for (nth, page) in after.chunks_mut(PAGE).enumerate() {
        let of = |bytes: &[u8]| -> Vec<u8> { bytes.iter().skip(nth * PAGE).take(PAGE).copied().collect() };
        let (new, old) = (of(&file.bytes), of(&file.disk));
        let taken = if new == old || random.random() { new } else { old };
        let taken = &taken[..taken.len().min(page.len())];
        page[..taken.len()].copy_from_slice(taken);
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
        self.file.lock().unwrap().bytes.resize(length as usize, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().unwrap().bytes.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.syncs += 1;
        if strikes(&mut inner.faults.sync_fails_in) {
            return Err(io::Error::other("a fault of the test"));
        }
        drop(inner);
        let mut file = self.file.lock().unwrap();
        file.disk = file.bytes.clone();
        Ok(())
    }
}
