//! Open files for reading, a bounded number of them.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::index::Runs;
use super::segments::Full;
use crate::locking::lock;
use crate::store::disk::{Disk, Handle, read_full};
use crate::store::format::{HEAD, Head, Kind, parse_runs};

/// The most files of a log that stay open for readers, however many read.
const MOST_OPEN: usize = 8;
/// The most indices of full segments that stay in memory.
const MOST_INDICES: usize = 4;

/// The open files and the indices that readers of a log share.
#[derive(Debug)]
pub(super) struct Handles {
    disk: Arc<dyn Disk>,
    open: Mutex<VecDeque<(u64, Arc<dyn Handle>)>>,
    indices: Mutex<VecDeque<(u64, Arc<Runs>)>>,
}

impl Handles {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, open: Mutex::default(), indices: Mutex::default() }
    }

    /// The segment whose first message has position `first`.
    pub(super) fn open(&self, first: u64, file: &Path) -> io::Result<Arc<dyn Handle>> {
        if let Some(found) = used(&mut lock(&self.open), first) {
            return Ok(found);
        }
        let handle = self.disk.open(file)?;
        keep(&mut lock(&self.open), MOST_OPEN, first, handle.clone());
        Ok(handle)
    }

    /// The index of a full segment; `None` if it is damaged.
    pub(super) fn index(&self, full: &Full) -> io::Result<Option<Arc<Runs>>> {
        let first = full.opening.first;
        if let Some(found) = used(&mut lock(&self.indices), first) {
            return Ok(Some(found));
        }
        let handle = self.open(first, &full.file)?;
        let Some(runs) = load(&*handle, full)? else { return Ok(None) };
        let runs = Arc::new(runs);
        keep(&mut lock(&self.indices), MOST_INDICES, first, runs.clone());
        Ok(Some(runs))
    }

    /// Forgets a segment.
    pub(super) fn forget(&self, first: u64) {
        lock(&self.open).retain(|(at, _)| *at != first);
        lock(&self.indices).retain(|(at, _)| *at != first);
    }
}

fn load(handle: &dyn Handle, full: &Full) -> io::Result<Option<Runs>> {
    let (summary, offset) = (&full.summary, full.summary.runs);
    let mut head = [0; HEAD];
    read_full(handle, &mut head, offset.into())?;
    let Some(head) = Head::parse(&head, full.opening.salt, offset).filter(|head| head.kind == Kind::Runs)
    else {
        return Ok(None);
    };
    let mut body = vec![0; head.length as usize];
    let filled = read_full(handle, &mut body, u64::from(offset) + HEAD as u64)?;
    if !head.has(&body[..filled]) {
        return Ok(None);
    }
    Ok(parse_runs(&body, summary.origins.len(), summary.messages).map(|runs| Runs::new(summary, runs)))
}

/// The value of `key`, which becomes the latest.
fn used<T: Clone>(kept: &mut VecDeque<(u64, T)>, key: u64) -> Option<T> {
    let at = kept.iter().position(|(at, _)| *at == key)?;
    let found = kept.remove(at)?;
    let value = found.1.clone();
    kept.push_back(found);
    Some(value)
}

fn keep<T>(kept: &mut VecDeque<(u64, T)>, most: usize, key: u64, value: T) {
    kept.retain(|(at, _)| *at != key);
    kept.push_back((key, value));
    if kept.len() > most {
        kept.pop_front();
    }
}
