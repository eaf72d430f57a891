//! Sources of random decisions.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A source of decisions.
pub trait Dice {
    /// A number below `n`, which must be above 0.
    fn below(&mut self, n: u32) -> u32;

    /// Begins the next part of a run, of the parts called `name`. Returns false if there are no more.
    fn part(&mut self, name: &'static str) -> bool {
        let _ = name;
        true
    }

    /// True in `percent` of a hundred cases.
    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }
}

/// Decisions from a seed.
pub struct Seeded(ChaCha8Rng);

impl Seeded {
    /// Creates a source; the same seed gives the same decisions.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }
}

impl Dice for Seeded {
    fn below(&mut self, n: u32) -> u32 {
        self.0.random_range(0..n)
    }
}

/// Decisions from bytes, one or two each; zeros when they are used up.
pub struct FromBytes<'a>(&'a [u8]);

impl<'a> FromBytes<'a> {
    /// Creates a source from a fuzzer's bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn byte(&mut self) -> u32 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u32::from(*first)
    }
}

impl Dice for FromBytes<'_> {
    fn below(&mut self, n: u32) -> u32 {
        let value = if n > 256 { self.byte() << 8 | self.byte() } else { self.byte() };
        // The value is scaled, so that a small change of a byte is a small change of the decision.
        let range = if n > 256 { 1u64 << 16 } else { 1 << 8 };
        (u64::from(value) * u64::from(n) / range) as u32
    }

    fn part(&mut self, _: &'static str) -> bool {
        !self.0.is_empty()
    }
}
