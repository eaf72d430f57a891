//! Reading all records of a segment, to see what of it is sound.

use std::io;

use super::index::Index;
use super::window::Window;
use crate::store::disk::Handle;
use crate::store::format::{HEAD, Head, Kind, OPENING, Salt, parse_name};

/// The content of a segment without a usable summary.
#[derive(Debug)]
pub(super) struct Scan {
    /// The messages up to the first bad record.
    pub(super) index: Index,
    /// Where the sound records end; an index of the segment is none of them.
    pub(super) end: u32,
    /// How far the file was on disk when its last sound record was written.
    pub(super) synchronised: u32,
    /// The rest behind the sound records.
    pub(super) rest: Rest,
}

/// The rest of a segment behind its sound records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// A write that was not finished, of so many bytes.
    Torn(u64),
    /// A record that was on disk and is not as it was written.
    Damaged(&'static str),
}

/// A record in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) head: Head,
    pub(super) offset: u32,
}

impl Found {
    fn body(&self) -> u64 {
        u64::from(self.offset) + HEAD as u64
    }

    pub(super) fn end(&self) -> u32 {
        self.offset + HEAD as u32 + self.head.length
    }
}

/// Reads a whole segment.
pub(super) fn scan(handle: &dyn Handle, salt: Salt) -> io::Result<Scan> {
    let mut window = Window::new(handle, length(handle)?, usize::MAX);
    let mut scan = Scan { index: Index::default(), end: OPENING, synchronised: OPENING, rest: Rest::Nothing };
    while u64::from(scan.end) < window.end() {
        let why = match read(&mut window, salt, scan.end)? {
            Ok((found, body)) => match (found.head.kind, parse_name(body)) {
                (Kind::Message, Some((stamp, arrived_ms))) => {
                    let name = (stamp.origin, stamp.sequence);
                    scan.index.note(name, arrived_ms, found.offset, found.end());
                    scan.take(found);
                    continue;
                }
                (Kind::Closed, _) => {
                    scan.take(found);
                    continue;
                }
                // An index without a usable summary: the segment is not full yet.
                (Kind::Runs | Kind::Summary, _) => None,
                (Kind::Message, None) => Some("the message has no name"),
            },
            Err(why) => Some(why),
        };
        let bytes = window.end() - u64::from(scan.end);
        scan.rest = match why {
            Some(why) if is_older(&mut window, salt, scan.end)? => Rest::Damaged(why),
            _ => Rest::Torn(bytes),
        };
        break;
    }
    Ok(scan)
}

impl Scan {
    fn take(&mut self, found: Found) {
        self.end = found.end();
        self.synchronised = self.synchronised.max(found.head.synchronised);
    }
}

/// Whether something behind `offset` was written when what is there was on disk already.
fn is_older(window: &mut Window<'_>, salt: Salt, offset: u32) -> io::Result<bool> {
    let mut from = offset + 1;
    while let Some(found) = next_head(window, salt, from)? {
        if found.head.synchronised > offset {
            return Ok(true);
        }
        from = found.offset + 1;
    }
    Ok(false)
}

/// The next head at `from` or behind, whatever is between.
pub(super) fn next_head(window: &mut Window<'_>, salt: Salt, mut from: u32) -> io::Result<Option<Found>> {
    while let Some(bytes) = window.at(from.into(), HEAD)? {
        let found = bytes.first_chunk().and_then(|bytes| Head::parse(bytes, salt, from));
        if let Some(head) = found {
            return Ok(Some(Found { head, offset: from }));
        }
        let Some(next) = from.checked_add(1) else { break };
        from = next;
    }
    Ok(None)
}

/// The record at `offset`, or what is wrong with it.
pub(super) fn read<'a>(
    window: &'a mut Window<'_>,
    salt: Salt,
    offset: u32,
) -> io::Result<Result<(Found, &'a [u8]), &'static str>> {
    let Some(bytes) = window.at(offset.into(), HEAD)? else {
        return Ok(Err("the file ends within a record"));
    };
    let Some(head) = bytes.first_chunk().and_then(|bytes| Head::parse(bytes, salt, offset)) else {
        return Ok(Err("the header of a record is corrupt"));
    };
    let found = Found { head, offset };
    let Some(body) = window.at(found.body(), head.length as usize)? else {
        return Ok(Err("the file ends within a record"));
    };
    Ok(if head.has(body) { Ok((found, body)) } else { Err("a record is corrupt") })
}

/// The length of a file, as far as offsets reach.
pub(super) fn length(handle: &dyn Handle) -> io::Result<u64> {
    Ok(handle.len()?.min(u32::MAX.into()))
}
