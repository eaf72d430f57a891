use std::ops::Bound;

use whimbrel_pubsub::property::Value;

use super::spans::{Span, Spans, promoted};

/// The most texts that are told apart. Beyond it, every text counts as possible.
const MAX_TEXTS: usize = 256;

/// A set of values that a property may have, its absence among them. It contains what it has to, and maybe more.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    pub(super) absent: bool,
    pub(super) bytes: bool,
    pub(super) booleans: [bool; 2],
    pub(super) texts: Texts,
    pub(super) numbers: Spans,
    pub(super) nan: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Texts {
    Any,
    /// Sorted.
    Among(Vec<Box<str>>),
}

impl Reach {
    /// Returns whether the property may have this value; `None` asks whether it may be absent.
    #[must_use]
    pub fn allows(&self, value: Option<Value<'_>>) -> bool {
        match value {
            None => self.absent,
            Some(Value::Boolean(value)) => self.booleans[usize::from(value)],
            Some(Value::Bytes(_)) => self.bytes,
            Some(Value::Text(text)) => self.texts.contains(text),
            Some(value) => promoted(value).map_or(self.nan, |number| self.numbers.contains(number)),
        }
    }

    /// Returns whether the property may be a number of this range.
    #[must_use]
    pub fn allows_numbers(&self, low: Bound<f64>, high: Bound<f64>) -> bool {
        self.numbers.as_slice().iter().any(|span| {
            let from_low = match low {
                Bound::Included(low) => span.high >= low,
                Bound::Excluded(low) => span.high > low,
                Bound::Unbounded => true,
            };
            let to_high = match high {
                Bound::Included(high) => span.low <= high,
                Bound::Excluded(high) => span.low < high,
                Bound::Unbounded => true,
            };
            from_low && to_high
        })
    }

    /// Returns whether no value is possible: the selector is true for no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::none()
    }

    /// Returns whether the property must be there.
    #[must_use]
    pub fn is_present(&self) -> bool {
        !self.absent
    }

    /// Returns the texts that it may be, in ascending order. `None`: any.
    #[must_use]
    pub fn texts(&self) -> Option<&[Box<str>]> {
        match &self.texts {
            Texts::Any => None,
            Texts::Among(texts) => Some(texts),
        }
    }

    /// Returns the numbers that it may be, in ascending order.
    #[must_use]
    pub fn numbers(&self) -> &[Span] {
        self.numbers.as_slice()
    }

    /// Returns whether it may be a number that is not one (NaN).
    #[must_use]
    pub fn allows_nan(&self) -> bool {
        self.nan
    }

    /// Returns whether it may be bytes.
    #[must_use]
    pub fn allows_bytes(&self) -> bool {
        self.bytes
    }

    pub(super) fn none() -> Self {
        Self {
            absent: false,
            bytes: false,
            booleans: [false; 2],
            texts: Texts::Among(Vec::new()),
            numbers: Spans::default(),
            nan: false,
        }
    }

    pub(super) fn any() -> Self {
        Self { absent: true, ..Self::present() }
    }

    pub(super) fn present() -> Self {
        Self { bytes: true, booleans: [true; 2], texts: Texts::Any, ..Self::number() }
    }

    pub(super) fn number() -> Self {
        Self { numbers: Spans::all(), nan: true, ..Self::none() }
    }

    pub(super) fn numbers_between(low: f64, high: f64) -> Self {
        Self { numbers: Spans::of(low, high), ..Self::none() }
    }

    pub(super) fn text() -> Self {
        Self { texts: Texts::Any, ..Self::none() }
    }

    pub(super) fn one_text(text: &str) -> Self {
        Self { texts: Texts::Among(vec![text.into()]), ..Self::none() }
    }

    pub(super) fn boolean(value: bool) -> Self {
        Self { booleans: [!value, value], ..Self::none() }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self {
            absent: self.absent && other.absent,
            bytes: self.bytes && other.bytes,
            booleans: [self.booleans[0] && other.booleans[0], self.booleans[1] && other.booleans[1]],
            texts: self.texts.intersection(&other.texts),
            numbers: self.numbers.intersection(&other.numbers),
            nan: self.nan && other.nan,
        }
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self {
            absent: self.absent || other.absent,
            bytes: self.bytes || other.bytes,
            booleans: [self.booleans[0] || other.booleans[0], self.booleans[1] || other.booleans[1]],
            texts: self.texts.union(&other.texts),
            numbers: self.numbers.union(&other.numbers),
            nan: self.nan || other.nan,
        }
    }
}

impl Texts {
    fn contains(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Among(texts) => texts.binary_search_by(|one| (**one).cmp(text)).is_ok(),
        }
    }

    fn intersection(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Any, some) | (some, Self::Any) => some.clone(),
            (Self::Among(texts), _) => {
                Self::Among(texts.iter().filter(|text| other.contains(text)).cloned().collect())
            }
        }
    }

    fn union(&self, other: &Self) -> Self {
        let (Self::Among(one), Self::Among(two)) = (self, other) else { return Self::Any };
        let mut texts: Vec<_> = one.iter().chain(two).cloned().collect();
        texts.sort_unstable();
        texts.dedup();
        if texts.len() > MAX_TEXTS { Self::Any } else { Self::Among(texts) }
    }
}
