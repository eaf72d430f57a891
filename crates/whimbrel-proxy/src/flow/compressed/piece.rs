//! The pieces of a compressed flow: each begins with a number, four times its length plus its kind.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::compress::MalformedCompression;

/// The longest piece.
pub(super) const LONGEST: usize = 128 * 1024;

/// The kind of a piece's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The program's.
    Plain,
    /// Compressed, by the same context as before.
    Packed,
    /// Compressed, by a new context.
    Fresh,
    /// The program's. The context is used no more. It may be empty.
    Last,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Plain, Self::Packed, Self::Fresh, Self::Last];

    fn lengths(self) -> RangeInclusive<usize> {
        usize::from(self != Self::Last)..=LONGEST
    }
}

/// Returns what a piece begins with.
pub(super) fn header(kind: Kind, length: usize) -> Vec<u8> {
    debug_assert!(kind.lengths().contains(&length), "a piece has this length");
    let kind = Kind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
    let number = (length * 4 + kind) as u32;
    // RFC 9000 section 16: the first two bits give the length.
    match number {
        0..0x40 => vec![number as u8],
        0x40..0x4000 => (number as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (number | 0x8000_0000).to_be_bytes().to_vec(),
    }
}

/// Reads what a piece begins with, a byte at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeaderReader {
    read: u32,
    bytes: usize,
    wants: usize,
}

impl HeaderReader {
    /// Takes a byte. Returns the kind and length of the piece after the last one.
    pub(super) fn take(&mut self, byte: u8) -> Result<Option<(Kind, usize)>, MalformedCompression> {
        if self.bytes == 0 {
            (self.read, self.wants) = (u32::from(byte & 0x3f), 1 << (byte >> 6));
        } else {
            self.read = self.read << 8 | u32::from(byte);
        }
        self.bytes += 1;
        if self.wants > 4 {
            return Err(MalformedCompression);
        }
        if self.bytes < self.wants {
            return Ok(None);
        }
        self.bytes = 0;
        let (kind, length) = (Kind::ALL[(self.read % 4) as usize], (self.read / 4) as usize);
        if kind.lengths().contains(&length) { Ok(Some((kind, length))) } else { Err(MalformedCompression) }
    }

    /// Returns whether it is between two pieces.
    pub(super) fn is_between(&self) -> bool {
        self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_small_pieces_have_small_ones() {
        for (length, size) in [(1, 1), (15, 1), (16, 2), (4_095, 2), (4_096, 4), (LONGEST, 4)] {
            for kind in Kind::ALL {
                let bytes = header(kind, length);
                assert_eq!(bytes.len(), size);
                let mut reader = HeaderReader::default();
                let read: Vec<_> = bytes.iter().map(|byte| reader.take(*byte).unwrap()).collect();
                assert_eq!(read.last(), Some(&Some((kind, length))));
                assert!(read[..size - 1].iter().all(Option::is_none) && reader.is_between());
            }
        }
    }

    #[test]
    fn the_end_of_a_context_may_be_empty() {
        let mut reader = HeaderReader::default();
        assert_eq!(reader.take(header(Kind::Last, 0)[0]), Ok(Some((Kind::Last, 0))));
    }

    #[test]
    fn pieces_that_are_empty_or_too_long_are_malformed() {
        for wrong in [&[0][..], &[1], &[2], &[0xc0], &[0xbf, 0xff, 0xff, 0xff], &[0x40, 0]] {
            let mut reader = HeaderReader::default();
            assert!(wrong.iter().any(|byte| reader.take(*byte).is_err()), "{wrong:?}");
        }
    }
}
