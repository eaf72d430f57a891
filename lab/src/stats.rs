//! Medians and spreads, and the rule for when two of them differ.

use crate::experiment::Better;

/// Median and range of the trials of one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Middle value, or the mean of the two middle values.
    pub(crate) median: f64,
    /// Least value.
    pub(crate) low: f64,
    /// Greatest value.
    pub(crate) high: f64,
    /// Number of trials.
    pub(crate) trials: usize,
}

impl Spread {
    /// Returns the spread of values in any order. `None` if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values = sorted(values);
        let (low, high) = (*values.first()?, *values.last()?);
        Some(Self { median: percentile(&values, 0.5)?, low, high, trials: values.len() })
    }
}

/// Whether one peer is better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Every trial of the first was better than every trial of the second.
    Better,
    /// Every trial of the first was worse than every trial of the second.
    Worse,
    /// The spread covers the difference.
    Same,
    /// One of them has fewer than [`ENOUGH`] trials. Chance would set equal peers apart too often.
    TooFew,
}

/// Trials of each of two peers that are needed to show a difference. If the peers are equal, five trials each lie apart
/// by chance once in 126 comparisons, and four trials each once in 35.
pub(crate) const ENOUGH: usize = 5;

/// The rule, as the report words it.
pub(crate) const RULE: &str = "Two peers differ where every trial of one was better than every trial of the other, with at \
    least five trials each. (Of two that are alike, five trials each lie so apart once in 126 comparisons.) Otherwise it says \
    \"no difference: the spread covers it\".";

/// Compares two peers by [`RULE`].
pub(crate) fn compare(one: &Spread, other: &Spread, better: Better) -> Comparison {
    if one.trials.min(other.trials) < ENOUGH {
        return Comparison::TooFew;
    }
    let (above, below) = (one.low > other.high, one.high < other.low);
    match (better, above, below) {
        (Better::Higher, true, _) | (Better::Lower, _, true) => Comparison::Better,
        (Better::Higher, _, true) | (Better::Lower, true, _) => Comparison::Worse,
        _ => Comparison::Same,
    }
}

/// Returns the values in ascending order, without NaN.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the value at a share (0 to 1) of ascending values, interpolated between two of them. `None` if there are
/// none.
pub(crate) fn percentile(ascending: &[f64], share: f64) -> Option<f64> {
    let place = share.clamp(0.0, 1.0) * ascending.len().checked_sub(1)? as f64;
    let (below, above) = (ascending[place.floor() as usize], ascending[place.ceil() as usize]);
    // Between two infinite values, such as those of trials that failed, there is no difference to take a part of.
    if below == above {
        return Some(below);
    }
    Some(below + (above - below) * place.fract())
}

/// Returns Jain's index of fairness (Jain, Chiu, Hawe 1984): 1 if all have the same, 1/n if one has everything. `None`
/// if nobody has anything.
pub(crate) fn jain(shares: &[f64]) -> Option<f64> {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn a_median_lies_between_the_middle_two() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, low: 1.0, high: 3.0, trials: 3 });
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([]), None);
        assert_eq!(spread(&[f64::NAN, 7.0]).median, 7.0);
    }

    #[test]
    fn percentiles_reach_from_the_least_to_the_most() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        for (share, value) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.955, 95.5)] {
            assert!((percentile(&values, share).unwrap() - value).abs() < 1e-9);
        }
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[5.0], 0.99), Some(5.0));
        assert_eq!(percentile(&[5.0, f64::INFINITY, f64::INFINITY], 1.0), Some(f64::INFINITY));
    }

    #[test]
    fn peers_differ_only_where_their_trials_lie_apart() {
        let (low, high, across) = (
            spread(&[1.0, 2.0, 2.5, 3.0, 4.0]),
            spread(&[5.0, 6.0, 6.5, 7.0, 8.0]),
            spread(&[3.5, 9.0, 9.0, 9.0, 9.0]),
        );
        assert_eq!(compare(&high, &low, Better::Higher), Comparison::Better);
        assert_eq!(compare(&low, &high, Better::Higher), Comparison::Worse);
        assert_eq!(compare(&low, &high, Better::Lower), Comparison::Better);
        assert_eq!(compare(&high, &low, Better::Lower), Comparison::Worse);
        assert_eq!(compare(&low, &across, Better::Lower), Comparison::Same);
        assert_eq!(compare(&low, &low, Better::Lower), Comparison::Same);
        assert_eq!(compare(&spread(&[1.0, 1.1, 1.2, 1.3]), &high, Better::Lower), Comparison::TooFew);
    }

    #[test]
    fn jains_index_is_one_for_equals_and_one_nth_for_a_glutton() {
        assert_eq!(jain(&[3.0, 3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain(&[1.0, 3.0]).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }
}
