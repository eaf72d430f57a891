//! A file that can be read, and seems to be written to.
//!
//! A database repairs itself when it is opened after a crash. Whether it is sound shows only then, and a damaged one must stay as it is. So it
//! is first opened through this.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use crate::store::disk::read_full;

const PAGE: u64 = 4_096;

/// A file with changes that stay in memory.
#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// As far as the file counts: less than its length after it was cut.
    beneath: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, changes: Mutex::new(Changes { length, beneath: length, pages: BTreeMap::new() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it is now; zeros beyond the end.
    fn page(&self, changes: &Changes, page: u64) -> io::Result<Vec<u8>> {
        if let Some(changed) = changes.pages.get(&page) {
            return Ok(changed.clone());
        }
        let mut bytes = vec![0; PAGE as usize];
        let beneath = changes.beneath.saturating_sub(page * PAGE).min(PAGE) as usize;
        read_full(&self.file, &mut bytes[..beneath], page * PAGE)?;
        Ok(bytes)
    }
}

/// The parts of `length` bytes at `offset`: page, place in the page, place in the bytes, and length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let part = (PAGE as usize - within).min(length - done);
        let found = (part > 0).then_some((at / PAGE, within, done, part));
        done += part;
        found
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.lock();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > changes.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, from, length) in parts(offset, out.len()) {
            let bytes = self.page(&changes, page)?;
            out[from..from + length].copy_from_slice(&bytes[within..within + length]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.lock();
        if length < changes.length {
            changes.beneath = changes.beneath.min(length);
            changes.pages.split_off(&length.div_ceil(PAGE));
            if let Some(last) = changes.pages.get_mut(&(length / PAGE)) {
                last[(length % PAGE) as usize..].fill(0);
            }
        }
        changes.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.lock();
        for (page, within, from, length) in parts(offset, data.len()) {
            let mut bytes = self.page(&changes, page)?;
            bytes[within..within + length].copy_from_slice(&data[from..from + length]);
            changes.pages.insert(page, bytes);
        }
        changes.length = changes.length.max(offset.saturating_add(data.len() as u64));
        Ok(())
    }
}
