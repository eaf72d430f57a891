//! MAX_STREAM_DATA (17), MAX_STREAMS (18): absolute limits that only grow (RFC 9000 4.1).

use super::{Malformed, Reader, Writer, block, varint_len};

/// A grant of credit by one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The sum of charges that one stream may reach.
    StreamData {
        /// The stream's id.
        stream: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The number of streams that the receiver of the block may have opened.
    Streams(u64),
}

impl Grant {
    /// Returns the length on the wire in bytes, type included.
    pub fn len(&self) -> usize {
        1 + match self {
            Self::Streams(limit) => varint_len(*limit),
            Self::StreamData { stream, limit } => varint_len(*stream) + varint_len(*limit),
        }
    }

    /// Always false.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the type and body.
    pub fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::StreamData { stream, limit } => {
                out.u8(block::MAX_STREAM_DATA);
                out.varint(*stream);
                out.varint(*limit);
            }
            Self::Streams(limit) => {
                out.u8(block::MAX_STREAMS);
                out.varint(*limit);
            }
        }
    }

    /// Reads the body of a block of type `kind`, which must be one of the two.
    pub fn read(kind: u8, reader: &mut Reader) -> Result<Self, Malformed> {
        match kind {
            block::MAX_STREAM_DATA => {
                Ok(Self::StreamData { stream: reader.varint()?, limit: reader.varint()? })
            }
            block::MAX_STREAMS => Ok(Self::Streams(reader.varint()?)),
            _ => Err(Malformed("credit: no such block")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::VARINT_MAX;

    proptest! {
        #[test]
        fn grants_round_trip(streams: bool, stream in 0..=VARINT_MAX, limit in 0..=VARINT_MAX) {
            let grant =
                if streams { Grant::Streams(limit) } else { Grant::StreamData { stream, limit } };
            let mut buf = Vec::new();
            grant.write(&mut Writer::new(&mut buf, 100));
            prop_assert_eq!(buf.len(), grant.len());
            let mut reader = Reader::new(buf.into());
            let kind = reader.u8().unwrap();
            prop_assert_eq!(Grant::read(kind, &mut reader), Ok(grant));
            prop_assert!(reader.is_empty());
        }
    }
}
