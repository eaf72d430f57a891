//! The types of which packets consist.

use super::reason::Fault;

/// Reads from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

const SHORT: &str = "the packet ends too early";

impl<'a> Cursor<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| Fault::malformed(SHORT))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes = self.take(N)?;
        Ok(std::array::from_fn(|at| bytes[at]))
    }

    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A number of 1 to 4 bytes.
    pub(super) fn variable(&mut self) -> Result<u32, Fault> {
        match variable(self.0)? {
            Some((number, length)) => {
                self.0 = &self.0[length..];
                Ok(number)
            }
            None => Err(Fault::malformed(SHORT)),
        }
    }

    pub(super) fn binary(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.u16()?;
        self.take(length.into())
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Fault> {
        let text = str::from_utf8(self.binary()?).map_err(|_| Fault::malformed("a string is not UTF-8"))?;
        if text.contains('\0') {
            return Err(Fault::malformed("a string has the character U+0000"));
        }
        Ok(text)
    }
}

/// The number at the front and its length in bytes; `None` if it is not whole yet.
pub(super) fn variable(bytes: &[u8]) -> Result<Option<(u32, usize)>, Fault> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        number |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            if at > 0 && *byte == 0 {
                return Err(Fault::malformed("a length has more bytes than it needs"));
            }
            return Ok(Some((number, at + 1)));
        }
    }
    if bytes.len() >= 4 { Err(Fault::malformed("a length has more than 4 bytes")) } else { Ok(None) }
}
