//! How a direction of a stream ends: RESET (19) and STOP (20), a byte stream's and early; END (26), a message stream's.

use super::{Malformed, Reader, Writer, block, varint_len};

/// An end of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The sender of the bytes gives up.
    Reset {
        /// Stream id.
        stream: u64,
        /// The application's code.
        code: u64,
        /// Bytes that count against credit.
        final_size: u64,
    },
    /// The receiver of the bytes asks for a RESET.
    Stop {
        /// Stream id.
        stream: u64,
        /// The application's code.
        code: u64,
    },
    /// All messages of the sender have arrived or been given up, and no more will come.
    End {
        /// Stream id.
        stream: u64,
        /// What they were charged.
        final_size: u64,
    },
}

impl StreamEnd {
    /// Bytes on the wire, type included.
    pub fn len(&self) -> usize {
        match self {
            Self::Reset { stream, code, final_size } => {
                1 + varint_len(*stream) + varint_len(*code) + varint_len(*final_size)
            }
            Self::Stop { stream, code } => 1 + varint_len(*stream) + varint_len(*code),
            Self::End { stream, final_size } => 1 + varint_len(*stream) + varint_len(*final_size),
        }
    }

    /// Never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes type and body.
    pub fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Reset { stream, code, final_size } => {
                out.u8(block::RESET);
                out.varint(*stream);
                out.varint(*code);
                out.varint(*final_size);
            }
            Self::Stop { stream, code } => {
                out.u8(block::STOP);
                out.varint(*stream);
                out.varint(*code);
            }
            Self::End { stream, final_size } => {
                out.u8(block::END);
                out.varint(*stream);
                out.varint(*final_size);
            }
        }
    }

    /// Reads the body of a block of type `kind`, one of the three.
    pub fn read(kind: u8, reader: &mut Reader) -> Result<Self, Malformed> {
        let (stream, second) = (reader.varint()?, reader.varint()?);
        match kind {
            block::RESET => Ok(Self::Reset { stream, code: second, final_size: reader.varint()? }),
            block::STOP => Ok(Self::Stop { stream, code: second }),
            block::END => Ok(Self::End { stream, final_size: second }),
            _ => Err(Malformed("stream end: no such block")),
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
        fn ends_round_trip(kind in 0..3, stream in 0..=VARINT_MAX, code in 0..=VARINT_MAX, final_size in 0..=VARINT_MAX) {
            let end = match kind {
                0 => StreamEnd::Reset { stream, code, final_size },
                1 => StreamEnd::Stop { stream, code },
                _ => StreamEnd::End { stream, final_size },
            };
            let mut buf = Vec::new();
            end.write(&mut Writer::new(&mut buf, 100));
            prop_assert_eq!(buf.len(), end.len());
            let mut reader = Reader::new(buf.into());
            let kind = reader.u8().unwrap();
            prop_assert_eq!(StreamEnd::read(kind, &mut reader), Ok(end));
            prop_assert!(reader.is_empty());
        }
    }
}
