//! Finds out from the traffic which paths share a bottleneck, and tells their controllers of each other.

use std::time::Duration;

use super::path::Path;
use crate::congestion::{Calls, Delays, Member, share_queue};
use crate::{PathId, Time};

/// The shortest span over which round trips are compared. The span is the longest round trip if that is longer: paths
/// of different length see the same queue at different times.
pub(in crate::connection) const SHORTEST_SPAN: Duration = Duration::from_millis(100);

/// A path that carries less than this fraction of all traffic (1/32) does not count for the others: it is only probed,
/// or waits for others to fail.
pub(in crate::connection) const LEAST_PART: u64 = 32;

/// A path's traffic in the current span and before.
#[derive(Debug, Default)]
pub(in crate::connection) struct Load {
    pub(in crate::connection) delays: Delays,
    acked_bytes: u64,
    /// The rate in bytes a second, averaged over about the last four spans.
    rate: u64,
    pub(in crate::connection) coupled: bool,
    pub(in crate::connection) calls: Calls,
}

impl Load {
    fn is_coupled(&self) -> bool {
        self.coupled
    }

    pub(in crate::connection) fn end_span(&mut self, acked_bytes: u64, span: Duration) {
        let bytes = acked_bytes - std::mem::replace(&mut self.acked_bytes, acked_bytes);
        let rate = (bytes as f64 / span.as_secs_f64().max(0.001)) as u64;
        self.rate = (self.rate * 3 + rate) / 4;
        self.delays.end_span();
    }
}

/// The current span, and the paths known not to share a bottleneck.
#[derive(Debug, Default)]
pub(in crate::connection) struct Coupling {
    pub(in crate::connection) span_began: Time,
    /// Pairs of paths that were seen not to share a bottleneck.
    pub(in crate::connection) apart: Vec<(PathId, PathId)>,
}

impl Coupling {
    pub(in crate::connection) fn are_apart(&self, a: PathId, b: PathId) -> bool {
        self.apart.contains(&(a.min(b), a.max(b)))
    }

    pub(in crate::connection) fn judge(&mut self, a: &Path, b: &Path) {
        let pair = (a.id().min(b.id()), a.id().max(b.id()));
        let (Some(mine), Some(theirs)) = (&a.load, &b.load) else { return };
        match share_queue(&mine.delays, &theirs.delays) {
            Some(true) => self.apart.retain(|known| *known != pair),
            Some(false) if !self.apart.contains(&pair) => self.apart.push(pair),
            _ => {}
        }
    }
}

impl Path {
    /// Returns whether the path shares its bottleneck with others.
    pub(in crate::connection) fn is_coupled(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.is_coupled())
    }

    /// Returns the rate that was acknowledged lately, bytes a second.
    pub(in crate::connection) fn load_rate(&self) -> u64 {
        self.load.as_ref().map_or(0, |load| load.rate)
    }

    pub(in crate::connection) fn member(&self) -> Member {
        let state = self.recovery.controller().state();
        Member {
            rate: self.load_rate(),
            window: state.window,
            rtt: self.recovery.rtt.smoothed(),
            base: state.min_rtt,
            calls: self.recovery.controller().calls(),
        }
    }
}
