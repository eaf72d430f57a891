//! The duration of an absence: exponential, or hyper-exponential with two phases.

use std::time::Duration;

use rand::{Rng, RngExt};

/// A distribution of absences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Absence {
    /// The two phases: how probable each is, and its mean in seconds.
    phases: [(f64, f64); 2],
}

impl Absence {
    /// A distribution with this mean and coefficient of variation, which is at least 1. At 1 it is exponential. Above, its
    /// phases have balanced means: each accounts for half of all time away.
    pub(crate) fn new(mean: Duration, variation: f64) -> Self {
        let (mean, square) = (mean.as_secs_f64(), variation.max(1.0).powi(2));
        let first = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
        Self { phases: [first, 1.0 - first].map(|part| (part, mean / (2.0 * part))) }
    }

    /// The mean, in seconds.
    pub(crate) fn mean(&self) -> f64 {
        self.phases.iter().map(|(part, mean)| part * mean).sum()
    }

    /// Draws an absence.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> Duration {
        let [(first, short), (_, long)] = self.phases;
        let mean = if rng.random_bool(first) { short } else { long };
        exponential(mean, rng)
    }

    /// The share of those who are away at some moment that are still away, without a break, so many seconds later.
    pub(crate) fn still_away(&self, seconds: f64) -> f64 {
        let rest = |(part, mean): &(f64, f64)| part * mean * (-seconds / mean).exp();
        self.phases.iter().map(rest).sum::<f64>() / self.mean()
    }
}

/// Draws from an exponential distribution with this mean, in seconds.
pub(super) fn exponential(mean: f64, rng: &mut impl Rng) -> Duration {
    Duration::try_from_secs_f64(-mean * (1.0 - rng.random::<f64>()).ln()).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const DRAWS: usize = 200_000;

    #[test]
    fn absences_have_the_mean_and_the_variation_asked_for() {
        for variation in [1.0, 1.5, 2.0, 2.5] {
            let (absence, mut rng) =
                (Absence::new(Duration::from_secs(12), variation), ChaCha8Rng::seed_from_u64(7));
            let all: Vec<f64> = (0..DRAWS).map(|_| absence.draw(&mut rng).as_secs_f64()).collect();
            let mean = all.iter().sum::<f64>() / DRAWS as f64;
            let square = all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / DRAWS as f64;
            assert!((mean / 12.0 - 1.0).abs() < 0.02, "{variation}: a mean of {mean}");
            assert!(
                (square.sqrt() / mean / variation - 1.0).abs() < 0.04,
                "{variation}: {}",
                square.sqrt() / mean
            );
            assert!((absence.mean() - 12.0).abs() < 1e-9);
        }
    }

    #[test]
    fn who_is_still_away_follows_from_the_draws() {
        for variation in [1.0, 2.5] {
            let (absence, mut rng) =
                (Absence::new(Duration::from_secs(24), variation), ChaCha8Rng::seed_from_u64(3));
            let all: Vec<f64> = (0..DRAWS).map(|_| absence.draw(&mut rng).as_secs_f64()).collect();
            let whole: f64 = all.iter().sum();
            for seconds in [0.0, 10.0, 40.0] {
                let left: f64 = all.iter().map(|one| (one - seconds).max(0.0)).sum();
                let found = absence.still_away(seconds);
                assert!(
                    (found - left / whole).abs() < 0.02,
                    "{variation}, {seconds} s: {found}, drawn {}",
                    left / whole
                );
            }
        }
    }
}
