mod checks;

use super::Selector;
use super::error::{SelectorError, SelectorFault};
use super::lexer::{Kind, Lexer, Token, unquoted};
use super::like::Pattern;
use super::limits::{MAX_DEPTH, MAX_GAPPED, MAX_SELECTOR_LEN, MAX_STACK};
use super::number::{LOWEST, Number};
use super::program::{Calculation, Comparison, Op};

/// The normal form of a text of so many bytes is within the limit: at most, a sum in a BETWEEN is written twice, with spaces.
const SURELY_SHORT: usize = 256;

type Outcome<T> = Result<T, SelectorError>;

pub(super) fn parse(text: &str) -> Outcome<Selector> {
    if text.len() > MAX_SELECTOR_LEN {
        return Err(SelectorError::new(
            text,
            text.floor_char_boundary(MAX_SELECTOR_LEN),
            SelectorFault::TooLong,
        ));
    }
    let mut lexer = Lexer::new(text);
    let next = lexer.next().map_err(|(at, fault)| SelectorError::new(text, at, fault))?;
    let mut parser = Parser { text, lexer, next, ops: Vec::new(), height: 0, stack: 0, depth: 0, gapped: 0 };
    if parser.next.kind == Kind::End {
        parser.emit(Op::Boolean(true))?;
    } else {
        let whole = parser.disjunction()?;
        parser.condition(whole)?;
        parser.expect_end()?;
        parser.thread_skips();
    }
    let selector = Selector { ops: parser.ops.into(), stack: parser.stack };
    if text.len() > SURELY_SHORT && selector.to_string().len() > MAX_SELECTOR_LEN {
        return Err(SelectorError::new(text, 0, SelectorFault::TooLong));
    }
    Ok(selector)
}

/// Parses by descent and writes the program as it goes. Only parentheses, NOT and signs nest it, which are counted.
struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    next: Token<'a>,
    ops: Vec<Op>,
    /// The values on the stack after what is written so far, and the most at any time.
    height: usize,
    stack: usize,
    depth: usize,
    /// As in [`MAX_GAPPED`].
    gapped: usize,
}

/// A part of the program, written so far, that leaves one value.
#[derive(Clone, Copy)]
struct Part {
    shape: Shape,
    /// Where it begins in the program and in the text.
    begin: usize,
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A property of any type.
    Name,
    Number,
    Text,
    Boolean,
    Condition,
}

const OPERAND: &str = "a property, a number, a string or (";

impl<'a> Parser<'a> {
    fn disjunction(&mut self) -> Outcome<Part> {
        self.chain("OR", Op::Or, Op::SkipIfTrue, Self::conjunction)
    }

    fn conjunction(&mut self) -> Outcome<Part> {
        self.chain("AND", Op::And, Op::SkipIfFalse, Self::negation)
    }

    /// Parts between which a word stands. Each of them but the last may decide the whole.
    fn chain(
        &mut self,
        word: &'static str,
        join: Op,
        skip: impl Fn(u16) -> Op,
        part: impl Fn(&mut Self) -> Outcome<Part>,
    ) -> Outcome<Part> {
        let mut whole = part(self)?;
        while self.next.kind == Kind::Word(word) {
            whole = self.condition(whole)?;
            self.advance()?;
            let at = self.ops.len();
            self.emit(skip(0))?;
            let next = part(self)?;
            self.condition(next)?;
            self.emit(join.clone())?;
            self.ops[at] = skip(self.steps_from(at));
        }
        Ok(whole)
    }

    /// The number of steps between a step and what is written next. The length of the text bounds it.
    fn steps_from(&self, at: usize) -> u16 {
        u16::try_from(self.ops.len() - at - 1).unwrap_or(u16::MAX)
    }

    /// Lets a step that skips to another one of its kind skip what that one does, too.
    fn thread_skips(&mut self) {
        for at in (0..self.ops.len()).rev() {
            let target = match &self.ops[at] {
                Op::SkipIfFalse(steps) | Op::SkipIfTrue(steps) => self.ops.get(at + 1 + usize::from(*steps)),
                _ => None,
            };
            let further = match (&self.ops[at], target) {
                (Op::SkipIfFalse(_), Some(Op::SkipIfFalse(steps)))
                | (Op::SkipIfTrue(_), Some(Op::SkipIfTrue(steps))) => *steps + 1,
                _ => continue,
            };
            if let Op::SkipIfFalse(steps) | Op::SkipIfTrue(steps) = &mut self.ops[at] {
                *steps += further;
            }
        }
    }

