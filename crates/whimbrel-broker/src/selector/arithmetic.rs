//! Calculating and comparing as JMS asks for: by the numeric promotion of Java, where all whole numbers are `long` and all others `double`.

use std::cmp::Ordering;

use whimbrel_pubsub::property::Value;

use super::program::{Calculation, Comparison};

/// A number that a whole one is promoted to. Large ones lose their last digits, as in Java.
#[expect(
    clippy::cast_precision_loss,
    reason = "Java's promotion of long to double rounds to the nearest, too"
)]
pub(super) fn promote(value: i64) -> f64 {
    value as f64
}

/// Nothing if an operand is absent or no number, or if a whole number is divided by zero.
pub(super) fn calculate<'a>(
    how: Calculation,
    left: Option<Value<'a>>,
    right: Option<Value<'a>>,
) -> Option<Value<'a>> {
    match (left?, right?) {
        (Value::Integer(left), Value::Integer(right)) => whole(how, left, right).map(Value::Integer),
        (Value::Integer(left), Value::Float(right)) => Some(Value::Float(real(how, promote(left), right))),
        (Value::Float(left), Value::Integer(right)) => Some(Value::Float(real(how, left, promote(right)))),
        (Value::Float(left), Value::Float(right)) => Some(Value::Float(real(how, left, right))),
        _ => None,
    }
}

fn whole(how: Calculation, left: i64, right: i64) -> Option<i64> {
    match how {
        Calculation::Add => Some(left.wrapping_add(right)),
        Calculation::Subtract => Some(left.wrapping_sub(right)),
        Calculation::Multiply => Some(left.wrapping_mul(right)),
        Calculation::Divide => (right != 0).then(|| left.wrapping_div(right)),
    }
}

fn real(how: Calculation, left: f64, right: f64) -> f64 {
    match how {
        Calculation::Add => left + right,
        Calculation::Subtract => left - right,
        Calculation::Multiply => left * right,
        Calculation::Divide => left / right,
    }
}

/// Nothing if the operand is absent or no number.
pub(super) fn negate(value: Option<Value<'_>>) -> Option<Value<'_>> {
    match value? {
        Value::Integer(value) => Some(Value::Integer(value.wrapping_neg())),
        Value::Float(value) => Some(Value::Float(-value)),
        _ => None,
    }
}

/// Nothing if an operand is absent. Operands of different types compare as false.
pub(super) fn compare(how: Comparison, left: Option<Value<'_>>, right: Option<Value<'_>>) -> Option<bool> {
    Some(match (left?, right?) {
        (Value::Integer(left), Value::Integer(right)) => holds(how, Some(left.cmp(&right))),
        (Value::Integer(left), Value::Float(right)) => holds(how, promote(left).partial_cmp(&right)),
        (Value::Float(left), Value::Integer(right)) => holds(how, left.partial_cmp(&promote(right))),
        (Value::Float(left), Value::Float(right)) => holds(how, left.partial_cmp(&right)),
        (Value::Text(left), Value::Text(right)) => same(how, left == right),
        (Value::Boolean(left), Value::Boolean(right)) => same(how, left == right),
        _ => false,
    })
}

/// `None` is the order of something with NaN, from which everything differs.
fn holds(how: Comparison, order: Option<Ordering>) -> bool {
    match how {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

/// Texts and booleans have no order.
fn same(how: Comparison, equal: bool) -> bool {
    match how {
        Comparison::Equal => equal,
        Comparison::NotEqual => !equal,
        _ => false,
    }
}
