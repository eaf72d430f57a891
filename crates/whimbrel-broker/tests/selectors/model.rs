//! The meaning of an expression by JMS, written as plainly as it can be, and by Artemis: the same with some deviations.
//! docs/selectors.md lists these by number.

use std::cmp::Ordering;

use crate::expression::Expression;
use crate::random::{Message, Owned};

/// A row of the page's table of deviations that show in evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deviation {
    /// E1: a present value against an absent one on the right is not equal, rather than unknown.
    RightAbsent,
    /// E2: two absent values are equal, rather than unknown.
    BothAbsent,
    /// E3: values of different types differ by `<>`.
    TypesDiffer,
    /// E4: texts and booleans have an order.
    Order,
    /// E5: whole numbers are divided as floating-point ones.
    Division,
    /// E6: whole literals below 2^31 are calculated with in 32 bits.
    SmallLiterals,
    /// E7: calculating with what is no number joins texts, or fails.
    NoNumber,
    /// E8: `+` before what is no number does nothing.
    Plus,
    /// E9: IN of what is no text is unknown.
    InOfOther,
    /// E10: NaN is equal to itself and above all else, and -0.0 is below 0.0.
    TotalOrder,
}

impl Deviation {
    pub(crate) const ALL: [Self; 10] = [
        Self::RightAbsent,
        Self::BothAbsent,
        Self::TypesDiffer,
        Self::Order,
        Self::Division,
        Self::SmallLiterals,
        Self::NoNumber,
        Self::Plus,
        Self::InOfOther,
        Self::TotalOrder,
    ];
}

/// Whose rules apply, and which deviations were met.
pub(crate) struct Model<'a> {
    message: &'a Message,
    artemis: bool,
    pub(crate) met: Vec<Deviation>,
}

/// Artemis throws, or makes a text that the model does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Throws,
    Joins,
}

#[derive(Clone, Debug)]
enum Item {
    Boolean(bool),
    /// Only for Artemis.
    Small(i32),
    Integer(i64),
    Float(f64),
    Text(String),
}

type Outcome<T> = Result<T, Stop>;

impl<'a> Model<'a> {
    pub(crate) fn jms(message: &'a Message) -> Self {
        Self { message, artemis: false, met: Vec::new() }
    }

    pub(crate) fn artemis(message: &'a Message) -> Self {
        Self { message, artemis: true, met: Vec::new() }
    }

    /// Returns whether Artemis applies, which deviates here.
    fn deviates(&mut self, how: Deviation) -> bool {
        if self.artemis {
            self.met.push(how);
        }
        self.artemis
    }

