//! Finds out whether our own sending causes the loss. Where a queue is too short to show as delay, only sending less
//! can tell.
//!
//! For a while the sender sends a quarter less. If a quarter less arrives, the loss is a property of the path. If as
//! much arrives as before, the bottleneck was dropping the quarter that is no longer sent.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;
use crate::congestion::math::ONE;

/// The share of the former rate that is sent during a check, permille.
pub(super) const GAIN: u64 = 750;
/// If the share that still arrives exceeds [`GAIN`] by this much, the bottleneck was dropping packets; permille.
const MARGIN: u64 = 30;
/// Twice the number of standard deviations that are put down to chance.
const DEVIATIONS_TWICE: u64 = 3;

/// A check in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    low_until: Time,
    from: Time,
    until: Time,
    /// The arrival rate before the check, in bytes a second.
    before: u64,
    /// The share of `before` above which as much is still arriving, permille.
    still: u64,
    /// When measuring began, and the bytes acknowledged until then.
    mark: Option<(Time, u64)>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// The loss does not depend on how much is sent.
    Nature,
    /// The amount that arrives does not depend on how much is sent.
    Overflow,
}

impl Check {
    /// Starts a check. `before` is the current arrival rate in bytes a second, `queue` the queueing delay and `base`
    /// the base round trip. `deviation` is how far chance makes such a rate vary, permille.
    pub(super) fn start(now: Time, base: Duration, queue: Duration, before: u64, deviation: u64) -> Self {
        // The queue must empty first: until then as much arrives, however little is sent.
        let empty = now + math::stretch(queue, ONE * ONE / (ONE - GAIN));
        let from = empty + math::stretch(base, 1250);
        let until = from + math::stretch(base, 1250);
        let still = (GAIN + MARGIN + GAIN * deviation * DEVIATIONS_TWICE / 2 / ONE).min(950);
        Self { low_until: until.saturating_sub(base), from, until, before, still, mark: None }
    }

    /// Returns whether the sending rate is reduced.
    pub(super) fn is_low(&self, now: Time) -> bool {
        now < self.low_until
    }

    /// Returns true once, when measuring begins: from then on, all that is acknowledged was sent during the check.
    pub(super) fn begins(&mut self, now: Time, acked: u64) -> bool {
        let begins = now >= self.from && self.mark.is_none();
        if begins {
            self.mark = Some((now, acked));
        }
        begins
    }

    /// Returns the result once the check is over.
    pub(super) fn verdict(&self, now: Time, acked: u64) -> Option<CheckResult> {
        let (at, mark) = self.mark.filter(|_| now >= self.until)?;
        let during = math::rate(acked.saturating_sub(mark), now.since(at));
        let still = during > math::scale(self.before, self.still);
        Some(if still { CheckResult::Overflow } else { CheckResult::Nature })
    }
}
