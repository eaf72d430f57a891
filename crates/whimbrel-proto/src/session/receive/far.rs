//! Parts of a long message or byte stream that lie far beyond everything received of it.

use std::collections::BTreeMap;

use crate::session::account::held::of_map;

/// Segments by offset. Data that begins where a segment ends is appended to it.
#[derive(Debug, Default)]
pub(in crate::session) struct Far {
    segments: BTreeMap<u64, Vec<u8>>,
    /// Memory of the segments, bytes.
    bytes: usize,
}

impl Far {
    /// Returns the memory it takes, bytes.
    pub(in crate::session) fn memory(&self) -> u64 {
        size_of::<Self>() as u64 + self.bytes as u64 + of_map(self.segments.len(), size_of::<Vec<u8>>())
    }

    /// Returns the offset of the first segment.
    pub(in crate::session) fn first(&self) -> Option<u64> {
        self.segments.first_key_value().map(|(offset, _)| *offset)
    }

    /// Removes and returns the first segment.
    pub(in crate::session) fn pop(&mut self) -> Option<Vec<u8>> {
        let (_, bytes) = self.segments.pop_first()?;
        self.bytes -= bytes.capacity();
        Some(bytes)
    }

    /// Keeps a part. If it continues a segment, the segment grows.
    pub(in crate::session) fn insert(&mut self, offset: u64, bytes: &[u8]) {
        if let Some((start, segment)) = self.segments.range_mut(..=offset).next_back() {
            let end = start + segment.len() as u64;
            if let Some(known) = end.checked_sub(offset) {
                let before = segment.capacity();
                segment.extend_from_slice(bytes.get(known as usize..).unwrap_or_default());
                self.bytes += segment.capacity() - before;
                return;
            }
        }
        // There is no segment at this offset, or it would have been extended above.
        self.bytes += bytes.len();
        self.segments.insert(offset, bytes.to_vec());
    }

    /// Copies the bytes it has from `from` on into `copy`.
    pub(in crate::session) fn copy(&self, from: u64, copy: &mut [u8]) {
        let to = from + copy.len() as u64;
        for (start, segment) in self.segments.range(..to) {
            let (low, high) = (from.max(*start), to.min(start + segment.len() as u64));
            if low < high {
                copy[(low - from) as usize..(high - from) as usize]
                    .copy_from_slice(&segment[(low - start) as usize..(high - start) as usize]);
            }
        }
    }
}
