//! Selectors: conditions on the properties of a message, by which a subscriber chooses among the messages of its topics.
//!
//! The language is that of JMS 2.0 (section 3.8), a subset of SQL-92: `price > 10 AND sector = 'fish'`. Its logic has three values. What
//! is said of an absent property is unknown, and only a selector that is true takes the message. docs/selectors.md is the page for
//! users, and it also says what was decided where JMS is silent.
//!
//! A text is parsed once, into a short program in postfix order. Evaluating runs it from left to right on a small stack: it
//! neither recurses nor allocates. The same program is read from left to right to print the selector, and to find out which values of a
//! property it implies ([`Reach`]).

mod arithmetic;
mod display;
mod error;
mod evaluate;
mod implied;
mod lexer;
mod like;
mod limits;
mod number;
mod parser;
mod program;
mod reach;
mod spans;

pub use error::{SelectorError, SelectorFault};
pub use limits::{MAX_DEPTH, MAX_GAPPED, MAX_LIKE_STEPS, MAX_SELECTOR_LEN, MAX_STACK};
pub use reach::Reach;
pub use spans::Span;

pub(crate) use spans::promoted;

use std::str::FromStr;

use program::Op;
use whimbrel_pubsub::property::Lookup;

/// The verdict of a selector on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// The message is taken.
    True,
    /// The message is not taken.
    False,
    /// It depends on a property that the message does not have. The message is not taken.
    Unknown,
}

/// A parsed selector.
///
/// [`Display`](std::fmt::Display) prints a normal form, which parses to an equal selector.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    ops: Box<[Op]>,
    /// The values that evaluating keeps at a time, at most [`MAX_STACK`].
    stack: usize,
}

impl Selector {
    /// Parses a text. One without any word takes every message, as `TRUE` does.
    ///
    /// # Errors
    /// The text is no selector: what is wrong, where, and what was expected.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parser::parse(text)
    }

    /// Returns whether a message is taken: whether the selector is true for it.
    #[must_use]
    pub fn matches(&self, message: &(impl Lookup + ?Sized)) -> bool {
        self.evaluate(message) == Truth::True
    }

    /// Returns what the selector says about a message.
    #[must_use]
    pub fn evaluate(&self, message: &(impl Lookup + ?Sized)) -> Truth {
        evaluate::evaluate(&self.ops, self.stack, message)
    }

    /// Returns the values that property `name` may have in a message for which the selector is true. It may allow more than these, never less.
    #[must_use]
    pub fn implied(&self, name: &str) -> Reach {
        implied::implied(&self.ops, name)
    }

    /// Returns the values that property `name` may have in a message for which the selector is false. It may allow more than these, never less.
    #[must_use]
    pub fn excluded(&self, name: &str) -> Reach {
        implied::excluded(&self.ops, name)
    }

    /// Returns the bytes of memory that the selector takes, about.
    #[must_use]
    pub fn held(&self) -> usize {
        self.ops.iter().map(|op| size_of::<Op>() + op.held()).sum()
    }

    /// Returns the properties that the selector reads, in the order of the text. One may come several times.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ops.iter().filter_map(|op| match op {
            Op::Load(name) => Some(&**name),
            _ => None,
        })
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}
