//! Remembers the rate before a sudden fall: a link that became slow at once may become fast again at once.
//!
//! Steering takes ten round trips to find a rate ten times as high. So once the queue left by a fall has drained, the
//! sender paces at the former rate for about a round trip, as far as the window allows. If the link is still slow,
//! that adds at most a window's queue; the arrivals show which it is.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;

/// How long a rate is remembered after the last sign of a fall.
const MEMORY: Duration = Duration::from_secs(10);
/// The rate has fallen if it is below this share of the former rate, permille.
const FALLEN: u64 = 600;
/// The rate has recovered from this share of the former rate on, permille.
const RECOVERED: u64 = 800;
/// The packets in flight when a link slows down make a queue of at least this many base round trips. The queues of
/// flows that share a link are shorter, so a share that others took is not claimed back.
const LEAST_QUEUE: u32 = 4;
/// The queue has drained once it is below this share of its longest, permille.
const DRAINED: u64 = 250;
/// How long a try lasts, permille of a round trip.
const TRY: u64 = 1250;
/// A try that raises the rate by less than this factor has failed, permille.
const GROWTH: u64 = 1250;
/// Round trips between a failed try and the next. Each further failure doubles them, up to [`MOST_DOUBLINGS`] times.
const PATIENCE: u32 = 4;
const MOST_DOUBLINGS: u32 = 7;

/// The state of the path at an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelView {
    /// The bandwidth estimate in bytes a second.
    pub(super) estimate: u64,
    pub(super) queue: Duration,
    pub(super) wanted: Duration,
    pub(super) base: Duration,
    /// The smoothed round-trip time.
    pub(super) srtt: Duration,
}

/// A try in progress.
#[derive(Clone, Copy, Debug)]
struct RateTrial {
    until: Time,
    /// The bandwidth estimate when the try began.
    from: u64,
}

/// A fall of the rate, and the tries to return to the former one.
#[derive(Debug, Default)]
pub(super) struct RateDrop {
    /// The rate before the fall, in bytes a second.
    before: u64,
    /// When the rate was last seen to fall.
    at: Time,
    /// The longest queue since the fall.
    longest: Duration,
    under_way: Option<RateTrial>,
    in_vain: u32,
    not_before: Time,
}

impl RateDrop {
    /// Records a fall if arrivals lowered the estimate from `before` to `after`.
    pub(super) fn notice(fall: &mut Option<Box<Self>>, now: Time, before: u64, after: u64) {
        let highest = fall.as_ref().map_or(before, |fall| fall.before.max(before));
        if after < math::scale(highest, FALLEN) {
            fall.get_or_insert_default().on_fall(now, before);
        }
    }

    fn on_fall(&mut self, now: Time, before: u64) {
        self.at = now;
        if before >= self.before {
            self.before = before;
            self.longest = Duration::ZERO;
        }
    }

    /// Returns whether the fall is too long ago to matter.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now.since(self.at) > MEMORY
    }

    pub(super) fn on_ack(&mut self, now: Time, view: ModelView) {
        self.longest = self.longest.max(view.queue);
        if let Some(over) = self.under_way.take_if(|under_way| now >= under_way.until) {
            self.end_try(now, over, view);
        } else if self.under_way.is_none() && self.is_worth_a_try(now, view) {
            let until = now + math::stretch(view.srtt, TRY);
            self.under_way = Some(RateTrial { until, from: view.estimate });
        }
    }

    /// The least rate to pace at, in bytes a second; 0 outside a try.
    pub(super) fn tried(&self) -> u64 {
        if self.under_way.is_some() { self.before } else { 0 }
    }

    fn is_worth_a_try(&self, now: Time, view: ModelView) -> bool {
        let drained = view.wanted.max(math::stretch(self.longest, DRAINED));
        now >= self.not_before
            && view.estimate < math::scale(self.before, RECOVERED)
            && self.longest > view.base.saturating_mul(LEAST_QUEUE)
            && view.queue < drained
    }

    fn end_try(&mut self, now: Time, over: RateTrial, view: ModelView) {
        if view.estimate > math::scale(over.from, GROWTH) {
            self.in_vain = 0;
            return;
        }
        let pause = view.srtt.saturating_mul(PATIENCE << self.in_vain.min(MOST_DOUBLINGS));
        self.not_before = now + pause;
        self.in_vain += 1;
    }
}
