//! The goodput of each flow of a draw, as a share of what that flow could expect.

use super::{ALONE, FAIR, LEAST, OWN, SUM, sharers};
use crate::sample::{Record, Sample};

/// The goodputs of the flows of a draw, as shares of what they could expect: the smaller of the fair share and of what
/// the flow reaches alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Company {
    pub(super) seed: u64,
    /// The flow that the case is about. Among four of a kind, the one with the least.
    pub(super) own: f64,
    /// The flow beside it. None among flows of one kind.
    pub(super) other: Option<f64>,
}

impl Company {
    /// The draws of a case on which every flow has run alone, too. A trial that failed gave nothing to anyone.
    pub(super) fn of(record: &Record, condition: &str, peer: &str) -> Vec<Self> {
        let samples = record.samples.iter();
        let mine = samples.filter(|sample| sample.condition == condition && sample.peer == peer);
        mine.filter_map(|sample| Self::at(record, sample)).collect()
    }

    fn at(record: &Record, sample: &Sample) -> Option<Self> {
        let seed = sample.seed;
        let flows = sharers(&sample.condition, &sample.peer);
        let alone: Option<Vec<f64>> = flows.iter().map(|peer| alone(record, seed, peer)).collect();
        let alone = alone?;
        let of = |metric| figure(sample, metric).unwrap_or(0.0);
        let part = |figure: f64, flow: usize| {
            let expected = alone[flow].min(of(FAIR));
            if expected > 0.0 { figure / expected } else { 0.0 }
        };
        let pair = flows.len() == 2;
        let own = part(of(if pair { OWN } else { LEAST }), 0);
        Some(Self { seed, own, other: pair.then(|| part(of(SUM) - of(OWN), 1)) })
    }

    /// The share of whoever got the least.
    pub(super) fn least(&self) -> f64 {
        self.other.map_or(self.own, |other| other.min(self.own))
    }
}

/// Returns what a peer reached alone on a draw. None: it did not run, failed, or received nothing, so nothing can be
/// said of the draw.
fn alone(record: &Record, seed: u64, peer: &str) -> Option<f64> {
    let mut samples = record.samples.iter();
    let is_it = |sample: &&Sample| sample.seed == seed && sample.condition == ALONE && sample.peer == peer;
    figure(samples.find(is_it)?, OWN).filter(|reached| *reached > 0.0)
}

fn figure(sample: &Sample, metric: &str) -> Option<f64> {
    sample.result.as_ref().ok()?.values.get(metric).copied()
}

#[cfg(test)]
mod tests {
    use super::super::{BESIDE_BBR, FOUR, OURS};
    use super::*;
    use crate::machine::Header;
    use crate::sample::Metrics;

    /// The fair share of one of two, in Mbit/s.
    const HALF: f64 = 2.0;

    fn sample(condition: &str, peer: &str, figures: Option<[f64; 3]>) -> Sample {
        let mut metrics = Metrics::default();
        for (name, figure) in [OWN, LEAST, SUM].into_iter().zip(figures.into_iter().flatten()) {
            metrics.set(name, figure);
        }
        metrics.set(FAIR, if condition == FOUR { HALF / 2.0 } else { HALF });
        let result = if figures.is_some() { Ok(metrics) } else { Err("it hung".to_owned()) };
        let (condition, peer) = (condition.to_owned(), peer.to_owned());
        Sample { experiment: "sharing".to_owned(), condition, peer, trial: 1, seed: 1, result }
    }

    #[test]
    fn a_flow_is_measured_by_what_it_could_expect() {
        let alone = |peer, reached| sample(ALONE, peer, Some([reached; 3]));
        let with = |company| Record {
            // TCP reaches a quarter of its half alone; ours reaches all there is.
            samples: vec![alone(OURS, 2.0 * HALF), alone("tcp-bbr", HALF / 4.0), company],
            header: Header::default(),
        };
        let close = |share: f64, expected: f64| assert!((share - expected).abs() < 1e-3, "{share}");
        let company = sample(BESIDE_BBR, OURS, Some([HALF / 2.0, HALF / 8.0, HALF / 2.0 + HALF / 8.0]));
        let found = Company::of(&with(company), BESIDE_BBR, OURS);
        close(found[0].own, 0.5);
        close(found[0].other.unwrap(), 0.5);
        let failed = Company::of(&with(sample(BESIDE_BBR, OURS, None)), BESIDE_BBR, OURS);
        close(failed[0].least(), 0.0);
        let four = sample(FOUR, OURS, Some([HALF / 2.0, HALF / 4.0, 2.0 * HALF]));
        let found = Company::of(&with(four), FOUR, OURS);
        close(found[0].least(), 0.5);
        assert_eq!(found[0].other, None);
    }

    #[test]
    fn a_draw_on_which_a_flow_failed_alone_is_left_out() {
        let company = sample(BESIDE_BBR, OURS, Some([1.0, 1.0, 2.0]));
        let alone = [sample(ALONE, OURS, Some([1.0; 3])), sample(ALONE, "tcp-bbr", None)];
        let record =
            Record { samples: alone.into_iter().chain([company]).collect(), header: Header::default() };
        assert_eq!(Company::of(&record, BESIDE_BBR, OURS), []);
    }

    #[test]
    fn a_draw_without_the_flows_alone_is_left_out() {
        let company = sample(BESIDE_BBR, OURS, Some([1.0, 1.0, 2.0]));
        let record = Record { samples: vec![company], header: Header::default() };
        assert_eq!(Company::of(&record, BESIDE_BBR, OURS), []);
    }
}
