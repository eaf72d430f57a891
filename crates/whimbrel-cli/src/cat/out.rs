//! Standard output: the peer's data, unchanged for a program, and safe to look at on a terminal.

use std::io::{self, IsTerminal, Write};
use std::str::from_utf8;

use whimbrel::PeerText;

/// Standard output. On a terminal, control characters are shown escaped; pipe the output to get them unchanged.
pub(super) struct Out {
    is_terminal: bool,
    /// The first bytes of a character whose rest has not arrived.
    begun: Vec<u8>,
}

impl Out {
    pub(super) fn standard() -> Self {
        Self::new(io::stdout().is_terminal())
    }

    fn new(is_terminal: bool) -> Self {
        Self { is_terminal, begun: Vec::new() }
    }

    /// Writes the bytes received. An incomplete character at their end is written with the next bytes.
    pub(super) fn write(&mut self, out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        if !self.is_terminal {
            return out.write_all(bytes);
        }
        let mut held = std::mem::take(&mut self.begun);
        held.extend_from_slice(bytes);
        let mut rest = &held[..];
        while let Err(error) = from_utf8(rest) {
            let (text, behind) = rest.split_at(error.valid_up_to());
            show(out, from_utf8(text).unwrap_or_default())?;
            let Some(length) = error.error_len() else {
                self.begun = behind.to_vec();
                return Ok(());
            };
            show_bytes(out, &behind[..length])?;
            rest = &behind[length..];
        }
        show(out, from_utf8(rest).unwrap_or_default())
    }

    /// Writes an incomplete character, because nothing more belongs to it.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        show_bytes(out, &std::mem::take(&mut self.begun))
    }
}

fn show(out: &mut impl Write, text: &str) -> io::Result<()> {
    // Line ends and tabs only move the cursor forward, so they stay unescaped.
    text.split_inclusive(['\n', '\t']).try_for_each(|part| {
        let plain = part.trim_end_matches(['\n', '\t']);
        write!(out, "{}{}", PeerText::show(plain), &part[plain.len()..])
    })
}

fn show_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool, parts: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut shown) = (Out::new(is_terminal), Vec::new());
        parts.iter().for_each(|part| out.write(&mut shown, part).unwrap());
        out.end(&mut shown).unwrap();
        shown
    }

    #[test]
    fn a_terminal_is_not_steered_and_a_program_gets_all() {
        let hostile = "a\tb\n\n\x1b]0;owned\x07\r\u{9b}2J é\u{202e}".as_bytes();
        let wanted = r"a	b

\u{1b}]0;owned\u{7}\u{d}\u{9b}2J é\u{202e}";
        // The result is the same wherever the text is cut.
        for at in 0..hostile.len() {
            let (first, second) = hostile.split_at(at);
            assert_eq!(String::from_utf8(shown(true, &[first, second])).unwrap(), wanted);
            assert_eq!(shown(false, &[first, second]), hostile);
        }
        assert_eq!(shown(true, &[b"\xff\x9b2J\xc3", b"(\xe2\x80"]), br"\xff\x9b2J\xc3(\xe2\x80");
    }
}
