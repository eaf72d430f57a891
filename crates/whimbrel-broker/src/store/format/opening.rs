//! The opening of a segment file.

use whimbrel_pubsub::message::ChannelId;

use super::head::Salt;
use super::limits::{OPENING, VERSION};

const MAGIC: &[u8; 12] = b"whimbrel-log";

/// How a segment file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Opening {
    /// The channel.
    pub(in crate::store) channel: ChannelId,
    /// The position of the first message.
    pub(in crate::store) first: u64,
    /// The salt that makes the segment's checksums its own.
    pub(in crate::store) salt: Salt,
}

/// Why a file does not begin as a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum OpeningError {
    Damaged,
    Newer(u16),
}

impl Opening {
    /// The opening as it is in the file.
    pub(in crate::store) fn encode(&self) -> [u8; OPENING as usize] {
        let mut out = [0; OPENING as usize];
        out[..12].copy_from_slice(MAGIC);
        out[12..14].copy_from_slice(&VERSION.to_le_bytes());
        out[16..20].copy_from_slice(&self.channel.0.to_le_bytes());
        out[20..28].copy_from_slice(&self.first.to_le_bytes());
        out[28..36].copy_from_slice(&self.salt.0.to_le_bytes());
        let sum = crc32c::crc32c(&out[..36]);
        out[36..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads an opening.
    pub(in crate::store) fn parse(bytes: &[u8]) -> Result<Self, OpeningError> {
        let bytes: &[u8; OPENING as usize] = bytes.first_chunk().ok_or(OpeningError::Damaged)?;
        let sum = crc32c::crc32c(&bytes[..36]).to_le_bytes();
        if !bytes.starts_with(MAGIC) || bytes[36..] != sum {
            return Err(OpeningError::Damaged);
        }
        let long = |at: usize| {
            let mut long = [0; 8];
            long.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(long)
        };
        match u16::from_le_bytes([bytes[12], bytes[13]]) {
            VERSION => {}
            newer if newer > VERSION => return Err(OpeningError::Newer(newer)),
            _ => return Err(OpeningError::Damaged),
        }
        let channel = ChannelId(u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]));
        Ok(Self { channel, first: long(20), salt: Salt(long(28)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_comes_back_and_damage_is_found() {
        let opening = Opening { channel: ChannelId(7), first: 1 << 40, salt: Salt(0x1234_5678_9abc_def0) };
        let whole = opening.encode();
        assert_eq!(Opening::parse(&whole), Ok(opening));
        for length in 0..whole.len() {
            assert_eq!(Opening::parse(&whole[..length]), Err(OpeningError::Damaged));
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Opening::parse(&damaged), Err(OpeningError::Damaged), "bit {bit}");
        }
        let mut newer = whole;
        newer[12] = 2;
        let sum = crc32c::crc32c(&newer[..36]);
        newer[36..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Opening::parse(&newer), Err(OpeningError::Newer(2)));
    }
}
