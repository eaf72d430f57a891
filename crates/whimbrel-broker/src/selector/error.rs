use std::fmt;

use super::limits::{MAX_DEPTH, MAX_GAPPED, MAX_SELECTOR_LEN, MAX_STACK};

/// The most characters of a selector that a message about it repeats.
const SHOWN: usize = 40;

/// A text is no selector: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError {
    fault: SelectorFault,
    position: usize,
    line: usize,
    column: usize,
}

/// The fault of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectorFault {
    /// It, or its normal form, is longer than [`MAX_SELECTOR_LEN`] bytes.
    TooLong,
    /// It is nested deeper than [`MAX_DEPTH`], or needs more values at a time than [`MAX_STACK`].
    TooDeep,
    /// Its patterns have more characters beside a `_` between two `%` than [`MAX_GAPPED`].
    TooCostly,
    /// Something else was expected.
    Unexpected {
        /// The tokens that could have come here.
        expected: &'static str,
        /// The token that came instead.
        found: Box<str>,
    },
    /// A character belongs to nothing in the language.
    Character {
        /// The character.
        character: char,
        /// A correction, if it can be guessed.
        hint: &'static str,
    },
    /// A string has no closing quote.
    OpenString,
    /// A number is not written as in Java.
    BadNumber,
    /// A number is too large.
    NumberTooLarge,
    /// A number is not zero, but too close to it.
    NumberTooSmall,
    /// No property has so long a name.
    NameTooLong,
    /// Types do not go together: the sentence says which.
    Types(&'static str),
    /// The escape character of a pattern stands before this one, or at the end.
    Escape(Option<char>),
    /// The text behind ESCAPE is not one character.
    NotOneCharacter,
}

impl SelectorError {
    /// An error at a byte of the text.
    pub(super) fn new(text: &str, position: usize, fault: SelectorFault) -> Self {
        let before = text.get(..position).unwrap_or(text);
        let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_begin..].chars().count() + 1;
        Self { fault, position, line, column }
    }

    /// Returns the fault.
    #[must_use]
    pub fn fault(&self) -> &SelectorFault {
        &self.fault
    }

    /// Returns the place of the fault: the number of bytes before it.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the line of the fault, from 1 on.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column of the fault in characters, from 1 on.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

/// Cuts what a message repeats.
pub(super) fn shown(text: &str) -> Box<str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 1 {
            write!(f, "selector, line {}, column {}: ", self.line, self.column)?;
        } else {
            write!(f, "selector, column {}: ", self.column)?;
        }
        match &self.fault {
            SelectorFault::TooLong => {
                write!(f, "a selector has at most {MAX_SELECTOR_LEN} bytes, also in its normal form")
            }
            SelectorFault::TooDeep => {
                write!(
                    f,
                    "the nesting is too deep: at most {MAX_DEPTH} levels and {MAX_STACK} values at a time"
                )
            }
            SelectorFault::TooCostly => {
                write!(f, "the patterns have more than {MAX_GAPPED} characters beside a _ between two %")
            }
            SelectorFault::Unexpected { expected, found } => write!(f, "expected {expected}, found {found}"),
            SelectorFault::Character { character, hint } => {
                write!(f, "{character:?} is not understood{hint}")
            }
            SelectorFault::OpenString => {
                write!(f, "the string has no closing quote ('); inside it, write '' for one")
            }
            SelectorFault::BadNumber => write!(f, "this is not a number"),
            SelectorFault::NumberTooLarge => write!(f, "the number is too large"),
            SelectorFault::NumberTooSmall => write!(f, "the number is too close to zero"),
            SelectorFault::NameTooLong => write!(f, "a property name cannot be that long"),
            SelectorFault::Types(sentence) => f.write_str(sentence),
            SelectorFault::Escape(Some(character)) => {
                write!(f, "the escape character stands before {character:?}; it escapes %, _ and itself only")
            }
            SelectorFault::Escape(None) => write!(f, "the pattern ends with its escape character"),
            SelectorFault::NotOneCharacter => write!(f, "ESCAPE needs one character, as in ESCAPE '!'"),
        }
    }
}

impl std::error::Error for SelectorError {}