    /// The truth of a condition; `None` is unknown.
    pub(crate) fn truth(&mut self, of: &Expression) -> Outcome<Option<bool>> {
        Ok(match of {
            Expression::Not(what) => self.truth(what)?.map(|truth| !truth),
            Expression::And(left, right) => match self.truth(left)? {
                Some(false) => Some(false),
                left => match (left, self.truth(right)?) {
                    (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                },
            },
            Expression::Or(left, right) => match self.truth(left)? {
                Some(true) => Some(true),
                left => match (left, self.truth(right)?) {
                    (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                },
            },
            Expression::Compared(left, how, right) => self.compared(left, how, right)?,
            Expression::Between(what, is_not, low, high) => {
                let (first, second) = if *is_not { ("<", ">") } else { (">=", "<=") };
                let low = Box::new(Expression::Compared(what.clone(), first, low.clone()));
                let high = Box::new(Expression::Compared(what.clone(), second, high.clone()));
                let same = if *is_not { Expression::Or(low, high) } else { Expression::And(low, high) };
                self.truth(&same)?
            }
            Expression::In(name, is_not, texts) => match self.property(name) {
                None => None,
                Some(Item::Text(text)) => Some(texts.contains(&text) != *is_not),
                Some(_) if self.deviates(Deviation::InOfOther) => None,
                Some(_) => Some(*is_not),
            },
            Expression::Like(name, is_not, pattern, escape) => self.property(name).map(|value| {
                let like = matches!(value, Item::Text(text) if is_like(&text, pattern, *escape));
                like != *is_not
            }),
            Expression::IsNull(name, is_not) => Some(self.property(name).is_none() != *is_not),
            Expression::Boolean(value) => Some(*value),
            Expression::Name(name) => self.property(name).map(|value| matches!(value, Item::Boolean(true))),
            _ => unreachable!("{of} is no condition"),
        })
    }

    fn property(&self, name: &str) -> Option<Item> {
        let (_, value) = self.message.iter().find(|(found, _)| *found == name)?;
        Some(match value {
            Owned::Boolean(value) => Item::Boolean(*value),
            Owned::Integer(value) => Item::Integer(*value),
            Owned::Float(value) => Item::Float(*value),
            Owned::Text(text) => Item::Text(text.clone()),
        })
    }

    fn value(&mut self, of: &Expression) -> Outcome<Option<Item>> {
        Ok(match of {
            Expression::Name(name) => self.property(name),
            Expression::Integer(value) => Some(self.literal(*value)),
            Expression::Float(value) => Some(Item::Float(*value)),
            Expression::Text(text) => Some(Item::Text(text.clone())),
            Expression::Boolean(value) => Some(Item::Boolean(*value)),
            Expression::Signed(sign, number) => {
                let value = self.value(number)?;
                match value {
                    Some(Item::Small(_) | Item::Integer(_) | Item::Float(_)) if *sign == '+' => value,
                    Some(Item::Small(value)) => Some(Item::Small(value.wrapping_neg())),
                    Some(Item::Integer(value)) => Some(Item::Integer(value.wrapping_neg())),
                    Some(Item::Float(value)) => Some(Item::Float(-value)),
                    Some(_) if *sign == '+' && self.deviates(Deviation::Plus) => value,
                    Some(_) | None => None,
                }
            }
            Expression::Calculated(left, sign, right) => self.calculated(left, *sign, right)?,
            _ => unreachable!("{of} is no value"),
        })
    }

    fn literal(&self, value: u64) -> Item {
        let value = i64::try_from(value).expect("literals are not larger");
        match i32::try_from(value) {
            Ok(value) if self.artemis => Item::Small(value),
            _ => Item::Integer(value),
        }
    }

    fn calculated(&mut self, left: &Expression, sign: char, right: &Expression) -> Outcome<Option<Item>> {
        let Some(left) = self.value(left)? else { return Ok(None) };
        let Some(right) = self.value(right)? else { return Ok(None) };
        let is_number = |item: &Item| matches!(item, Item::Small(_) | Item::Integer(_) | Item::Float(_));
        if !is_number(&left) || !is_number(&right) {
            if !self.deviates(Deviation::NoNumber) {
                return Ok(None);
            }
            return Err(if sign == '+' && matches!(left, Item::Text(_)) {
                Stop::Joins
            } else {
                Stop::Throws
            });
        }
        let is_float = matches!((&left, &right), (Item::Float(_), _) | (_, Item::Float(_)));
        if sign == '/' && !is_float && self.deviates(Deviation::Division) {
            return Ok(Some(Item::Float(real(&left) / real(&right))));
        }
        Ok(match (&left, &right) {
            (Item::Small(left), Item::Small(right)) => {
                let (wide_left, wide_right) = (i64::from(*left), i64::from(*right));
                let (narrow, wide) = match sign {
                    '+' => (left.wrapping_add(*right), wide_left + wide_right),
                    '-' => (left.wrapping_sub(*right), wide_left - wide_right),
                    _ => (left.wrapping_mul(*right), wide_left * wide_right),
                };
                if i64::from(narrow) != wide {
                    self.met.push(Deviation::SmallLiterals);
                }
                Some(Item::Small(narrow))
            }
            (Item::Float(_), _) | (_, Item::Float(_)) => {
                let (left, right) = (real(&left), real(&right));
                Some(Item::Float(match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }))
            }
            _ => {
                let (left, right) = (whole(&left), whole(&right));
                match sign {
                    '+' => Some(Item::Integer(left.wrapping_add(right))),
                    '-' => Some(Item::Integer(left.wrapping_sub(right))),
                    '*' => Some(Item::Integer(left.wrapping_mul(right))),
                    _ if right == 0 => None,
                    _ => Some(Item::Integer(left.wrapping_div(right))),
                }
            }
        })
    }

    fn compared(&mut self, left: &Expression, how: &str, right: &Expression) -> Outcome<Option<bool>> {
        let is_equality = matches!(how, "=" | "<>");
        let left = self.value(left)?;
        if left.is_none() && self.artemis && !is_equality {
            return Ok(None);
        }
        let right = self.value(right)?;
        let (left, right) = match (left, right) {
            (Some(left), Some(right)) => (left, right),
            (None, None) if is_equality && self.deviates(Deviation::BothAbsent) => {
                return Ok(Some(how == "="));
            }
            (Some(_), None) if is_equality && self.deviates(Deviation::RightAbsent) => {
                return Ok(Some(how == "<>"));
            }
            _ => return Ok(None),
        };
        let order = match (&left, &right) {
            (Item::Text(left), Item::Text(right)) => Some(left.cmp(right)),
            (Item::Boolean(left), Item::Boolean(right)) => Some(left.cmp(right)),
            (Item::Text(_) | Item::Boolean(_), _) | (_, Item::Text(_) | Item::Boolean(_)) => {
                return Ok(Some(how == "<>" && self.deviates(Deviation::TypesDiffer)));
            }
            (Item::Float(_), _) | (_, Item::Float(_)) => {
                let (left, right) = (real(&left), real(&right));
                let total = java_order(left, right);
                if left.partial_cmp(&right) != Some(total) && self.deviates(Deviation::TotalOrder) {
                    Some(total)
                } else {
                    left.partial_cmp(&right)
                }
            }
            _ => Some(whole(&left).cmp(&whole(&right))),
        };
        let has_order = !matches!(left, Item::Text(_) | Item::Boolean(_));
        if !is_equality && !has_order && !self.deviates(Deviation::Order) {
            return Ok(Some(false));
        }
        Ok(Some(match how {
            "=" => order == Some(Ordering::Equal),
            "<>" => order != Some(Ordering::Equal),
            "<" => order == Some(Ordering::Less),
            "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            ">" => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }))
    }
}

/// All NaN are alike in Java.
fn java_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => left.total_cmp(&right),
    }
}

fn whole(item: &Item) -> i64 {
    match item {
        Item::Small(value) => i64::from(*value),
        Item::Integer(value) => *value,
        _ => unreachable!("{item:?} is not whole"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "Java's promotion rounds, too")]
fn real(item: &Item) -> f64 {
    match item {
        Item::Float(value) => *value,
        item => whole(item) as f64,
    }
}

fn is_like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let text: Vec<_> = text.chars().collect();
    let mut wildcards = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        wildcards.push(match character {
            _ if Some(character) == escape => (false, characters.next().expect("an escaped character")),
            '%' | '_' => (true, character),
            _ => (false, character),
        });
    }
    plainly(&text, &wildcards)
}

fn plainly(text: &[char], pattern: &[(bool, char)]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [(true, '%'), pattern @ ..] => (0..=text.len()).any(|from| plainly(&text[from..], pattern)),
        [(true, _), pattern @ ..] => !text.is_empty() && plainly(&text[1..], pattern),
        [(false, first), pattern @ ..] => text.first() == Some(first) && plainly(&text[1..], pattern),
    }
}
