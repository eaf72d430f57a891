//! The rate that held before it fell: a link that became slow at once may become fast again at once.
//!
//! Steering takes ten round trips to find a rate ten times as high. So once the queue that a fall left has drained, the
//! former rate is paced for about a round trip, as far as the window lets it: where the link is still slow that adds
//! no more than a window's queue, and what arrives shows which it is.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;

/// How long a rate is remembered after it was last seen fallen.
const MEMORY: Duration = Duration::from_secs(10);
/// Less than this share of what it was is a fall, permille.
const FALLEN: u64 = 600;
/// From this share on it has recovered.
const RECOVERED: u64 = 800;
/// What was on its way when the link became slow makes a queue of at least so many base round trips. The queues of those who share
/// a link are shorter: a share that others took is not asked back.
const LEAST_QUEUE: u32 = 4;
/// The queue has drained at this share of the longest, permille.
const DRAINED: u64 = 250;
/// How long a try lasts, permille of a round trip.
const TRY: u64 = 1250;
/// A try that brings less growth is in vain, permille.
const GROWTH: u64 = 1250;
/// Round trips to the next after one in vain; twice as many after each further one.
const PATIENCE: u32 = 4;
const MOST_DOUBLINGS: u32 = 7;

/// The path as an acknowledgement shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Bytes a second.
    pub(super) estimate: u64,
    pub(super) queue: Duration,
    pub(super) wanted: Duration,
    pub(super) base: Duration,
    /// Smoothed round trip.
    pub(super) srtt: Duration,
}

/// A try under way.
#[derive(Clone, Copy, Debug)]
struct Try {
    until: Time,
    /// The estimate when it began.
    from: u64,
}

/// A fall of the rate, and the tries to undo it.
#[derive(Debug, Default)]
pub(super) struct RateDrop {
    /// Bytes a second before.
    before: u64,
    /// When it was last seen to fall.
    at: Time,
    /// The longest queue since.
    longest: Duration,
    under_way: Option<Try>,
    in_vain: u32,
    not_before: Time,
}

impl RateDrop {
    /// Arrivals took the estimate from `before` to `after`.
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

    /// It is too long ago.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now.since(self.at) > MEMORY
    }

    pub(super) fn on_ack(&mut self, now: Time, view: View) {
        self.longest = self.longest.max(view.queue);
        if let Some(over) = self.under_way.take_if(|under_way| now >= under_way.until) {
            self.end_try(now, over, view);
        } else if self.under_way.is_none() && self.is_worth_a_try(now, view) {
            let until = now + math::stretch(view.srtt, TRY);
            self.under_way = Some(Try { until, from: view.estimate });
        }
    }

    /// The rate to pace at, at least: bytes a second, 0 for none.
    pub(super) fn tried(&self) -> u64 {
        if self.under_way.is_some() { self.before } else { 0 }
    }

    fn is_worth_a_try(&self, now: Time, view: View) -> bool {
        let drained = view.wanted.max(math::stretch(self.longest, DRAINED));
        now >= self.not_before
            && view.estimate < math::scale(self.before, RECOVERED)
            && self.longest > view.base.saturating_mul(LEAST_QUEUE)
            && view.queue < drained
    }

    fn end_try(&mut self, now: Time, over: Try, view: View) {
        if view.estimate > math::scale(over.from, GROWTH) {
            self.in_vain = 0;
            return;
        }
        let pause = view.srtt.saturating_mul(PATIENCE << self.in_vain.min(MOST_DOUBLINGS));
        self.not_before = now + pause;
        self.in_vain += 1;
    }
}
