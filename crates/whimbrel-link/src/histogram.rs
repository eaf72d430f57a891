//! Durations counted in buckets of about 3 %.

use std::time::Duration;

/// Each power of two is cut into this many buckets.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// A histogram of durations from 0 to 584 years, with a resolution of 3 % or 1 µs, whichever is larger. It grows with
/// the range of its values to at most 15 KB, and records in constant time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: Duration,
    max: Duration,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let bucket = bucket(duration);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
        self.max = self.max.max(duration);
    }

    /// Returns the number of durations recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact maximum; zero if nothing was recorded.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the exact mean; zero if nothing was recorded.
    pub fn mean(&self) -> Duration {
        if self.count == 0 { Duration::ZERO } else { self.sum.div_f64(self.count as f64) }
    }

    /// Returns the value that a share `quantile` (0 to 1) of the durations does not exceed, rounded up by at most 3 % or 1
    /// µs. Zero if nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let rank = (quantile.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_edge(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Adds another histogram's counts to this one.
    pub fn merge(&mut self, other: &Self) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

fn bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    if micros < STEPS {
        return micros as usize;
    }
    let octave = micros.ilog2() - STEP_BITS;
    (u64::from(octave) * STEPS + (micros >> octave)) as usize
}

fn upper_edge(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return Duration::from_micros(bucket);
    }
    let octave = bucket / STEPS - 1;
    let mantissa = bucket % STEPS + STEPS;
    Duration::from_micros((((u128::from(mantissa) + 1) << octave) - 1).try_into().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_at_most_its_buckets_edge_and_within_three_percent_of_it() {
        for micros in (0..5000).chain([1 << 20, (1 << 20) + 1, 86_400_000_000, u64::MAX / 1000]) {
            let value = Duration::from_micros(micros);
            let edge = upper_edge(bucket(value));
            assert!(
                edge >= value && edge.as_secs_f64() <= value.as_secs_f64() * 1.0313 + 1e-9,
                "{value:?} {edge:?}"
            );
        }
    }

    #[test]
    fn quantiles_of_one_to_a_hundred() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        for (quantile, exact) in [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0)] {
            let found = histogram.quantile(quantile).as_secs_f64() * 1e3;
            assert!((exact..exact * 1.032).contains(&found), "{quantile}: {found}");
        }
        assert_eq!(histogram.quantile(1.0), Duration::from_millis(100));
        assert_eq!(histogram.mean(), Duration::from_micros(50_500));
        assert_eq!((histogram.count(), histogram.max()), (100, Duration::from_millis(100)));
    }

    #[test]
    fn an_empty_one_is_all_zero() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile(0.95), empty.mean(), empty.max()), Default::default());
    }

    #[test]
    fn merging_adds() {
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        a.record(Duration::from_millis(1));
        b.record(Duration::from_secs(1));
        a.merge(&b);
        assert_eq!((a.count(), a.max()), (2, Duration::from_secs(1)));
    }
}
