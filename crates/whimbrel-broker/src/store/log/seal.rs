//! The end of a full segment: its index, its summary, and where that is.

use std::io;

use super::index::Index;
use crate::store::disk::{Handle, read_full};
use crate::store::format::{HEAD, Head, Kind, LONGEST_BODY, Salt, Summary};

/// The length of the trailer: the offset of the summary and a checksum.
const TRAILER: u64 = 8;

/// The end of a segment whose messages end at `offset` and are on disk. Returns also the summary in it.
pub(super) fn encode(salt: Salt, index: &Index, offset: u32) -> (Summary, Vec<u8>) {
    let summary = index.finish(offset);
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, kind: Kind, body: &[u8]| {
        let head = Head { synchronised: offset, ..Head::of(kind, body) };
        out.extend_from_slice(&head.encode(salt, offset + out.len() as u32));
        out.extend_from_slice(body);
    };
    put(&mut out, Kind::Runs, &index.encode_runs());
    let at = offset + out.len() as u32;
    put(&mut out, Kind::Summary, &summary.encode());
    out.extend_from_slice(&trailer(salt, at));
    (summary, out)
}

/// Reads the summary of a segment; `None` if it has none, or none that is whole.
pub(super) fn read(handle: &dyn Handle, salt: Salt) -> io::Result<Option<Summary>> {
    let length = handle.len()?;
    let Some(end) = length.checked_sub(TRAILER) else { return Ok(None) };
    let mut bytes = [0; TRAILER as usize];
    read_full(handle, &mut bytes, end)?;
    let offset = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if trailer(salt, offset) != bytes {
        return Ok(None);
    }
    let Some(room) = end.checked_sub(u64::from(offset)).filter(|room| *room <= (HEAD + LONGEST_BODY) as u64)
    else {
        return Ok(None);
    };
    let mut record = vec![0; room as usize];
    let filled = read_full(handle, &mut record, offset.into())?;
    record.truncate(filled);
    let Some((head, body)) = record.split_first_chunk() else { return Ok(None) };
    let head = Head::parse(head, salt, offset);
    let is_whole = head.is_some_and(|head| head.kind == Kind::Summary && head.has(body));
    Ok(if is_whole { Summary::parse(body) } else { None })
}

fn trailer(salt: Salt, offset: u32) -> [u8; TRAILER as usize] {
    let mut out = [0; TRAILER as usize];
    out[..4].copy_from_slice(&offset.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&salt.0.to_le_bytes()), &out[..4]);
    out[4..].copy_from_slice(&sum.to_le_bytes());
    out
}
