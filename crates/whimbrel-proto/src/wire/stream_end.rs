//! The end of a stream's direction: RESET (19) and STOP (20) end a byte stream early, END (26) ends a message stream.

use super::{Malformed, Reader, Writer, block, varint_len};

/// The end of one direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The sender of a byte stream gives up.
    Reset {
        /// The stream's id.
        stream: u64,
        /// The application's code.
        code: u64,
        /// The number of bytes that count against credit.
        final_size: u64,
    },
    /// The receiver of a byte stream asks for a RESET.
    Stop {
        /// The stream's id.
        stream: u64,
        /// The application's code.
        code: u64,
    },
    /// All messages of the sender have arrived or were given up, and no more will follow.
    End {
        /// The stream's id.
        stream: u64,
        /// The sum of the charges of all messages.
        final_size: u64,
    },
}

impl StreamEnd {
    /// Returns the length on the wire in bytes, type included.
    pub fn len(&self) -> usize {
        match self {
            Self::Reset { stream, code, final_size } => {
                1 + varint_len(*stream) + varint_len(*code) + varint_len(*final_size)
            }
            Self::Stop { stream, code } => 1 + varint_len(*stream) + varint_len(*code),
            Self::End { stream, final_size } => 1 + varint_len(*stream) + varint_len(*final_size),
        }
    }

    /// Always false.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the type and body.
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

    /// Reads the body of a block of type `kind`, which must be one of the three.
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
