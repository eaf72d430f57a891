//! Text chosen by a peer, displayed so that it cannot steer a terminal or pretend to be something else.

use std::fmt::{self, Write};

/// Text from the other end of a connection. Displayed (`{}` and `{:?}`), it is one line without control characters. Those,
/// and the characters that reorder or hide text, appear as escapes such as `\u{1b}`. [`PeerText::raw`] returns it unchanged.
///
/// ```
/// use whimbrel_proto::PeerText;
///
/// let text = PeerText::from("bye\x1b[2J");
/// assert_eq!(text.to_string(), r"bye\u{1b}[2J");
/// assert_eq!(text.raw(), "bye\x1b[2J");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PeerText(String);

impl PeerText {
    /// Returns the text as it arrived. Do not put it into a terminal, a log or a page without escaping it.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Displays any text in the same way.
    pub fn show(text: &str) -> impl fmt::Display + '_ {
        Shown(text)
    }

    /// Returns whether a character must be escaped: a control character, or one that reorders, hides or breaks the
    /// text around it.
    pub fn is_unsafe(character: char) -> bool {
        character.is_control()
            || matches!(character,
                '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}')
    }
}

struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match PeerText::is_unsafe(character) {
                true => write!(f, "{}", character.escape_unicode())?,
                false => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for PeerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

impl fmt::Debug for PeerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<&str> for PeerText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for PeerText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl PartialEq<str> for PeerText {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for PeerText {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_what_people_write_is_not() {
        let plain = "grüezi, 你好, שלום, \u{1f426} \\ \"so\"";
        assert_eq!(PeerText::from(plain).to_string(), plain);
        let hostile = "\x1b]0;owned\x07\x1b[2J\r\n\u{9b}31m\u{202e}txt\u{2066}\u{7f}\u{2028}\u{e0041}";
        let text = PeerText::from(hostile);
        for shown in [text.to_string(), format!("{text:?}")] {
            assert!(!shown.contains(PeerText::is_unsafe), "{}", shown.escape_debug());
        }
        assert_eq!(text.raw(), hostile);
    }
}
