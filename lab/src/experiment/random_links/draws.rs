//! The figures of all peers, draw by draw.

use std::collections::BTreeMap;

use super::{DROPPED, condition};
use crate::sample::{Record, Sample};

/// Peer that the experiment is about.
pub(super) const OURS: &str = "whimbrel";
/// A peer that drops more of what it sends floods the link, in percent. It is no measure for others.
const FLOODS: f64 = 5.0;
/// Figures that are closer than this share are a tie.
const TIE: f64 = 0.02;

/// The figures of one table, with the draws' seeds and the names of peers.
pub(super) struct Draws {
    figures: BTreeMap<u64, BTreeMap<String, Found>>,
    /// Whether more is better.
    higher: bool,
}

/// The figure of a peer on a draw.
#[derive(Clone, Copy, Debug)]
struct Found {
    figure: f64,
    floods: bool,
}

/// How many draws ours won, tied and lost beside a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) won: usize,
    pub(super) tied: usize,
    pub(super) lost: usize,
}

impl Draws {
    /// The draws of a table. A trial that failed has the worst figure; one without the figure was not for this draw.
    pub(super) fn new(record: &Record, table: &str, metric: &str, higher: bool) -> Self {
        let mut figures: BTreeMap<u64, BTreeMap<String, Found>> = BTreeMap::new();
        let mine = condition(table);
        for sample in record.samples.iter().filter(|sample| sample.condition == mine) {
            if let Some(found) = found(sample, metric, higher) {
                figures.entry(sample.seed).or_default().insert(sample.peer.clone(), found);
            }
        }
        Self { figures, higher }
    }

    pub(super) fn peers(&self) -> Vec<&str> {
        let mut peers: Vec<&str> =
            self.figures.values().flat_map(|of| of.keys().map(String::as_str)).collect();
        peers.sort_unstable_by_key(|peer| (*peer != OURS, *peer));
        peers.dedup();
        peers
    }

    /// The seeds, and the figure of `peer` at each.
    pub(super) fn of<'a>(&'a self, peer: &'a str) -> impl Iterator<Item = (u64, f64)> + 'a {
        self.figures.iter().filter_map(move |(seed, of)| Some((*seed, of.get(peer)?.figure)))
    }

    /// How ours did beside a peer on the draws that `with` picks.
    pub(super) fn score(&self, peer: &str, with: impl Fn(u64) -> bool) -> Score {
        let mut score = Score::default();
        for (_, of) in self.figures.iter().filter(|(seed, _)| with(**seed)) {
            let (Some(ours), Some(theirs)) = (of.get(OURS), of.get(peer)) else { continue };
            let (ours, theirs) = (ours.figure, theirs.figure);
            let (better, worse) = if self.higher { (ours, theirs) } else { (theirs, ours) };
            if ours == theirs || (better - worse).abs() <= TIE * ours.abs().max(theirs.abs()) {
                score.tied += 1;
            } else if better > worse {
                score.won += 1;
            } else {
                score.lost += 1;
            }
        }
        score
    }

    /// The seeds at which ours and the best of the others that do not flood were measured, with both figures.
    pub(super) fn beside_best(&self) -> impl Iterator<Item = (u64, f64, f64)> + '_ {
        self.figures.iter().filter_map(|(seed, of)| {
            let ours = of.get(OURS)?.figure;
            let others = of.iter().filter(|(peer, found)| *peer != OURS && !found.floods);
            let figures = others.map(|(_, found)| found.figure);
            let best = figures.reduce(if self.higher { f64::max } else { f64::min })?;
            Some((*seed, ours, best))
        })
    }
}

fn found(sample: &Sample, metric: &str, higher: bool) -> Option<Found> {
    let Ok(metrics) = &sample.result else {
        return Some(Found { figure: if higher { 0.0 } else { f64::INFINITY }, floods: false });
    };
    let floods = metrics.values.get(DROPPED).is_some_and(|dropped| *dropped >= FLOODS);
    Some(Found { figure: *metrics.values.get(metric)?, floods })
}

#[cfg(test)]
mod tests {
    use super::super::{BULK, SHARE};
    use super::*;
    use crate::machine::Header;
    use crate::sample::Metrics;

    fn sample(seed: u64, peer: &str, share: Option<f64>, dropped: f64) -> Sample {
        let mut metrics = Metrics::default();
        share.iter().for_each(|share| metrics.set(SHARE, *share));
        metrics.set(DROPPED, dropped);
        let result = if share.is_some() { Ok(metrics) } else { Err("it hung".to_owned()) };
        let (experiment, condition) = ("random-links".to_owned(), condition(BULK));
        Sample { experiment, condition, peer: peer.to_owned(), trial: seed, seed, result }
    }

    #[test]
    fn a_draw_is_won_beyond_two_percent_and_lost_by_failing() {
        let samples = vec![
            sample(1, OURS, Some(90.0), 0.0),
            sample(1, "tcp-bbr", Some(80.0), 0.0),
            sample(2, OURS, Some(90.0), 0.0),
            sample(2, "tcp-bbr", Some(91.0), 9.0),
            sample(2, "tcp-cubic", Some(70.0), 0.0),
            sample(3, OURS, None, 0.0),
            sample(3, "tcp-bbr", Some(5.0), 0.0),
        ];
        let draws = Draws::new(&Record { header: Header::default(), samples }, BULK, SHARE, true);
        assert_eq!(draws.peers(), [OURS, "tcp-bbr", "tcp-cubic"]);
        assert_eq!(draws.score("tcp-bbr", |_| true), Score { won: 1, tied: 1, lost: 1 });
        assert_eq!(draws.score("tcp-bbr", |seed| seed == 1), Score { won: 1, tied: 0, lost: 0 });
        let best: Vec<_> = draws.beside_best().collect();
        assert_eq!(best, [(1, 90.0, 80.0), (2, 90.0, 70.0), (3, 0.0, 5.0)], "one that floods is no measure");
    }
}
