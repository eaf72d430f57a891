//! Random expressions and messages from a seed.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_pubsub::property::{Properties, Value};

use crate::expression::Expression;

/// Properties by the type that they mostly have. `z` is never there.
const INTEGERS: [&str; 3] = ["a", "b", "c"];
const FLOATS: [&str; 2] = ["x", "y"];
const TEXTS: [&str; 3] = ["s", "t", "u"];
const BOOLEANS: [&str; 2] = ["f", "g"];
pub(crate) const NAMES: [&str; 11] = ["a", "b", "c", "x", "y", "s", "t", "u", "f", "g", "z"];

const WORDS: [&str; 7] = ["", "cod", "cods", "c%d", "it's", "a_b", "Cod"];
const PATTERNS: [&str; 11] = ["%", "cod", "c%", "%d", "_od", "c_d%", "", "%o%", "c!%d", "a!_b", "%'_"];
const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
const INTEGER_VALUES: [i64; 12] =
    [0, 1, 2, 3, 5, 7, -1, -2, 2_147_483_647, 9_007_199_254_740_993, i64::MAX, i64::MIN];
const FLOAT_VALUES: [f64; 11] =
    [0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0, 1e300, 9_007_199_254_740_992.0, f64::INFINITY];

/// A value that owns its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owned {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Owned {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::Text(text),
        }
    }
}

/// A message: its properties by name.
pub(crate) type Message = Vec<(&'static str, Owned)>;

pub(crate) fn properties(message: &Message) -> Properties {
    Properties::new(message.iter().map(|(name, value)| (*name, value.value()))).expect("properties")
}

/// A source of expressions and messages.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A condition of some depth.
    pub(crate) fn condition(&mut self, depth: usize) -> Expression {
        if depth > 0 && self.chance(60) {
            let left = Box::new(self.condition(depth - 1));
            return match self.below(5) {
                0 => Expression::Not(left),
                1 | 2 => Expression::And(left, Box::new(self.condition(depth - 1))),
                _ => Expression::Or(left, Box::new(self.condition(depth - 1))),
            };
        }
        match self.below(20) {
            0 => Expression::Name(self.name(&BOOLEANS)),
            1 => Expression::Boolean(self.chance(50)),
            2 | 3 => Expression::Between(
                self.boxed_number(1),
                self.chance(40),
                self.boxed_number(1),
                self.boxed_number(1),
            ),
            4 | 5 => {
                let texts = (0..=self.below(6)).map(|_| self.one(&WORDS).to_owned()).collect();
                Expression::In(self.name(&TEXTS), self.chance(40), texts)
            }
            6 | 7 => {
                let pattern = self.one(&PATTERNS);
                let escape = if pattern.contains('!') || self.chance(20) { Some('!') } else { None };
                Expression::Like(self.name(&TEXTS), self.chance(40), pattern.to_owned(), escape)
            }
            8 => Expression::IsNull(self.one(&NAMES), self.chance(50)),
            9..=12 => Expression::Compared(self.boxed_text(), self.one(&COMPARISONS[..2]), self.boxed_text()),
            13 => {
                Expression::Compared(self.boxed_boolean(), self.one(&COMPARISONS[..2]), self.boxed_boolean())
            }
            14 => Expression::Compared(self.boxed_any(), self.one(&COMPARISONS[..2]), self.boxed_any()),
            15 => {
                let (left, right) = (self.one(&NAMES), self.one(&NAMES));
                let how = self.one(&COMPARISONS);
                Expression::Compared(Box::new(Expression::Name(left)), how, Box::new(Expression::Name(right)))
            }
            _ => Expression::Compared(self.boxed_number(2), self.one(&COMPARISONS), self.boxed_number(2)),
        }
    }

    /// A name of mostly one type.
    fn name(&mut self, of: &[&'static str]) -> &'static str {
        if self.chance(8) { self.one(&NAMES) } else { self.one(of) }
    }

    fn boxed_any(&mut self) -> Box<Expression> {
        match self.below(3) {
            0 => self.boxed_number(1),
            1 => self.boxed_text(),
            _ => self.boxed_boolean(),
        }
    }

    fn boxed_text(&mut self) -> Box<Expression> {
        Box::new(if self.chance(40) {
            Expression::Text(self.one(&WORDS).to_owned())
        } else {
            Expression::Name(self.name(&TEXTS))
        })
    }

    fn boxed_boolean(&mut self) -> Box<Expression> {
        Box::new(if self.chance(40) {
            Expression::Boolean(self.chance(50))
        } else {
            Expression::Name(self.name(&BOOLEANS))
        })
    }

    fn boxed_number(&mut self, depth: usize) -> Box<Expression> {
        Box::new(self.number(depth))
    }

    fn number(&mut self, depth: usize) -> Expression {
        if depth > 0 && self.chance(30) {
            return if self.chance(30) {
                Expression::Signed(self.one(&['-', '-', '-', '+']), self.boxed_number(depth - 1))
            } else {
                let sign = self.one(&['+', '-', '*', '/']);
                Expression::Calculated(self.boxed_number(depth - 1), sign, self.boxed_number(depth - 1))
            };
        }
        match self.below(8) {
            0 | 1 => {
                Expression::Integer(self.one(&INTEGER_VALUES).unsigned_abs().min(i64::MAX.unsigned_abs()))
            }
            2 => Expression::Float(self.one(&FLOAT_VALUES[..10]).abs()),
            3..=5 => Expression::Name(self.name(&INTEGERS)),
            _ => Expression::Name(self.name(&FLOATS)),
        }
    }

    /// A message that has most of the properties, a few with another type than expected.
    pub(crate) fn message(&mut self) -> Message {
        let mut message = Vec::new();
        for name in &NAMES[..10] {
            if self.chance(20) {
                continue;
            }
            let kind = if self.chance(8) { self.one(&NAMES[..10]) } else { *name };
            message.push((*name, self.value(kind)));
        }
        message
    }

    fn value(&mut self, like: &str) -> Owned {
        if INTEGERS.contains(&like) {
            Owned::Integer(self.one(&INTEGER_VALUES))
        } else if FLOATS.contains(&like) {
            let nan = self.chance(4);
            Owned::Float(if nan { f64::NAN } else { self.one(&FLOAT_VALUES) })
        } else if TEXTS.contains(&like) {
            Owned::Text(self.one(&WORDS).to_owned())
        } else {
            Owned::Boolean(self.chance(50))
        }
    }
}
