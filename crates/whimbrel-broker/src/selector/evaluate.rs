use whimbrel_pubsub::property::{Lookup, Value};

use super::Truth;
use super::arithmetic::{calculate, compare, negate};
use super::limits::{MAX_LIKE_STEPS, MAX_STACK};
use super::program::Op;

/// Most selectors need no larger stack, and it costs less to lay out.
const SMALL_STACK: usize = 4;

pub(super) fn evaluate(ops: &[Op], stack: usize, message: &(impl Lookup + ?Sized)) -> Truth {
    let outcome = if stack <= SMALL_STACK {
        run(ops, message, Stack::<'_, SMALL_STACK>::new())
    } else {
        run(ops, message, Stack::<'_, MAX_STACK>::new())
    };
    match outcome {
        Some(Value::Boolean(true)) => Truth::True,
        Some(Value::Boolean(false)) => Truth::False,
        _ => Truth::Unknown,
    }
}

/// Values, and truths as booleans. Nothing stands for an absent value, and for unknown.
struct Stack<'a, const SIZE: usize> {
    slots: [Option<Value<'a>>; SIZE],
    height: usize,
}

impl<'a, const SIZE: usize> Stack<'a, SIZE> {
    fn new() -> Self {
        Self { slots: [None; SIZE], height: 0 }
    }

    /// The parser has counted: there is always room.
    fn push(&mut self, value: Option<Value<'a>>) {
        if let Some(slot) = self.slots.get_mut(self.height) {
            *slot = value;
            self.height += 1;
        }
    }

    fn pop(&mut self) -> Option<Value<'a>> {
        self.height = self.height.saturating_sub(1);
        self.slots.get(self.height).copied().flatten()
    }

    fn top(&self) -> Option<Value<'a>> {
        self.slots.get(self.height.wrapping_sub(1)).copied().flatten()
    }

    fn push_truth(&mut self, truth: Option<bool>) {
        self.push(truth.map(Value::Boolean));
    }

    fn pop_truth(&mut self) -> Option<bool> {
        match self.pop() {
            Some(Value::Boolean(truth)) => Some(truth),
            _ => None,
        }
    }
}

fn run<'a, const SIZE: usize>(
    ops: &'a [Op],
    message: &'a (impl Lookup + ?Sized),
    mut stack: Stack<'a, SIZE>,
) -> Option<Value<'a>> {
    let (mut at, mut steps) = (0, MAX_LIKE_STEPS);
    while let Some(op) = ops.get(at) {
        at += 1;
        match op {
            Op::Load(name) => stack.push(message.property(name)),
            Op::Integer(value) => stack.push(Some(Value::Integer(*value))),
            Op::Float(value) => stack.push(Some(Value::Float(*value))),
            Op::Text(text) => stack.push(Some(Value::Text(text))),
            Op::Boolean(value) => stack.push(Some(Value::Boolean(*value))),
            Op::Plus => {
                let value = stack.pop().filter(|value| matches!(value, Value::Integer(_) | Value::Float(_)));
                stack.push(value);
            }
            Op::Minus => {
                let value = stack.pop();
                stack.push(negate(value));
            }
            Op::Calculate(how) => {
                let (right, left) = (stack.pop(), stack.pop());
                stack.push(calculate(*how, left, right));
            }
            Op::Compare(how) => {
                let (right, left) = (stack.pop(), stack.pop());
                stack.push_truth(compare(*how, left, right));
            }
            Op::In(texts) => {
                let found = stack.pop().map(|value| is_among(value, texts));
                stack.push_truth(found);
            }
            Op::Like(pattern) => {
                let like = match stack.pop() {
                    Some(Value::Text(text)) => {
                        let left = steps.checked_sub(pattern.steps(text));
                        steps = left.unwrap_or(steps);
                        left.map(|_| pattern.matches(text))
                    }
                    other => other.map(|_| false),
                };
                stack.push_truth(like);
            }
            Op::Absent => {
                let absent = stack.pop().is_none();
                stack.push_truth(Some(absent));
            }
            Op::Holds => {
                let holds = stack.pop().map(|value| value == Value::Boolean(true));
                stack.push_truth(holds);
            }
            Op::Not => {
                let truth = stack.pop_truth();
                stack.push_truth(truth.map(|truth| !truth));
            }
            Op::And => {
                let (right, left) = (stack.pop_truth(), stack.pop_truth());
                stack.push_truth(and(left, right));
            }
            Op::Or => {
                let (right, left) = (stack.pop_truth(), stack.pop_truth());
                stack.push_truth(or(left, right));
            }
            Op::SkipIfFalse(steps) if stack.top() == Some(Value::Boolean(false)) => at += usize::from(*steps),
            Op::SkipIfTrue(steps) if stack.top() == Some(Value::Boolean(true)) => at += usize::from(*steps),
            Op::SkipIfFalse(_) | Op::SkipIfTrue(_) => {}
        }
    }
    stack.pop()
}

fn is_among(value: Value<'_>, texts: &[Box<str>]) -> bool {
    match value {
        Value::Text(text) => texts.binary_search_by(|one| (**one).cmp(text)).is_ok(),
        _ => false,
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
