//! Reporting figures that cross a threshold.

use super::quality::{INTERVAL, MAX_THRESHOLDS, Quality, Threshold, TooManyThresholds};
use crate::connection::event::Event;
use crate::connection::paths::path_state::PathState;
use crate::connection::state::Connection;
use crate::{PathId, Time};

impl Connection {
    /// Replaces the watched thresholds. [`Event::Quality`] reports when one is crossed. A figure that is above already
    /// is reported at once.
    ///
    /// # Errors
    /// [`TooManyThresholds`] if there are more than [`MAX_THRESHOLDS`]. The old thresholds stay.
    pub fn set_thresholds(
        &mut self,
        now: Time,
        thresholds: impl IntoIterator<Item = Threshold>,
    ) -> Result<(), TooManyThresholds> {
        let thresholds: Vec<Threshold> = thresholds.into_iter().take(MAX_THRESHOLDS + 1).collect();
        if thresholds.len() > MAX_THRESHOLDS {
            return Err(TooManyThresholds);
        }
        self.figures.watch.get_or_insert_default().set(thresholds);
        self.check_quality(now);
        Ok(())
    }

    /// Returns when the figures should be checked although nothing arrives. Only the queue grows by itself.
    pub(in crate::connection) fn next_quality_check(&self) -> Option<Time> {
        let watch = self.figures.watch.as_ref().filter(|watch| !watch.thresholds.is_empty())?;
        let of_queue = |threshold: &Threshold| matches!(threshold.quality, Quality::Queue(_));
        let waits =
            self.session.queued().0 > 0 || watch.above.iter().any(|(_, threshold)| of_queue(threshold));
        (waits && watch.thresholds.iter().any(of_queue)).then_some(watch.next)
    }

    /// Checks the figures if it is time.
    pub(in crate::connection) fn check_quality(&mut self, now: Time) {
        let Some(watch) = self.figures.watch.as_mut().filter(|watch| watch.is_due(now)) else { return };
        watch.next = now + INTERVAL;
        let queue = Quality::Queue(self.session.queued().1);
        let events = &mut self.events;
        let mut tell = |change| events.push_back(Event::Quality(change));
        watch.look(PathId::FIRST, &[queue], &mut tell);
        for path in self.paths.iter().filter(|path| path.lifecycle.state() != PathState::Closed) {
            let recovery = &path.recovery;
            if recovery.rtt.is_unknown() {
                continue;
            }
            let rate = recovery.controller().state().bandwidth;
            let figures = [
                Quality::Rtt(recovery.rtt.smoothed()),
                Quality::Loss((recovery.loss() * 1000.0) as u16),
                Quality::Rate(rate),
            ];
            let known = if rate == 0 { &figures[..2] } else { &figures };
            watch.look(path.id(), known, &mut tell);
        }
    }
}
