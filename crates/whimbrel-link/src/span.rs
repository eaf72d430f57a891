//! A duration that is drawn from a range.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::{Rng, RngExt};

use crate::units::{self, ParseError};

/// A duration, or a range from which one is drawn uniformly. Written `10ms`, or `0ms..50ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    least: Duration,
    most: Duration,
}

impl Span {
    /// Always this duration.
    pub fn exactly(duration: Duration) -> Self {
        Self { least: duration, most: duration }
    }

    /// Any duration from `least` to `most`, or the other way around.
    pub fn between(least: Duration, most: Duration) -> Self {
        Self { least: least.min(most), most: least.max(most) }
    }

    /// Returns the longest duration.
    pub fn most(&self) -> Duration {
        self.most
    }

    /// Draws one. A range of a single duration takes nothing from the dice.
    pub(crate) fn draw(&self, dice: &mut impl Rng) -> Duration {
        if self.least == self.most {
            return self.least;
        }
        self.least + (self.most - self.least).mul_f64(dice.random::<f64>())
    }
}

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((least, most)) = text.split_once("..") else {
            return units::duration(text).map(Self::exactly);
        };
        Ok(Self::between(units::duration(least)?, units::duration(most)?))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            return write!(f, "{:?}", self.least);
        }
        write!(f, "{:?}..{:?}", self.least, self.most)
    }
}
