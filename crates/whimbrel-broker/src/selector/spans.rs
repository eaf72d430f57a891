use whimbrel_pubsub::property::Value;

use super::arithmetic::promote;

/// The most spans that are told apart. Beyond it, those with the least room between them become one.
const MAX_SPANS: usize = 16;

/// Whole numbers below this, and the next ones beside them, are all different as `f64`.
const EXACT: u64 = 1 << 53;

/// Numbers between two ends, both included. Whole numbers count as the `f64` they are promoted to, and -0.0 as 0.0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The lowest, maybe negative infinity.
    pub low: f64,
    /// The highest, maybe infinity.
    pub high: f64,
}

impl Span {
    pub(super) const ALL: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// Returns whether it is one number.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "the ends are compared as they are")]
    pub fn is_point(&self) -> bool {
        self.low == self.high
    }

    /// Returns whether a number is in it.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        self.low <= number && number <= self.high
    }
}

/// A set of numbers other than NaN: disjoint spans in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spans(Vec<Span>);

impl Spans {
    pub(super) fn of(low: f64, high: f64) -> Self {
        // Adding zero makes 0.0 of -0.0.
        if low <= high { Self(vec![Span { low: low + 0.0, high: high + 0.0 }]) } else { Self::default() }
    }

    pub(super) fn all() -> Self {
        Self(vec![Span::ALL])
    }

    pub(super) fn as_slice(&self) -> &[Span] {
        &self.0
    }

    pub(super) fn contains(&self, number: f64) -> bool {
        self.0.iter().any(|span| span.contains(number))
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |two| (one, two)));
        let common = pairs.map(|(one, two)| Span { low: one.low.max(two.low), high: one.high.min(two.high) });
        Self(common.filter(|span| span.low <= span.high).collect()).tidied()
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect()).tidied()
    }

    /// Sorts spans and joins those that touch, and more if there are too many.
    fn tidied(mut self) -> Self {
        self.0.sort_by(|one, other| one.low.total_cmp(&other.low));
        let mut tidy: Vec<Span> = Vec::with_capacity(self.0.len());
        for span in self.0 {
            match tidy.last_mut() {
                Some(last) if span.low <= last.high => last.high = last.high.max(span.high),
                _ => tidy.push(span),
            }
        }
        while tidy.len() > MAX_SPANS {
            let gap = |pair: &[Span]| pair[1].low - pair[0].high;
            let narrowest =
                tidy.windows(2).enumerate().min_by(|one, other| gap(one.1).total_cmp(&gap(other.1)));
            let Some(at) = narrowest.map(|(at, _)| at) else { break };
            tidy[at].high = tidy.remove(at + 1).high;
        }
        Self(tidy)
    }
}

/// A number as it is compared with others of any type; `None` for NaN and what is no number.
pub(crate) fn promoted(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(promote(value)),
        Value::Float(value) => (!value.is_nan()).then_some(value + 0.0),
        _ => None,
    }
}

/// The highest number that may be less than a value. Next to a whole number that has lost its last digits, this is itself.
pub(super) fn below(value: Value<'_>) -> Option<f64> {
    promoted(value).map(|number| if is_exact(value) { number.next_down() } else { number })
}

/// The lowest number that may be greater than a value.
pub(super) fn above(value: Value<'_>) -> Option<f64> {
    promoted(value).map(|number| if is_exact(value) { number.next_up() } else { number })
}

fn is_exact(value: Value<'_>) -> bool {
    !matches!(value, Value::Integer(value) if value.unsigned_abs() >= EXACT)
}
