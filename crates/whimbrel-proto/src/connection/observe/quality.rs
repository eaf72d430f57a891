//! Quality thresholds: the application sets levels, and is told when a figure crosses one (Mockets 3.4).

use std::time::Duration;

use crate::{PathId, Time};

/// The most thresholds that a connection watches.
pub const MAX_THRESHOLDS: usize = 32;
/// The shortest interval between two checks of the figures.
pub(in crate::connection) const INTERVAL: Duration = Duration::from_millis(50);

/// A figure, and the level at which it is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Quality {
    /// The smoothed round trip of a path.
    Rtt(Duration),
    /// The share of packets lost lately on a path, in thousandths.
    Loss(u16),
    /// The rate that congestion control estimates for a path, in bytes a second including IP headers.
    Rate(u64),
    /// The bytes of the session's messages that are queued and not yet sent.
    Queue(u64),
}

impl Quality {
    fn level(self) -> u64 {
        match self {
            Self::Rtt(rtt) => crate::time::nanos(rtt),
            Self::Loss(share) => share.into(),
            Self::Rate(level) | Self::Queue(level) => level,
        }
    }
}

/// A level whose crossing is reported to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The figure and its level.
    pub quality: Quality,
    /// How far below the level a figure that was above must fall to count as below again. In per cent of the level, at
    /// most 100. Default 20, so that a figure that hovers at its level is reported once.
    pub hysteresis: u8,
}

impl Threshold {
    /// Returns a threshold with the default hysteresis.
    pub const fn new(quality: Quality) -> Self {
        Self { quality, hysteresis: 20 }
    }

    /// Returns whether `figure` counts as above the level, given whether it did `before`.
    fn is_above(&self, figure: u64, before: bool) -> bool {
        let level = self.quality.level();
        let fall = u64::try_from(u128::from(level) * u128::from(self.hysteresis.min(100)) / 100).unwrap_or(0);
        if before { figure > level - fall } else { figure > level }
    }
}

/// A figure crossed a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QualityChange {
    /// The path of the figure, or the first path for a figure of the session.
    pub path: PathId,
    /// The threshold that was crossed.
    pub threshold: Threshold,
    /// Whether the figure is now above; otherwise it is below again.
    pub above: bool,
    /// The figure as it is now.
    pub now: Quality,
}

/// More than [`MAX_THRESHOLDS`] thresholds were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many thresholds: a connection watches at most {MAX_THRESHOLDS}")]
pub struct TooManyThresholds;

/// The watched thresholds, and which figures are above theirs. Every figure begins below.
#[derive(Debug, Default)]
pub(in crate::connection) struct Watch {
    pub(in crate::connection) thresholds: Vec<Threshold>,
    pub(in crate::connection) above: Vec<(PathId, Threshold)>,
    pub(in crate::connection) next: Time,
}

impl Watch {
    pub(in crate::connection) fn set(&mut self, thresholds: Vec<Threshold>) {
        self.above.retain(|(_, threshold)| thresholds.contains(threshold));
        self.thresholds = thresholds;
        self.next = Time::ZERO;
    }

    pub(in crate::connection) fn is_due(&self, now: Time) -> bool {
        !self.thresholds.is_empty() && now >= self.next
    }

    /// Compares the figures of one path, or of the session, with the thresholds of their kind.
    pub(in crate::connection) fn look(
        &mut self,
        path: PathId,
        figures: &[Quality],
        mut tell: impl FnMut(QualityChange),
    ) {
        for threshold in &self.thresholds {
            let same = |figure: &&Quality| {
                std::mem::discriminant(*figure) == std::mem::discriminant(&threshold.quality)
            };
            let Some(figure) = figures.iter().find(same) else { continue };
            let at = self.above.iter().position(|entry| *entry == (path, *threshold));
            let above = threshold.is_above(figure.level(), at.is_some());
            match at {
                None if above => self.above.push((path, *threshold)),
                Some(at) if !above => drop(self.above.swap_remove(at)),
                _ => continue,
            }
            tell(QualityChange { path, threshold: *threshold, above, now: *figure });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Threshold = Threshold { quality: Quality::Loss(100), hysteresis: 20 };

    fn told(watch: &mut Watch, path: PathId, loss: u16) -> Vec<bool> {
        let mut told = Vec::new();
        watch.look(path, &[Quality::Loss(loss)], |change| told.push(change.above));
        told
    }

    #[test]
    fn a_figure_that_hovers_is_news_once() {
        let mut watch = Watch::default();
        watch.set(vec![LOSS]);
        let news: Vec<Vec<bool>> = [50, 100, 101, 99, 120, 81, 101, 80, 99, 100, 101]
            .map(|loss| told(&mut watch, PathId(0), loss))
            .into();
        let crossings: Vec<(usize, bool)> = news
            .iter()
            .enumerate()
            .flat_map(|(at, told)| told.iter().map(move |above| (at, *above)))
            .collect();
        assert_eq!(crossings, [(2, true), (7, false), (10, true)]);
    }

    #[test]
    fn each_path_stands_for_itself() {
        let mut watch = Watch::default();
        watch.set(vec![LOSS, Threshold::new(Quality::Queue(1))]);
        assert_eq!(told(&mut watch, PathId(0), 200), [true]);
        assert_eq!(told(&mut watch, PathId(2), 200), [true]);
        assert_eq!(told(&mut watch, PathId(0), 0), [false]);
        assert_eq!(told(&mut watch, PathId(2), 300), [false; 0]);
        watch.set(vec![]);
        watch.set(vec![LOSS]);
        assert_eq!(told(&mut watch, PathId(2), 300), [true], "watched anew, told anew");
    }
}
