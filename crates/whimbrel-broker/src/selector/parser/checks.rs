//! The parser's checks of tokens and types.

use super::{Kind, MAX_DEPTH, MAX_STACK, Op, Outcome, Parser, Part, SelectorError, SelectorFault, Shape};
use crate::selector::program::Comparison;

impl<'a> Parser<'a> {
    pub(super) fn error(&self, at: usize, fault: SelectorFault) -> SelectorError {
        SelectorError::new(self.text, at, fault)
    }

    pub(super) fn types(&self, at: usize, sentence: &'static str) -> SelectorError {
        self.error(at, SelectorFault::Types(sentence))
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> SelectorError {
        self.error(self.next.at, SelectorFault::Unexpected { expected, found: self.next.shown() })
    }

    /// Goes on to the next token.
    pub(super) fn advance(&mut self) -> Outcome<()> {
        self.next = self.lexer.next().map_err(|(at, fault)| SelectorError::new(self.text, at, fault))?;
        Ok(())
    }

    /// Takes the next token if it is this.
    pub(super) fn take(&mut self, kind: Kind<'_>) -> Outcome<bool> {
        let is_it = self.next.kind == kind;
        if is_it {
            self.advance()?;
        }
        Ok(is_it)
    }

    pub(super) fn expect(&mut self, kind: Kind<'_>, expected: &'static str) -> Outcome<()> {
        if self.take(kind)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    pub(super) fn expect_end(&mut self) -> Outcome<()> {
        self.expect(Kind::End, "an operator, AND, OR or the end")
    }

    /// Takes a string.
    pub(super) fn string(&mut self, expected: &'static str) -> Outcome<&'a str> {
        let Kind::Text(text) = self.next.kind else { return Err(self.unexpected(expected)) };
        self.advance()?;
        Ok(text)
    }

    /// Counts a level of nesting, which began at a byte of the text.
    pub(super) fn deeper(&mut self, at: usize) -> Outcome<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.error(at, SelectorFault::TooDeep)) } else { Ok(()) }
    }

    /// Writes a step.
    pub(super) fn emit(&mut self, op: Op) -> Outcome<()> {
        self.height = self.height.saturating_add_signed(op.growth());
        self.stack = self.stack.max(self.height);
        if self.stack > MAX_STACK {
            return Err(self.error(self.next.at, SelectorFault::TooDeep));
        }
        self.ops.push(op);
        Ok(())
    }

    /// Makes what was written last a condition.
    pub(super) fn condition(&mut self, part: Part) -> Outcome<Part> {
        match part.shape {
            Shape::Condition | Shape::Boolean => {}
            Shape::Name => self.emit(Op::Holds)?,
            Shape::Number => {
                return Err(self.types(part.at, "a number is not a condition: compare it with something"));
            }
            Shape::Text => {
                return Err(self.types(part.at, "a string is not a condition: compare it with something"));
            }
        }
        Ok(Part { shape: Shape::Condition, ..part })
    }

    pub(super) fn check_name(&self, part: Part, sentence: &'static str) -> Outcome<()> {
        if part.shape == Shape::Name { Ok(()) } else { Err(self.types(part.at, sentence)) }
    }

    pub(super) fn check_number(&self, part: Part, sentence: &'static str) -> Outcome<()> {
        match part.shape {
            Shape::Name | Shape::Number => Ok(()),
            Shape::Text | Shape::Boolean | Shape::Condition => Err(self.types(part.at, sentence)),
        }
    }

    pub(super) fn check_comparison(&self, how: Comparison, left: Part, right: Part) -> Outcome<()> {
        for part in [left, right] {
            match part.shape {
                Shape::Condition => {
                    return Err(self.types(part.at, "a condition cannot be compared: use AND, OR and NOT"));
                }
                Shape::Text | Shape::Boolean if !how.is_equality() => {
                    return Err(self.types(part.at, "strings and booleans are compared with = and <> only"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
