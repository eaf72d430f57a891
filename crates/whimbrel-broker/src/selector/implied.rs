//! The values of one property that a selector implies: its program is run with what is known of the property instead of values.

use whimbrel_pubsub::property::Value;

use super::program::{Comparison, Op};
use super::reach::{Reach, Texts};
use super::spans::{above, below, promoted};

/// The result that a part of the program leaves.
#[derive(Clone)]
enum Known<'a> {
    /// The property itself.
    Property,
    Literal(Value<'a>),
    /// Something else. `true`: a number that was calculated from the property, among others.
    Other(bool),
    Condition(Outcomes),
}

/// The values of the property for which a condition may be true, and those for which it may be false.
#[derive(Clone)]
struct Outcomes {
    yes: Reach,
    no: Reach,
}

impl Outcomes {
    fn unknown() -> Self {
        Self { yes: Reach::any(), no: Reach::any() }
    }

    fn not(self) -> Self {
        Self { yes: self.no, no: self.yes }
    }
}

pub(super) fn implied(ops: &[Op], name: &str) -> Reach {
    outcomes(ops, name).yes
}

pub(super) fn excluded(ops: &[Op], name: &str) -> Reach {
    outcomes(ops, name).no
}

fn outcomes(ops: &[Op], name: &str) -> Outcomes {
    let mut stack = Vec::new();
    for op in ops {
        step(op, name, &mut stack);
    }
    pop_condition(&mut stack)
}

fn step<'a>(op: &'a Op, name: &str, stack: &mut Vec<Known<'a>>) {
    let known = match op {
        Op::Load(loaded) if **loaded == *name => Known::Property,
        Op::Load(_) => Known::Other(false),
        Op::Integer(value) => Known::Literal(Value::Integer(*value)),
        Op::Float(value) => Known::Literal(Value::Float(*value)),
        Op::Text(text) => Known::Literal(Value::Text(text)),
        Op::Boolean(value) => Known::Literal(Value::Boolean(*value)),
        Op::Plus | Op::Minus => Known::Other(is_about(stack.pop().as_ref())),
        Op::Calculate(_) => {
            let (right, left) = (stack.pop(), stack.pop());
            Known::Other(is_about(left.as_ref()) || is_about(right.as_ref()))
        }
        Op::Compare(how) => {
            let (right, left) = (stack.pop(), stack.pop());
            Known::Condition(compared(*how, left, right))
        }
        Op::In(texts) => {
            let yes = Reach { texts: Texts::Among(texts.to_vec()), ..Reach::none() };
            Known::Condition(asked(stack.pop(), yes, Reach::present()))
        }
        Op::Like(pattern) => {
            let yes = pattern.literal().map_or_else(Reach::text, Reach::one_text);
            Known::Condition(asked(stack.pop(), yes, Reach::present()))
        }
        Op::Absent => {
            let absent = Reach { absent: true, ..Reach::none() };
            Known::Condition(asked(stack.pop(), absent, Reach::present()))
        }
        Op::Holds => {
            let no = Reach { booleans: [true, false], ..Reach::present() };
            Known::Condition(asked(stack.pop(), Reach::boolean(true), no))
        }
        Op::Not => Known::Condition(pop_condition(stack).not()),
        Op::And => {
            let (right, left) = (pop_condition(stack), pop_condition(stack));
            Known::Condition(Outcomes {
                yes: left.yes.intersection(&right.yes),
                no: left.no.union(&right.no),
            })
        }
        Op::Or => {
            let (right, left) = (pop_condition(stack), pop_condition(stack));
            Known::Condition(Outcomes {
                yes: left.yes.union(&right.yes),
                no: left.no.intersection(&right.no),
            })
        }
        Op::SkipIfFalse(_) | Op::SkipIfTrue(_) => return,
    };
    stack.push(known);
}

fn is_about(known: Option<&Known<'_>>) -> bool {
    matches!(known, Some(Known::Property | Known::Other(true)))
}

fn pop_condition(stack: &mut Vec<Known<'_>>) -> Outcomes {
    match stack.pop() {
        Some(Known::Condition(outcomes)) => outcomes,
        Some(Known::Literal(Value::Boolean(true))) => Outcomes { yes: Reach::any(), no: Reach::none() },
        Some(Known::Literal(Value::Boolean(false))) => Outcomes { yes: Reach::none(), no: Reach::any() },
        _ => Outcomes::unknown(),
    }
}

