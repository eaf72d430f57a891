//! The fields of a record of qlog, as JSON.

use std::fmt::{self, Display, Write};
use std::net::IpAddr;

/// Writes fields one after the other, separated by commas.
pub(super) struct Fields<'a> {
    text: &'a mut String,
    is_first: bool,
}

/// A value that needs no quotes in JSON, or is quoted and known to need no escapes.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Number(u64),
    Switch(bool),
    Word(&'static str),
}

impl<'a> Fields<'a> {
    pub(super) fn new(text: &'a mut String) -> Self {
        Self { text, is_first: true }
    }

    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.begin(name);
        // Writing to a string cannot fail.
        match value.into() {
            Value::Number(number) => write!(self.text, "{number}").ok(),
            Value::Switch(switch) => write!(self.text, "{switch}").ok(),
            Value::Word(word) => write!(self.text, "\"{word}\"").ok(),
        };
    }

    /// Writes a value as it is displayed, in quotes and escaped.
    pub(super) fn show(&mut self, name: &str, value: &impl Display) {
        self.begin(name);
        self.text.push('"');
        write!(Escaping(self.text), "{value}").ok();
        self.text.push('"');
    }

    fn begin(&mut self, name: &str) {
        let comma = if std::mem::replace(&mut self.is_first, false) { "" } else { "," };
        write!(self.text, "{comma}\"{name}\":").ok();
    }
}

/// Escapes what is written into a JSON string.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '"' | '\\' => {
                    self.0.push('\\');
                    self.0.push(letter);
                }
                letter if letter.is_control() => write!(self.0, "\\u{:04x}", u32::from(letter))?,
                letter => self.0.push(letter),
            }
        }
        Ok(())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(switch: bool) -> Self {
        Self::Switch(switch)
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

/// Displays a value that may not be there.
pub(super) struct Perhaps<T>(pub(super) Option<T>);

impl<T: Display> Display for Perhaps<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Displays this end's address of a path.
pub(super) struct ShownLocal(pub(super) Option<IpAddr>);

impl Display for ShownLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ip) => ip.fmt(f),
            None => f.write_str("any"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_stays_within_its_quotes() {
        let mut text = String::new();
        let mut fields = Fields::new(&mut text);
        fields.put("number", 7u64);
        fields.put("switch", true);
        fields.put("word", "plain");
        fields.show("text", &"a \"b\" \\ \n\u{1b}[2J ü");
        fields.show("none", &Perhaps(None::<u64>));
        assert_eq!(
            text,
            r#""number":7,"switch":true,"word":"plain","text":"a \"b\" \\ \u000a\u001b[2J ü","none":"none""#
        );
    }
}
