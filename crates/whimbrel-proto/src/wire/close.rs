//! FIN, RST and ERROR (MMSP 3.2.7 to 3.2.11): the graceful and the abrupt end of a connection.

use super::{Malformed, Reader, Writer, block, varint_len};
use crate::{Cause, PeerText};

/// The longest reason text in bytes; a longer one is cut.
pub const MAX_REASON: usize = 256;

/// Why a connection ends, for programs and for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// The application's code; 0 if it gave none.
    pub code: u64,
    /// The text. It is the peer's, unless this end made it, and is escaped when displayed.
    pub text: PeerText,
}

/// Displays as ` (code 3): the text`, to follow a description of what happened. The text is escaped ([`PeerText`]).
impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.code != 0 {
            write!(f, " (code {})", self.code)?;
        }
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}

impl Reason {
    /// Creates a reason. Text beyond [`MAX_REASON`] bytes is cut at a character.
    pub fn new(code: u64, text: &str) -> Self {
        let mut end = text.len().min(MAX_REASON);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self { code: code.min(super::VARINT_MAX), text: text[..end].into() }
    }

    fn len(&self) -> usize {
        varint_len(self.code) + 2 + self.text.raw().len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.varint(self.code);
        out.varint(self.text.raw().len() as u64);
        out.bytes(self.text.raw().as_bytes());
    }

    fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        let code = reader.varint()?;
        let length = reader.varint()?;
        if length > MAX_REASON as u64 {
            return Err(Malformed("reason: too long"));
        }
        // The text is for people, so invalid UTF-8 is replaced and not refused.
        Ok(Self { code, text: String::from_utf8_lossy(&reader.bytes(length)?).into_owned().into() })
    }
}

/// Writes FIN if there is room. Returns whether there was.
pub fn write_fin(out: &mut Writer<'_>, reason: &Reason) -> bool {
    if out.remaining() < 1 + reason.len() {
        return false;
    }
    out.u8(block::FIN);
    reason.write(out);
    true
}

/// Reads what follows FIN's type byte.
pub fn read_fin(reader: &mut Reader) -> Result<Reason, Malformed> {
    Reason::read(reader)
}

/// Writes RST with one error cause if there is room. Returns whether there was.
pub fn write_rst(out: &mut Writer<'_>, cause: Cause, reason: &Reason) -> bool {
    if out.remaining() < 4 + reason.len() {
        return false;
    }
    out.u8(block::RST);
    out.varint(1);
    out.varint(cause as u64);
    reason.write(out);
    true
}

/// Reads what follows RST's type byte and returns the first cause; further ones are ignored.
pub fn read_rst(reader: &mut Reader) -> Result<(Cause, Reason), Malformed> {
    let count = reader.varint()?;
    let mut first = None;
    for _ in 0..count {
        let error = read_error(reader)?;
        first.get_or_insert(error);
    }
    Ok(first.unwrap_or((Cause::Unrecognized, Reason::default())))
}

/// Reads what follows ERROR's type byte.
pub fn read_error(reader: &mut Reader) -> Result<(Cause, Reason), Malformed> {
    Ok((Cause::from_code(reader.varint()?), Reason::read(reader)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let reason = Reason::new(7, "bye");
        let mut buf = Vec::new();
        assert!(write_fin(&mut Writer::new(&mut buf, 100), &reason));
        assert!(write_rst(&mut Writer::new(&mut buf, 100), Cause::Credit, &reason));
        let mut reader = Reader::new(buf.into());
        assert_eq!(reader.u8(), Ok(block::FIN));
        assert_eq!(read_fin(&mut reader), Ok(reason.clone()));
        assert_eq!(reader.u8(), Ok(block::RST));
        assert_eq!(read_rst(&mut reader), Ok((Cause::Credit, reason)));
        assert!(reader.is_empty());
    }

    #[test]
    fn words_of_the_peer_do_not_reach_a_terminal_as_they_are() {
        let reason = Reason::new(1, "\x1b]0;owned\x07\u{202e}");
        let shown = crate::CloseReason::Aborted(Cause::Application, reason).to_string();
        assert!(shown.ends_with(r" (code 1): \u{1b}]0;owned\u{7}\u{202e}"), "{}", shown.escape_debug());
    }

    #[test]
    fn a_huge_cause_count_ends_with_the_packet() {
        let mut buf = Vec::new();
        Writer::new(&mut buf, 8).varint(super::super::VARINT_MAX);
        assert!(read_rst(&mut Reader::new(buf.into())).is_err());
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let reason = Reason::new(0, &"é".repeat(200));
        assert_eq!(reason.text.raw().len(), 256);
        assert_eq!(Reason::new(0, &format!("a{}", "é".repeat(200))).text.raw().len(), 255);
    }
}
