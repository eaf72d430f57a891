//! A selector as a program in postfix order: operands come before what is done with them.

use super::like::Pattern;

/// A step of the program. Each takes its operands from the top of the stack and leaves its result there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    /// The value of a property; nothing if it is absent.
    Load(Box<str>),
    Integer(i64),
    Float(f64),
    Text(Box<str>),
    Boolean(bool),
    /// Nothing, unless the operand is a number.
    Plus,
    Minus,
    Calculate(Calculation),
    Compare(Comparison),
    /// Whether a property is one of these texts, which are sorted.
    In(Box<[Box<str>]>),
    Like(Box<Pattern>),
    /// Whether a property is absent.
    Absent,
    /// Whether a property is true.
    Holds,
    Not,
    And,
    Or,
    /// Goes on behind this many further steps if the top is false, and leaves it there: it decides an AND.
    SkipIfFalse(u16),
    /// Goes on behind this many further steps if the top is true, and leaves it there: it decides an OR.
    SkipIfTrue(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calculation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns whether it asks for equality only, which is all that texts and booleans have.
    pub(super) fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }

    /// The same comparison with its sides exchanged.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Op {
    /// The bytes that it takes beside itself, about.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Load(text) | Self::Text(text) => text.len(),
            Self::In(texts) => texts.iter().map(|text| size_of::<Box<str>>() + text.len()).sum(),
            Self::Like(pattern) => size_of::<Pattern>() + pattern.held(),
            _ => 0,
        }
    }

    /// By how much the stack is higher afterwards.
    pub(super) fn growth(&self) -> isize {
        match self {
            Self::Load(_) | Self::Integer(_) | Self::Float(_) | Self::Text(_) | Self::Boolean(_) => 1,
            Self::Calculate(_) | Self::Compare(_) | Self::And | Self::Or => -1,
            Self::Plus
            | Self::Minus
            | Self::In(_)
            | Self::Like(_)
            | Self::Absent
            | Self::Holds
            | Self::Not
            | Self::SkipIfFalse(_)
            | Self::SkipIfTrue(_) => 0,
        }
    }
}
