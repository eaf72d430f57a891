//! What the flows of a draw got, beside what each of them could expect.

use super::{ALONE, LEAST, OWN, SPAN, SUM, fair, sharers};
use crate::sample::{Metrics, Record, Sample};

/// What a flow got on a draw, as shares of what it could expect: the smaller of what is fair and of what it reaches
/// alone.
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
        let flows = sharers(&sample.condition, &sample.peer);
        let fair = fair(sample.seed, flows.len(), SPAN);
        let expected = |peer: &str| Some(alone(record, sample.seed, peer)?.min(fair));
        let part = |figure: f64, peer: &str| {
            let expected = expected(peer)?;
            // A flow that reaches nothing alone has lost nothing.
            Some(if expected > 0.0 { figure / expected } else { 1.0 })
        };
        let of = |metric| figure(&sample.result, metric);
        let [own, other] = match flows[..] {
            [mine, theirs] => [part(of(OWN), mine)?, part(of(SUM) - of(OWN), theirs)?],
            _ => [part(of(LEAST), flows[0])?; 2],
        };
        Some(Self { seed: sample.seed, own, other: (flows.len() == 2).then_some(other) })
    }

    /// The share of whoever got the least.
    pub(super) fn least(&self) -> f64 {
        self.other.map_or(self.own, |other| other.min(self.own))
    }
}

fn alone(record: &Record, seed: u64, peer: &str) -> Option<f64> {
    let mut samples = record.samples.iter();
    let is_it = |sample: &&Sample| sample.seed == seed && sample.condition == ALONE && sample.peer == peer;
    Some(figure(&samples.find(is_it)?.result, OWN))
}

fn figure(result: &Result<Metrics, String>, metric: &str) -> f64 {
    result.as_ref().ok().and_then(|metrics| metrics.values.get(metric).copied()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::{BESIDE_BBR, FOUR, OURS};
    use super::*;
    use crate::machine::Header;

    fn sample(condition: &str, peer: &str, figures: Option<[f64; 3]>) -> Sample {
        let mut metrics = Metrics::default();
        for (name, figure) in [OWN, LEAST, SUM].into_iter().zip(figures.into_iter().flatten()) {
            metrics.set(name, figure);
        }
        let result = if figures.is_some() { Ok(metrics) } else { Err("it hung".to_owned()) };
        let (condition, peer) = (condition.to_owned(), peer.to_owned());
        Sample { experiment: "sharing".to_owned(), condition, peer, trial: 1, seed: 1, result }
    }

    #[test]
    fn a_flow_is_measured_by_what_it_could_expect() {
        let half = fair(1, 2, SPAN);
        let alone = |peer, reached| sample(ALONE, peer, Some([reached; 3]));
        let with = |company| Record {
            // TCP reaches a quarter of its half alone; ours reaches all there is.
            samples: vec![alone(OURS, 2.0 * half), alone("tcp-bbr", half / 4.0), company],
            header: Header::default(),
        };
        let close = |share: f64, expected: f64| assert!((share - expected).abs() < 1e-3, "{share}");
        let company = sample(BESIDE_BBR, OURS, Some([half / 2.0, half / 8.0, half / 2.0 + half / 8.0]));
        let found = Company::of(&with(company), BESIDE_BBR, OURS);
        close(found[0].own, 0.5);
        close(found[0].other.unwrap(), 0.5);
        let failed = Company::of(&with(sample(BESIDE_BBR, OURS, None)), BESIDE_BBR, OURS);
        close(failed[0].least(), 0.0);
        let four = sample(FOUR, OURS, Some([half / 2.0, half / 4.0, 2.0 * half]));
        let found = Company::of(&with(four), FOUR, OURS);
        close(found[0].least(), 0.5);
        assert_eq!(found[0].other, None);
    }

    #[test]
    fn a_draw_without_the_flows_alone_is_left_out() {
        let company = sample(BESIDE_BBR, OURS, Some([1.0, 1.0, 2.0]));
        let record = Record { samples: vec![company], header: Header::default() };
        assert_eq!(Company::of(&record, BESIDE_BBR, OURS), []);
    }
}
