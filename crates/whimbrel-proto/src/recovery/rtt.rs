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
const OVER: u32 = 8;
/// Early deadlines within this long count as one.
const PATIENCE_FOR: Duration = Duration::from_millis(100);

/// Estimates from samples. Two views are kept: with the peer's acknowledgement delay, for deadlines (an
/// acknowledgement is late only when it is later than the peer's habit), and without, for the model of the path.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    samples: u64,
    latest: Duration,
    smoothed: Duration,
    variation: Duration,
    /// With acknowledgement delay.
    answer: Duration,
    answer_variation: Duration,
    min: Duration,
    min_at: Time,
    /// The lowest since half a window: becomes the minimum when the old one has aged out.
    next_min: Duration,
    next_min_at: Time,
    /// Doublings of the slack, after deadlines that proved too early.
    patience: u32,
    patience_until: Time,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            samples: 0,
            latest: INITIAL_RTT,
            smoothed: INITIAL_RTT,
            variation: INITIAL_RTT / 2,
            answer: INITIAL_RTT,
            answer_variation: INITIAL_RTT / 2,
            min: INITIAL_RTT,
            min_at: Time::ZERO,
            next_min: INITIAL_RTT,
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
        self.latest =
            if self.samples > 0 && net < self.min { elapsed.max(Duration::from_nanos(1)) } else { net };
        let latest = self.latest.max(Duration::from_nanos(1));
        // A report that an outage held up for long says nothing of how soon the peer answers.
        let held_up = elapsed.saturating_sub(latest) > latest.max(HELD_UP);
        let elapsed = if held_up { latest } else { elapsed };
        if self.samples == 0 {
            self.smoothed = latest;
            self.variation = latest / 2;
            self.answer = elapsed;
            self.answer_variation = elapsed / 2;
            (self.min, self.min_at) = (latest, now);
            (self.next_min, self.next_min_at) = (latest, now);
        } else {
            smooth(&mut self.smoothed, &mut self.variation, latest);
            smooth(&mut self.answer, &mut self.answer_variation, elapsed);
            self.sample_min(now, latest);
        }
        self.samples += 1;
    }

    fn sample_min(&mut self, now: Time, latest: Duration) {
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
            (self.latest, self.smoothed, self.variation) = (rtt, rtt, rtt / 2);
            (self.answer, self.answer_variation) = (rtt, rtt / 2);
            (self.min, self.next_min) = (rtt, rtt);
        }
    }

    /// No sample was taken yet.
    pub(crate) fn is_unknown(&self) -> bool {
        self.samples == 0
    }

    /// The last sample, less the peer's delay.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// Smoothed.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// Mean deviation.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// The lowest of the last ten seconds.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// How long after sending an acknowledgement is late: near one round trip, more where it varies or where that
    /// proved too early of late (a busy host answers in bursts).
    pub(crate) fn deadline(&self) -> Duration {
        if self.samples == 0 {
            return self.answer * 2;
        }
        let slack = (self.answer_variation * 4).clamp(self.answer / 16, self.answer).max(LEAST_SLACK);
        // On a short path lateness is the host's, and can be many round trips; on a longer one it is a lost acknowledgement's, made good by
        // the next, and to wait for that costs more than to send again.
        let most = if self.answer < SHORT { MOST_SLACK } else { self.answer / 4 };
        self.answer + (slack * (1 << self.patience)).min(most.max(slack))
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

fn smooth(mean: &mut Duration, variation: &mut Duration, sample: Duration) {
    // By an eighth a sample, one packet held for seconds would slow a path of milliseconds down for thirty samples, and what
    // follows from the mean (pacing, deadlines) makes samples rare.
    if sample.saturating_mul(OVER) < *mean {
        *variation = *variation / 4 * 3;
        *mean = (*mean + sample) / 2;
        return;
    }
    *variation = (*variation * 3 + mean.abs_diff(sample)) / 4;
    *mean = (*mean * 7 + sample) / 8;
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