    fn negation(&mut self) -> Outcome<Part> {
        let (at, begin) = (self.next.at, self.ops.len());
        if !self.take(Kind::Word("NOT"))? {
            return self.comparison();
        }
        self.deeper(at)?;
        let part = self.negation()?;
        self.condition(part)?;
        self.emit(Op::Not)?;
        self.depth -= 1;
        Ok(Part { shape: Shape::Condition, begin, at })
    }

    fn comparison(&mut self) -> Outcome<Part> {
        let left = self.sum()?;
        if let Some(how) = comparison(self.next.kind) {
            self.advance()?;
            let right = self.sum()?;
            self.check_comparison(how, left, right)?;
            self.emit(Op::Compare(how))?;
        } else if self.take(Kind::Word("IS"))? {
            self.check_name(left, "IS NULL asks for a property")?;
            let not = self.take(Kind::Word("NOT"))?;
            self.expect(Kind::Word("NULL"), "NULL")?;
            self.emit(Op::Absent)?;
            self.negate_if(not)?;
        } else {
            let not = self.take(Kind::Word("NOT"))?;
            if self.take(Kind::Word("BETWEEN"))? {
                self.between(left, not)?;
            } else if self.take(Kind::Word("IN"))? {
                self.check_name(left, "IN asks for a property")?;
                let texts = self.texts()?;
                self.emit(Op::In(texts))?;
                self.negate_if(not)?;
            } else if self.take(Kind::Word("LIKE"))? {
                self.check_name(left, "LIKE asks for a property")?;
                let pattern = self.pattern()?;
                self.emit(Op::Like(pattern.into()))?;
                self.negate_if(not)?;
            } else if not {
                return Err(self.unexpected("BETWEEN, IN or LIKE"));
            } else {
                return Ok(left);
            }
        }
        if comparison(self.next.kind).is_some() {
            return Err(self.types(self.next.at, "a comparison is a condition; it cannot be compared again"));
        }
        Ok(Part { shape: Shape::Condition, ..left })
    }

    fn negate_if(&mut self, not: bool) -> Outcome<()> {
        if not { self.emit(Op::Not) } else { Ok(()) }
    }

    /// JMS defines it as two comparisons, for which the operand is written twice.
    fn between(&mut self, operand: Part, not: bool) -> Outcome<()> {
        self.check_number(operand, "BETWEEN compares numbers")?;
        // The normal form may need parentheses.
        self.deeper(operand.at)?;
        let (first, second, join) = if not {
            (Comparison::Less, Comparison::Greater, Op::Or)
        } else {
            (Comparison::GreaterOrEqual, Comparison::LessOrEqual, Op::And)
        };
        let again: Vec<Op> = self.ops[operand.begin..].to_vec();
        let low = self.sum()?;
        self.check_number(low, "BETWEEN compares numbers")?;
        self.emit(Op::Compare(first))?;
        let skip = self.ops.len();
        self.emit(Op::SkipIfFalse(0))?;
        again.into_iter().try_for_each(|op| self.emit(op))?;
        self.expect(Kind::Word("AND"), "AND and the upper end of BETWEEN")?;
        let high = self.sum()?;
        self.check_number(high, "BETWEEN compares numbers")?;
        self.emit(Op::Compare(second))?;
        self.emit(join)?;
        let steps = self.steps_from(skip);
        self.ops[skip] = if not { Op::SkipIfTrue(steps) } else { Op::SkipIfFalse(steps) };
        self.depth -= 1;
        Ok(())
    }

    fn texts(&mut self) -> Outcome<Box<[Box<str>]>> {
        self.expect(Kind::Sign("("), "( and strings")?;
        let mut texts = Vec::new();
        loop {
            texts.push(unquoted(self.string("a string")?).into());
            if !self.take(Kind::Sign(","))? {
                break;
            }
        }
        self.expect(Kind::Sign(")"), ", or )")?;
        texts.sort_unstable();
        texts.dedup();
        Ok(texts.into())
    }

    fn pattern(&mut self) -> Outcome<Pattern> {
        let at = self.next.at;
        let text = unquoted(self.string("a pattern in single quotes")?);
        let mut escape = None;
        if self.take(Kind::Word("ESCAPE"))? {
            let escape_at = self.next.at;
            let one = unquoted(self.string("one character in single quotes")?);
            let mut characters = one.chars();
            escape = characters.next();
            if escape.is_none() || characters.next().is_some() {
                return Err(self.error(escape_at, SelectorFault::NotOneCharacter));
            }
        }
        let pattern =
            Pattern::new(&text, escape).map_err(|bad| self.error(at, SelectorFault::Escape(bad.0)))?;
        self.gapped += pattern.gapped();
        if self.gapped > MAX_GAPPED {
            return Err(self.error(at, SelectorFault::TooCostly));
        }
        Ok(pattern)
    }

