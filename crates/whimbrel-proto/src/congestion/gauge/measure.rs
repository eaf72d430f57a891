//! Updates the model with each acknowledgement, round trip and period.

use super::losses::Period;
use super::rate_drop::RateDrop;
use super::target::QueueTarget;
use super::{Gauge, ONE, Phase, STARTUP_GROWTH, UNKNOWN_LOSS, math};
use crate::Time;
use crate::congestion::rate::RateSample;

impl Gauge {
    pub(super) fn measure_rate(&mut self, rate: &RateSample) {
        // A sample that began before a silence would measure the silence.
        if rate.progress == 0 || rate.since < self.restarted_at {
            return;
        }
        let measured = self.credible(rate.progress, rate.delivered);
        if rate.app_limited && measured < self.bandwidth.estimate() {
            return;
        }
        self.tried |= !rate.app_limited;
        self.delivered = self.delivered.max(rate.delivered);
        // Where packets may be dropped before the bottleneck, it is the limit however fast the rest arrives.
        self.bandwidth.on_sample(measured, !rate.send_limited || self.losses.is_suspect());
    }

    /// The rate to believe. Progress also counts packets dropped before the bottleneck; arrivals do not, but they are
    /// noisy.
    pub(super) fn credible(&self, progress: u64, delivered: u64) -> u64 {
        let noise = match (self.congested > 0, self.losses.is_baseline_known()) {
            (true, _) => ONE,
            (false, true) if self.target.is_bounded() => 1030,
            (false, true) => 1100,
            (false, false) => UNKNOWN_LOSS,
        };
        progress.min(math::scale(self.behind_loss(delivered), noise))
    }

    pub(super) fn end_round(&mut self, app_limited: bool) {
        let delivered = std::mem::take(&mut self.delivered);
        if self.phase == Phase::Startup && !app_limited {
            self.watch_plateau(delivered);
        }
        let starved = self.delay.queue() < self.wanted() / 2;
        let grown = delivered > math::scale(self.last_delivered, 1030);
        self.hungry = if starved && grown { self.hungry.saturating_add(1) } else { 0 };
        self.last_delivered = delivered;
        self.bandwidth.end_round();
    }

    /// Ends one of several spans in a round trip: the spacing of a flight shows the queue before a round trip is
    /// over.
    pub(super) fn end_startup_span(&mut self, app_limited: bool) {
        if let (Some((progress, arrived)), Some(sending)) =
            (self.arrivals.rates(), self.arrivals.sending_rate())
        {
            let rate = self.credible(progress, arrived).min(sending);
            self.tried |= !app_limited;
            self.bandwidth.on_sample(rate, self.arrivals.lag() > 0);
        }
    }

    /// Ends a period of about one base round trip, however long the queue makes round trips.
    pub(super) fn end_period(&mut self, now: Time) {
        let kind = self.period_kind();
        self.pushed = [self.gain > ONE, self.pushed[0]];
        if matches!(self.phase, Phase::Check(_)) {
            return;
        }
        if kind == Period::Calm {
            self.calm_at = self.calm_at.max(now);
        }
        self.congested = self.congested.saturating_sub(1);
        if self.losses.end_period(kind) {
            self.met_congestion(now);
        }
        let long = self.delay.queue() > math::stretch(self.wanted(), 1500).max(self.delay.base() / 4);
        if long && self.arrivals.lag() >= 2 {
            let before = self.bandwidth.estimate();
            self.follow_arrivals();
            RateDrop::notice(&mut self.rate_drop, now, before, self.bandwidth.estimate());
        }
        if long && self.phase == (Phase::Settle { until: None }) {
            // Nothing sent now is dropped and the bottleneck is not idle, so this is its rate.
            let progress = self.arrivals.rates().map_or(u64::MAX, |(progress, _)| progress);
            self.bandwidth.limit(math::scale(progress, 1050));
        }
        self.target.end_period(now, self.own_queue());
    }

    pub(super) fn period_kind(&self) -> Period {
        // The queue is compared with what a flow alone would want: in company a longer one is wanted, but such a path
        // is not calm.
        let (bandwidth, base) = self.joint();
        let alone = QueueTarget::alone(bandwidth, base, self.packet_size);
        if self.delay.queue() > math::stretch(alone, 1500).max(self.delay.base() / 4) {
            Period::Queueing
        } else if self.pushed.contains(&true)
            || self.delay.queue() > math::stretch(self.target.longest(), 800)
        {
            // A queue that stays at its longest may be full, and the losses may be its drops.
            Period::Pushing
        } else {
            Period::Calm
        }
    }

    /// Follows a fall of the rate at once: while packets queue, the arrival rate is the bottleneck's rate.
    pub(super) fn follow_arrivals(&mut self) {
        let Some((progress, arrived)) = self.arrivals.rates() else { return };
        let passed = self.behind_loss(arrived).min(progress);
        // Spans this short are noisy, so a difference of a tenth is ignored.
        self.bandwidth.limit(math::scale(passed, 1100));
    }

    /// The sending rate that arrives as `rate` after the path's inherent loss.
    pub(super) fn behind_loss(&self, rate: u64) -> u64 {
        let passed = 1_000_000 - self.losses.baseline_ppm();
        math::scale(rate, 1_000_000_000 / passed.max(1))
    }

    pub(super) fn watch_plateau(&mut self, delivered: u64) {
        let (best, idle) = self.plateau;
        self.plateau =
            if delivered > math::scale(best, STARTUP_GROWTH) { (delivered, 0) } else { (best, idle + 1) };
        if self.plateau.1 >= 3 && best > 0 {
            self.leave_startup();
        }
    }
}