/// A question about one property.
fn asked(what: Option<Known<'_>>, yes: Reach, no: Reach) -> Outcomes {
    if matches!(what, Some(Known::Property)) { Outcomes { yes, no } } else { Outcomes::unknown() }
}

fn compared(how: Comparison, left: Option<Known<'_>>, right: Option<Known<'_>>) -> Outcomes {
    match (left, right) {
        (Some(Known::Property), Some(Known::Literal(value))) => compared_with(how, value),
        (Some(Known::Literal(value)), Some(Known::Property)) => compared_with(how.mirrored(), value),
        (Some(left), Some(right)) => {
            let mut outcomes = Outcomes::unknown();
            for side in [left, right] {
                let (yes, no) = match side {
                    // Texts have no order, and NaN comes before and behind nothing.
                    Known::Property if !how.is_equality() => {
                        (Reach { nan: false, ..Reach::number() }, Reach::present())
                    }
                    Known::Property => (Reach::present(), Reach::present()),
                    Known::Other(true) => (Reach::number(), Reach::number()),
                    _ => continue,
                };
                outcomes =
                    Outcomes { yes: outcomes.yes.intersection(&yes), no: outcomes.no.intersection(&no) };
            }
            outcomes
        }
        _ => Outcomes::unknown(),
    }
}

fn compared_with(how: Comparison, value: Value<'_>) -> Outcomes {
    let equal = match value {
        Value::Boolean(value) => Reach::boolean(value),
        Value::Text(text) => Reach::one_text(text),
        _ => match promoted(value) {
            Some(number) => Reach::numbers_between(number, number),
            None => Reach::none(),
        },
    };
    match how {
        Comparison::Equal => Outcomes { yes: equal, no: Reach::present() },
        Comparison::NotEqual => {
            let (same_type, yes) = match value {
                Value::Boolean(value) => {
                    (Reach { booleans: [true; 2], ..Reach::none() }, Reach::boolean(!value))
                }
                Value::Text(_) => (Reach::text(), Reach::text()),
                _ => (Reach::number(), Reach::number()),
            };
            Outcomes { yes, no: other_than(&same_type).union(&equal) }
        }
        Comparison::Less => {
            ordered(f64::NEG_INFINITY..=upper(below(value)), lower(promoted(value))..=f64::INFINITY)
        }
        Comparison::LessOrEqual => {
            ordered(f64::NEG_INFINITY..=upper(promoted(value)), lower(above(value))..=f64::INFINITY)
        }
        Comparison::Greater => {
            ordered(lower(above(value))..=f64::INFINITY, f64::NEG_INFINITY..=upper(promoted(value)))
        }
        Comparison::GreaterOrEqual => {
            ordered(lower(promoted(value))..=f64::INFINITY, f64::NEG_INFINITY..=upper(below(value)))
        }
    }
}

type Range = std::ops::RangeInclusive<f64>;

/// A comparison by order: what is no number is false.
fn ordered(yes: Range, no: Range) -> Outcomes {
    let no = Reach::numbers_between(*no.start(), *no.end());
    let others = Reach { nan: true, ..other_than(&Reach::number()) };
    Outcomes { yes: Reach::numbers_between(*yes.start(), *yes.end()), no: no.union(&others) }
}

/// Returns all values of other types than these values have.
fn other_than(values: &Reach) -> Reach {
    let is_number = !values.numbers().is_empty();
    let mut others = Reach::present();
    if is_number {
        (others.numbers, others.nan) = (Reach::none().numbers, false);
    }
    if values.texts().is_none() {
        others.texts = Reach::none().texts;
    }
    if values.booleans == [true; 2] {
        others.booleans = [false; 2];
    }
    others
}

/// A literal that is no number leaves every number possible.
fn upper(number: Option<f64>) -> f64 {
    number.unwrap_or(f64::INFINITY)
}

fn lower(number: Option<f64>) -> f64 {
    number.unwrap_or(f64::NEG_INFINITY)
}
