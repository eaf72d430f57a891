use std::borrow::Cow;

use whimbrel_pubsub::property::{MAX_NAME_LEN, RESERVED_WORDS, is_name_part, is_name_start};

use super::error::{SelectorFault, shown};
use super::number::{self, BadNumber, Number};

/// A word, number, string or sign, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    /// The number of bytes before it.
    pub(super) at: usize,
    /// The token as it stands in the text.
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    Name(&'a str),
    /// A word of the language, in capitals.
    Word(&'static str),
    Number(Number),
    /// The text between the quotes.
    Text(&'a str),
    /// One or two characters.
    Sign(&'static str),
    End,
}

/// The longest come first.
const SIGNS: [&str; 13] = ["<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "+", "-", "*", "/"];

/// Takes a text apart.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

type Outcome<'a> = Result<Token<'a>, (usize, SelectorFault)>;

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Takes the next token; at the end of the text, [`Kind::End`] again and again.
    pub(super) fn next(&mut self) -> Outcome<'a> {
        let rest = &self.text[self.at..];
        let rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        self.at = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(self.token(Kind::End, 0)) };
        if is_name_start(first) {
            return self.word(rest);
        }
        let is_fraction =
            |rest: &str| rest.starts_with('.') && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        if first.is_ascii_digit() || is_fraction(rest) {
            return self.number(rest);
        }
        if first == '\'' {
            return self.string(rest);
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => Ok(self.token(Kind::Sign(sign), sign.len())),
            None => Err((self.at, SelectorFault::Character { character: first, hint: hint(rest) })),
        }
    }

    fn token(&mut self, kind: Kind<'a>, len: usize) -> Token<'a> {
        let at = self.at;
        self.at += len;
        Token { kind, at, text: &self.text[at..self.at] }
    }

    fn word(&mut self, rest: &'a str) -> Outcome<'a> {
        let len = rest.find(|character| !is_name_part(character)).unwrap_or(rest.len());
        let name = &rest[..len];
        if len > MAX_NAME_LEN {
            return Err((self.at, SelectorFault::NameTooLong));
        }
        let word = RESERVED_WORDS.iter().find(|word| word.eq_ignore_ascii_case(name));
        Ok(self.token(word.map_or(Kind::Name(name), |word| Kind::Word(word)), len))
    }

    fn number(&mut self, rest: &'a str) -> Outcome<'a> {
        let len = number::len(rest);
        match number::parse(&rest[..len]) {
            Ok(number) => Ok(self.token(Kind::Number(number), len)),
            Err(BadNumber::Malformed) => Err((self.at, SelectorFault::BadNumber)),
            Err(BadNumber::TooLarge) => Err((self.at, SelectorFault::NumberTooLarge)),
            Err(BadNumber::TooSmall) => Err((self.at, SelectorFault::NumberTooSmall)),
        }
    }

    fn string(&mut self, rest: &'a str) -> Outcome<'a> {
        let mut from = 1;
        while let Some(quote) = rest[from..].find('\'').map(|at| from + at) {
            if !rest[quote + 1..].starts_with('\'') {
                return Ok(self.token(Kind::Text(&rest[1..quote]), quote + 1));
            }
            from = quote + 2;
        }
        Err((self.at, SelectorFault::OpenString))
    }
}

/// Returns a hint for a person who writes an operator of another language.
fn hint(rest: &str) -> &'static str {
    match rest.as_bytes() {
        [b'!', b'=', ..] => ": write <> for 'not equal'",
        [b'!', ..] => ": write NOT",
        [b'"', ..] => ": strings stand in single quotes (')",
        [b'&', b'&', ..] => ": write AND",
        [b'|', b'|', ..] => ": write OR",
        [b'.', ..] => ": names of properties have no dot",
        [b'%', ..] => ": there is no remainder",
        _ => "",
    }
}

/// The content of a string, where two quotes stand for one.
pub(super) fn unquoted(text: &str) -> Cow<'_, str> {
    if text.contains('\'') { text.replace("''", "'").into() } else { text.into() }
}

impl Token<'_> {
    /// The token for a message.
    pub(super) fn shown(&self) -> Box<str> {
        if self.kind == Kind::End { "the end".into() } else { shown(self.text) }
    }
}
