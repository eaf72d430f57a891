//! Integers of variable length and checksums: what the crate's formats are made of.
//!
//! The parser takes any bytes. It never panics, and accepts one encoding of each value only.

mod checksum;

pub(crate) use checksum::{sealed, unsealed};

/// The bytes are not what they should be. Each format says more in its own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends `value`, seven bits a byte, the lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from the front of some bytes.
#[derive(Debug)]
pub struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the number of bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }

    /// Reads the next bytes, as an array.
    ///
    /// # Errors
    /// There are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// Reads the next byte.
    ///
    /// # Errors
    /// The input has ended.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads the next number.
    ///
    /// # Errors
    /// The input has no number, or one that is longer than necessary.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // A last byte of zero would be a second encoding of the same value.
                return if byte == 0 && shift > 0 { Err(Malformed) } else { Ok(value) };
            }
        }
        Err(Malformed)
    }

    /// Reads a number of at most `most`.
    ///
    /// # Errors
    /// The input has no number, or a larger one.
    pub fn number(&mut self, most: usize) -> Result<usize, Malformed> {
        let number = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        if number > most { Err(Malformed) } else { Ok(number) }
    }

    /// Reads bytes behind their length, which is at most `most`.
    ///
    /// # Errors
    /// The input has no such bytes, or they are longer.
    pub fn bytes(&mut self, most: usize) -> Result<&'a [u8], Malformed> {
        let length = self.number(most)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_comes_back(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut parser = Parser::new(&out);
            prop_assert_eq!(parser.varint(), Ok(value));
            prop_assert!(parser.is_empty());
        }

        #[test]
        fn any_bytes_have_one_reading(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut parser = Parser::new(&bytes);
            if let Ok(value) = parser.varint() {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                prop_assert_eq!(&out[..], &bytes[..parser.at()]);
            }
        }
    }
}
