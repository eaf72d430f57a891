//! Round-trip time of a path (RFC 9002 section 5).

use std::time::Duration;

use crate::Time;

/// Assumed before the first sample.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The minimum is the lowest sample of this long.
const MIN_WINDOW: Duration = Duration::from_secs(10);

/// Hosts and timers are late by milliseconds.
const LEAST_SLACK: Duration = Duration::from_millis(5);
const MOST_SLACK: Duration = Duration::from_millis(100);
/// A peer that reports later than this, or a round trip, was kept from it.
const HELD_UP: Duration = Duration::from_millis(250);
const MOST_PATIENCE: u32 = 5;
const SHORT: Duration = Duration::from_millis(20);
/// A sample so many times below the mean ends what made the mean: a queue, or an outage that held packets.
const OVER: u64 = 8;
/// Early deadlines within this long count as one.
const PATIENCE_FOR: Duration = Duration::from_millis(100);

/// A time span in half the room of a `Duration`: a path has seven of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nanos(u64);

impl Nanos {
    const fn of(span: Duration) -> Self {
        // No more than 36 years, whatever a ticket remembers: seven times that still fits.
        let (nanos, most) = (span.as_nanos(), (u64::MAX / 16) as u128);
        Self(if nanos < most { nanos as u64 } else { most as u64 })
    }

    const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// A mean and how much samples differ from it.
#[derive(Clone, Copy, Debug)]
struct Mean {
    mean: Nanos,
    variation: Nanos,
}

impl Mean {
    const fn first(sample: Duration) -> Self {
        Self { mean: Nanos::of(sample), variation: Nanos(Nanos::of(sample).0 / 2) }
    }

    fn take(&mut self, sample: Duration) {
        let (mean, variation, sample) = (self.mean.0, self.variation.0, Nanos::of(sample).0);
        // By an eighth a sample, one packet held for seconds would slow a path of milliseconds down for thirty samples, and what
        // follows from the mean (pacing, deadlines) makes samples rare.
        if sample.saturating_mul(OVER) < mean {
            self.variation = Nanos(variation / 4 * 3);
            self.mean = Nanos((mean + sample) / 2);
            return;
        }
        self.variation = Nanos((variation * 3 + mean.abs_diff(sample)) / 4);
        self.mean = Nanos((mean * 7 + sample) / 8);
    }
}

/// Estimates from samples. Two views are kept: with the peer's acknowledgement delay, for deadlines (an
/// acknowledgement is late only when it is later than the peer's habit), and without, for the model of the path.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    samples: u64,
    latest: Nanos,
    smoothed: Mean,
    /// With acknowledgement delay.
    answer: Mean,
    min: Nanos,
    min_at: Time,
    /// The lowest since half a window: becomes the minimum when the old one has aged out.
    next_min: Nanos,
    next_min_at: Time,
    /// Doublings of the slack, after deadlines that proved too early.
    patience: u32,
    patience_until: Time,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            samples: 0,
            latest: Nanos::of(INITIAL_RTT),
            smoothed: Mean::first(INITIAL_RTT),
            answer: Mean::first(INITIAL_RTT),
            min: Nanos::of(INITIAL_RTT),
            min_at: Time::ZERO,
            next_min: Nanos::of(INITIAL_RTT),
            next_min_at: Time::ZERO,
            patience: 0,
            patience_until: Time::ZERO,
        }
    }
}

impl Rtt {
    /// Takes a sample: `elapsed` from sending to acknowledgement, `delay` of it spent in the peer (as it says).
    pub(crate) fn sample(&mut self, now: Time, elapsed: Duration, delay: Duration) {
        // A peer that claims more delay than fits above the minimum is not believed (RFC 9002 section 5.3).
        let net = elapsed.saturating_sub(delay);
        let shown =
            if self.samples > 0 && net < self.min() { elapsed.max(Duration::from_nanos(1)) } else { net };
        self.latest = Nanos::of(shown);
        let latest = shown.max(Duration::from_nanos(1));
        // A report that an outage held up for long says nothing of how soon the peer answers.
        let held_up = elapsed.saturating_sub(latest) > latest.max(HELD_UP);
        let elapsed = if held_up { latest } else { elapsed };
        if self.samples == 0 {
            self.smoothed = Mean::first(latest);
            self.answer = Mean::first(elapsed);
            (self.min, self.min_at) = (Nanos::of(latest), now);
            (self.next_min, self.next_min_at) = (Nanos::of(latest), now);
        } else {
            self.smoothed.take(latest);
            self.answer.take(elapsed);
            self.sample_min(now, Nanos::of(latest));
        }
        self.samples += 1;
    }