    fn sum(&mut self) -> Outcome<Part> {
        let how = |kind| match kind {
            Kind::Sign("+") => Some(Calculation::Add),
            Kind::Sign("-") => Some(Calculation::Subtract),
            _ => None,
        };
        self.calculation(how, Self::product)
    }

    fn product(&mut self) -> Outcome<Part> {
        let how = |kind| match kind {
            Kind::Sign("*") => Some(Calculation::Multiply),
            Kind::Sign("/") => Some(Calculation::Divide),
            _ => None,
        };
        self.calculation(how, Self::signed)
    }

    fn calculation(
        &mut self,
        how: impl Fn(Kind<'a>) -> Option<Calculation>,
        part: impl Fn(&mut Self) -> Outcome<Part>,
    ) -> Outcome<Part> {
        let mut left = part(self)?;
        while let Some(calculation) = how(self.next.kind) {
            self.check_number(left, "only numbers can be calculated with")?;
            self.advance()?;
            let right = part(self)?;
            self.check_number(right, "only numbers can be calculated with")?;
            self.emit(Op::Calculate(calculation))?;
            left.shape = Shape::Number;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Outcome<Part> {
        let (at, begin) = (self.next.at, self.ops.len());
        let minus = self.take(Kind::Sign("-"))?;
        if !minus && !self.take(Kind::Sign("+"))? {
            return self.primary();
        }
        self.deeper(at)?;
        if minus && self.take(Kind::Number(Number::Integer(LOWEST)))? {
            self.emit(Op::Integer(i64::MIN))?;
        } else {
            let part = self.signed()?;
            self.check_number(part, "only numbers have a sign")?;
            self.sign(begin, minus)?;
        }
        self.depth -= 1;
        Ok(Part { shape: Shape::Number, begin, at })
    }

    /// Gives what was written from `begin` on its sign. A literal takes it up.
    fn sign(&mut self, begin: usize, minus: bool) -> Outcome<()> {
        match &mut self.ops[begin..] {
            [Op::Integer(_) | Op::Float(_)] if !minus => Ok(()),
            [Op::Integer(value)] => {
                *value = value.wrapping_neg();
                Ok(())
            }
            [Op::Float(value)] => {
                *value = -*value;
                Ok(())
            }
            _ => self.emit(if minus { Op::Minus } else { Op::Plus }),
        }
    }

    fn primary(&mut self) -> Outcome<Part> {
        let Token { kind, at, .. } = self.next;
        let begin = self.ops.len();
        let (op, shape) = match kind {
            Kind::Sign("(") => return self.parenthesized(),
            Kind::Name(name) => (Op::Load(name.into()), Shape::Name),
            Kind::Number(Number::Float(value)) => (Op::Float(value), Shape::Number),
            Kind::Number(Number::Integer(value)) => match i64::try_from(value) {
                Ok(value) => (Op::Integer(value), Shape::Number),
                Err(_) => return Err(self.error(at, SelectorFault::NumberTooLarge)),
            },
            Kind::Text(text) => (Op::Text(unquoted(text).into()), Shape::Text),
            Kind::Word("TRUE") => (Op::Boolean(true), Shape::Boolean),
            Kind::Word("FALSE") => (Op::Boolean(false), Shape::Boolean),
            Kind::Word("NULL") => {
                return Err(self.types(at, "nothing equals NULL: write IS NULL or IS NOT NULL"));
            }
            _ => return Err(self.unexpected(OPERAND)),
        };
        self.emit(op)?;
        self.advance()?;
        Ok(Part { shape, begin, at })
    }

    fn parenthesized(&mut self) -> Outcome<Part> {
        let at = self.next.at;
        self.advance()?;
        self.deeper(at)?;
        let part = self.disjunction()?;
        self.expect(Kind::Sign(")"), "an operator, AND, OR or )")?;
        self.depth -= 1;
        Ok(Part { at, ..part })
    }
}

fn comparison(kind: Kind<'_>) -> Option<Comparison> {
    match kind {
        Kind::Sign("=") => Some(Comparison::Equal),
        Kind::Sign("<>") => Some(Comparison::NotEqual),
        Kind::Sign("<") => Some(Comparison::Less),
        Kind::Sign("<=") => Some(Comparison::LessOrEqual),
        Kind::Sign(">") => Some(Comparison::Greater),
        Kind::Sign(">=") => Some(Comparison::GreaterOrEqual),
        _ => None,
    }
}
