//! Is it we who cause the loss? Where a queue is too short to show as delay, only sending less can tell.
//!
//! For a while a quarter less is sent. If a quarter less arrives, loss is the path's nature. If as much arrives
//! as before, what is not sent now was what was dropped.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;
use crate::congestion::math::ONE;

/// The share sent during a check, permille.
pub(super) const GAIN: u64 = 750;
/// If this much more than that of what arrived before arrives still, packets were being dropped; permille.
const MARGIN: u64 = 30;
/// Standard deviations chance is granted, twice.
const DEVIATIONS_TWICE: u64 = 3;

/// A check under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    low_until: Time,
    from: Time,
    until: Time,
    /// Bytes a second that arrived before.
    before: u64,
    /// The share of it from which on it is still arriving, permille.
    still: u64,
    /// Everything acknowledged when measuring began.
    mark: Option<(Time, u64)>,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// Loss does not depend on how much is sent.
    Nature,
    /// What arrives does not depend on how much is sent.
    Overflow,
}

impl Check {
    /// `before`: bytes a second that arrive now, with `queue` standing on a path of `base` round trip;
    /// `deviation`: by how much such a rate differs by chance, permille.
    pub(super) fn start(now: Time, base: Duration, queue: Duration, before: u64, deviation: u64) -> Self {
        // First the queue must empty: until then as much arrives whatever is sent.
        let empty = now + math::stretch(queue, ONE * ONE / (ONE - GAIN));
        let from = empty + math::stretch(base, 1250);
        let until = from + math::stretch(base, 1250);
        let still = (GAIN + MARGIN + GAIN * deviation * DEVIATIONS_TWICE / 2 / ONE).min(950);
        Self { low_until: until.saturating_sub(base), from, until, before, still, mark: None }
    }

    /// Less is being sent.
    pub(super) fn is_low(&self, now: Time) -> bool {
        now < self.low_until
    }

    /// Measuring begins: only what was sent in the check is being acknowledged from now on.
    pub(super) fn begins(&mut self, now: Time, acked: u64) -> bool {
        let begins = now >= self.from && self.mark.is_none();
        if begins {
            self.mark = Some((now, acked));
        }
        begins
    }

    /// The verdict, once there is one.
    pub(super) fn verdict(&self, now: Time, acked: u64) -> Option<CheckResult> {
        let (at, mark) = self.mark.filter(|_| now >= self.until)?;
        let during = math::rate(acked.saturating_sub(mark), now.since(at));
        let still = during > math::scale(self.before, self.still);
        Some(if still { CheckResult::Overflow } else { CheckResult::Nature })
    }
}