    fn sample_min(&mut self, now: Time, latest: Nanos) {
        if latest <= self.min {
            (self.min, self.min_at) = (latest, now);
            (self.next_min, self.next_min_at) = (latest, now);
            return;
        }
        if latest <= self.next_min || now.since(self.next_min_at) > MIN_WINDOW {
            (self.next_min, self.next_min_at) = (latest, now);
        }
        if now.since(self.min_at) > MIN_WINDOW {
            (self.min, self.min_at) = (self.next_min, self.next_min_at);
            (self.next_min, self.next_min_at) = (latest, now);
        }
    }

    /// Takes what an earlier connection measured for the round trip until the first sample.
    pub(crate) fn assume(&mut self, rtt: Duration) {
        if self.samples == 0 {
            (self.smoothed, self.answer) = (Mean::first(rtt), Mean::first(rtt));
            (self.latest, self.min, self.next_min) = (Nanos::of(rtt), Nanos::of(rtt), Nanos::of(rtt));
        }
    }

    /// No sample was taken yet.
    pub(crate) fn is_unknown(&self) -> bool {
        self.samples == 0
    }

    /// The last sample, less the peer's delay.
    pub(crate) fn latest(&self) -> Duration {
        self.latest.get()
    }

    /// Smoothed.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.mean.get()
    }

    /// Mean deviation.
    pub(crate) fn variation(&self) -> Duration {
        self.smoothed.variation.get()
    }

    /// The lowest of the last ten seconds.
    pub(crate) fn min(&self) -> Duration {
        self.min.get()
    }

    /// How long after sending an acknowledgement is late: near one round trip, more where it varies or where that
    /// proved too early of late (a busy host answers in bursts).
    pub(crate) fn deadline(&self) -> Duration {
        let (answer, variation) = (self.answer.mean.get(), self.answer.variation.get());
        if self.samples == 0 {
            return answer * 2;
        }
        let slack = (variation * 4).clamp(answer / 16, answer).max(LEAST_SLACK);
        // On a short path lateness is the host's, and can be many round trips; on a longer one it is a lost acknowledgement's, made good by
        // the next, and to wait for that costs more than to send again.
        let most = if answer < SHORT { MOST_SLACK } else { answer / 4 };
        answer + (slack * (1 << self.patience)).min(most.max(slack))
    }

    /// A packet given up at its deadline was acknowledged after all.
    pub(crate) fn on_early_deadline(&mut self, now: Time) {
        if self.patience_until <= now {
            self.patience = (self.patience + 1).min(MOST_PATIENCE);
        }
        self.patience_until = now + PATIENCE_FOR;
    }

    /// Patience is lost again, step by step.
    pub(crate) fn relax(&mut self, now: Time) {
        if self.patience > 0 && now > self.patience_until + PATIENCE_FOR * 20 {
            self.patience -= 1;
            self.patience_until = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_steady_path_has_deadlines_near_one_round_trip() {
        let mut rtt = Rtt::default();
        for i in 0..50u32 {
            rtt.sample(Time::ZERO + i * MS, 40 * MS, Duration::ZERO);
        }
        assert_eq!(rtt.min(), 40 * MS);
        assert!(rtt.deadline() < 46 * MS, "{:?}", rtt.deadline());
    }

    #[test]
    fn what_one_held_packet_showed_is_soon_forgotten() {
        let mut rtt = Rtt::default();
        rtt.sample(Time::ZERO, 20 * MS, Duration::ZERO);
        for _ in 0..8 {
            rtt.sample(Time::ZERO, 4000 * MS, Duration::ZERO);
        }
        assert!(rtt.smoothed() > 2000 * MS);
        for _ in 0..8 {
            rtt.sample(Time::ZERO, 20 * MS, Duration::ZERO);
        }
        assert!(rtt.smoothed() < 160 * MS, "{:?}", rtt.smoothed());
        assert!(rtt.variation() < 320 * MS, "{:?}", rtt.variation());
    }

    #[test]
    fn the_minimum_ages_out() {
        let mut rtt = Rtt::default();
        rtt.sample(Time::ZERO, 10 * MS, Duration::ZERO);
        for second in 1..25u32 {
            rtt.sample(Time::ZERO + second * 1000 * MS, 50 * MS, Duration::ZERO);
        }
        assert_eq!(rtt.min(), 50 * MS);
    }

    #[test]
    fn a_peer_that_claims_too_much_delay_is_not_believed() {
        let mut rtt = Rtt::default();
        rtt.sample(Time::ZERO, 40 * MS, Duration::ZERO);
        rtt.sample(Time::ZERO, 40 * MS, 39 * MS);
        assert_eq!(rtt.min(), 40 * MS);
    }

    #[test]
    fn a_report_held_up_by_an_outage_makes_no_later_deadlines() {
        let mut rtt = Rtt::default();
        rtt.sample(Time::ZERO, 3010 * MS, 3000 * MS);
        assert!(rtt.deadline() < 100 * MS, "{:?}", rtt.deadline());
    }
}
