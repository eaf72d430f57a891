//! The head of a record.

use super::limits::{HEAD, LONGEST_BODY};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::store) enum Kind {
    /// A message.
    Message = 1,
    /// The runs of a full segment.
    Runs = 2,
    /// The summary of a full segment, and its last record.
    Summary = 3,
    /// Everything before it is on disk. A log that is closed ends with it.
    Closed = 4,
}

/// Bytes by which a record is recognised while looking for one.
const MARK: [u8; 3] = *b"wbr";

/// A random number of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Salt(pub(in crate::store) u64);

impl Salt {
    /// A new one, from the keys that the standard library draws for its hash tables.
    pub(in crate::store) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(std::process::id()))
    }

    fn begin(self, offset: u32) -> u32 {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8..].copy_from_slice(&offset.to_le_bytes());
        crc32c::crc32c(&bytes)
    }
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Head {
    /// The kind of the record.
    pub(in crate::store) kind: Kind,
    /// The length of its body, bytes.
    pub(in crate::store) length: u32,
    /// How far the file was on disk when the record was written.
    pub(in crate::store) synchronised: u32,
    /// The checksum of the body.
    pub(in crate::store) sum: u32,
}

impl Head {
    /// The head of a record with this body.
    pub(in crate::store) fn of(kind: Kind, body: &[u8]) -> Self {
        Self { kind, length: body.len() as u32, synchronised: 0, sum: crc32c::crc32c(body) }
    }

    /// The head as it is in the file at `offset`.
    pub(in crate::store) fn encode(&self, salt: Salt, offset: u32) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[0] = self.kind as u8;
        out[1..4].copy_from_slice(&MARK);
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..12].copy_from_slice(&self.synchronised.to_le_bytes());
        out[12..16].copy_from_slice(&self.sum.to_le_bytes());
        let sum = crc32c::crc32c_append(salt.begin(offset), &out[..16]);
        out[16..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the head at `offset`; `None` if there is none.
    pub(in crate::store) fn parse(bytes: &[u8; HEAD], salt: Salt, offset: u32) -> Option<Self> {
        if bytes[1..4] != MARK {
            return None;
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if crc32c::crc32c_append(salt.begin(offset), &bytes[..16]) != word(16) {
            return None;
        }
        let kind = match bytes[0] {
            1 => Kind::Message,
            2 => Kind::Runs,
            3 => Kind::Summary,
            4 => Kind::Closed,
            _ => return None,
        };
        let head = Self { kind, length: word(4), synchronised: word(8), sum: word(12) };
        let is_possible = head.length as usize <= LONGEST_BODY && head.synchronised <= offset;
        is_possible.then_some(head)
    }

    /// Whether this is its body.
    pub(in crate::store) fn has(&self, body: &[u8]) -> bool {
        body.len() == self.length as usize && crc32c::crc32c(body) == self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_head_comes_back_at_its_place_only(salt: u64, offset: u32, body: Vec<u8>, bit in 0..HEAD * 8, elsewhere: u32) {
            let salt = Salt(salt);
            let head = Head { synchronised: offset / 2, ..Head::of(Kind::Message, &body) };
            let bytes = head.encode(salt, offset);
            prop_assert_eq!(Head::parse(&bytes, salt, offset), Some(head));
            prop_assert!(head.has(&body));
            if elsewhere != offset {
                prop_assert_eq!(Head::parse(&bytes, salt, elsewhere), None);
            }
            prop_assert_eq!(Head::parse(&bytes, Salt(!salt.0), offset), None);
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Head::parse(&damaged, salt, offset), None);
        }

        #[test]
        fn any_bytes_are_refused_or_read_in_one_way(mut bytes: [u8; HEAD], salt: u64, offset: u32, is_near: bool) {
            if is_near {
                bytes[1..4].copy_from_slice(&MARK);
                let sum = crc32c::crc32c_append(Salt(salt).begin(offset), &bytes[..16]);
                bytes[16..].copy_from_slice(&sum.to_le_bytes());
            }
            if let Some(head) = Head::parse(&bytes, Salt(salt), offset) {
                prop_assert_eq!(head.encode(Salt(salt), offset), bytes);
            }
        }
    }
}
