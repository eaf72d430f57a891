//! Reading a log forward.

use std::io;

use super::super::error::{Damage, StoreError};
use super::super::format::Entry;
use super::super::position::Position;
use super::core::Log;
use super::scan::read;
use super::segments::Place;
use super::window::Window;
use crate::locking::lock;
use crate::store::format::{Kind, parse_message};

/// The most that a batch holds. The first record is included whatever its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Messages. Default: 1,000.
    pub messages: usize,
    /// Bytes of records. Default: 256 KiB.
    pub bytes: usize,
}

impl Default for Most {
    fn default() -> Self {
        Self { messages: 1_000, bytes: 256 << 10 }
    }
}

/// Records in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The records. None at the end of the log.
    pub records: Vec<Record>,
    /// The position to continue from.
    pub next: Position,
}

/// A message in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub position: Position,
    /// The message, and what belongs to it.
    pub entry: Entry,
}

impl Log {
    /// Reads from `from` on. If what was there is gone, the batch begins with the oldest message behind it. Nothing stays open for a
    /// reader between two calls.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged at `from`. [`Damage::resume`] says where reading can go on.
    pub fn read(&self, from: Position, most: Most) -> Result<Batch, StoreError> {
        loop {
            let found = lock(&self.shared.segments).place(from.0);
            let Some((wanted, place)) = found else { return Ok(Batch { records: Vec::new(), next: from }) };
            let handle = match self.shared.handles.open(place.first, &place.file) {
                Ok(handle) => handle,
                // It was trimmed since it was found.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.shared.has(place.first) => {
                    continue;
                }
                Err(error) => return Err(StoreError::io(&place.file, error)),
            };
            if !self.shared.has(place.first) {
                // An open file would keep its space.
                self.shared.handles.forget(place.first);
                continue;
            }
            let mut window = Window::new(&*handle, place.end.into(), most.bytes);
            return fill(&mut window, &place, wanted, most);
        }
    }
}

/// Reads records from `wanted` on.
fn fill(window: &mut Window<'_>, place: &Place, wanted: u64, most: Most) -> Result<Batch, StoreError> {
    let mut batch = Batch { records: Vec::new(), next: Position(wanted) };
    let damaged = |offset: u32, why| {
        StoreError::Damaged(Damage {
            file: place.file.clone(),
            offset: offset.into(),
            why,
            resume: Some(Position(place.next_mark.max(wanted + 1))),
        })
    };
    let (mut offset, mut position, mut bytes) = (place.offset, place.position, 0_usize);
    while position < place.until && batch.records.len() < most.messages.max(1) {
        let (found, body) = match read(window, place.salt, offset) {
            Ok(Ok(record)) => record,
            // What is whole before the damage comes first.
            Ok(Err(_)) if !batch.records.is_empty() => break,
            Ok(Err(why)) => return Err(damaged(offset, why)),
            Err(error) => return Err(StoreError::io(&place.file, error)),
        };
        offset = found.end();
        if found.head.kind != Kind::Message {
            continue;
        }
        if position >= wanted {
            bytes += body.len();
            if bytes > most.bytes && !batch.records.is_empty() {
                break;
            }
            let Some(entry) = parse_message(body) else {
                return Err(damaged(found.offset, "the record is not a message"));
            };
            batch.records.push(Record { position: Position(position), entry });
            batch.next = Position(position + 1);
        }
        position += 1;
    }
    Ok(batch)
}
