//! RTT estimation for a path (RFC 9002 section 5).

use std::time::Duration;

use crate::Time;

/// The RTT assumed before the first sample.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The minimum RTT is the lowest sample of this period.
const MIN_WINDOW: Duration = Duration::from_secs(10);

/// The least slack of a deadline, since hosts and timers are late by milliseconds.
const LEAST_SLACK: Duration = Duration::from_millis(5);
const MOST_SLACK: Duration = Duration::from_millis(100);
/// A report delayed by more than this, and by more than an RTT, was held up by an outage.
const HELD_UP: Duration = Duration::from_millis(250);
const MOST_PATIENCE: u32 = 5;
const SHORT: Duration = Duration::from_millis(20);
/// A sample this many times below the mean ends what raised the mean: a queue, or an outage that held packets.
const OVER: u64 = 8;
/// Early deadlines within this period count as one.
const PATIENCE_FOR: Duration = Duration::from_millis(100);

/// A time span in half the size of a `Duration`. A path has seven of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nanos(u64);

impl Nanos {
    const fn of(span: Duration) -> Self {
        // At most 36 years, whatever a ticket remembers. Sums of up to sixteen such spans still fit.
        let (nanos, most) = (span.as_nanos(), (u64::MAX / 16) as u128);
        Self(if nanos < most { nanos as u64 } else { most as u64 })
    }

    const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// A mean, and how much samples deviate from it.
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
        // With weights of an eighth, one packet held for seconds would slow a path of milliseconds down for thirty
        // samples. Pacing and deadlines follow from the mean, so samples would be rare, too.
        if sample.saturating_mul(OVER) < mean {
            self.variation = Nanos(variation / 4 * 3);
            self.mean = Nanos((mean + sample) / 2);
            return;
        }
        self.variation = Nanos((variation * 3 + mean.abs_diff(sample)) / 4);
        self.mean = Nanos((mean * 7 + sample) / 8);
    }
}

/// RTT estimates from samples, in two views. The view with the peer's acknowledgement delay is for deadlines, since an
/// acknowledgement is late only if it is later than usual for the peer. The view without it models the path.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    samples: u64,
    latest: Nanos,
    smoothed: Mean,
    /// The mean with acknowledgement delay.
    answer: Mean,
    min: Nanos,
    min_at: Time,
    /// The next minimum: a low sample after the current one, at most `MIN_WINDOW` old when the last sample was taken. It
    /// becomes the minimum when the current one has aged out.
    next_min: Nanos,
    next_min_at: Time,
    /// How many times the slack is doubled, because deadlines proved too early.
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
    /// Takes a sample. `elapsed` is the time from sending to acknowledgement, of which the peer claims to have spent
    /// `delay`.
    pub(crate) fn sample(&mut self, now: Time, elapsed: Duration, delay: Duration) {
        // A peer that claims more delay than fits above the minimum is not believed (RFC 9002 section 5.3).
        let net = elapsed.saturating_sub(delay);
        let shown =
            if self.samples > 0 && net < self.min() { elapsed.max(Duration::from_nanos(1)) } else { net };
        self.latest = Nanos::of(shown);
        let latest = shown.max(Duration::from_nanos(1));
        // A report that an outage held up says nothing about how soon the peer answers.
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

    /// Assumes an RTT, such as one that an earlier connection measured, until the first sample.
    pub(crate) fn assume(&mut self, rtt: Duration) {
        if self.samples == 0 {
            (self.smoothed, self.answer) = (Mean::first(rtt), Mean::first(rtt));
            (self.latest, self.min, self.next_min) = (Nanos::of(rtt), Nanos::of(rtt), Nanos::of(rtt));
        }
    }

    /// Returns whether no sample was taken yet.
    pub(crate) fn is_unknown(&self) -> bool {
        self.samples == 0
    }

    /// Returns the last sample, less the peer's delay.
    pub(crate) fn latest(&self) -> Duration {
        self.latest.get()
    }

    /// Returns the smoothed RTT.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.mean.get()
    }

    /// Returns the mean deviation.
    pub(crate) fn variation(&self) -> Duration {
        self.smoothed.variation.get()
    }

    /// Returns the lowest RTT of the last ten seconds.
    pub(crate) fn min(&self) -> Duration {
        self.min.get()
    }

    /// Returns how long after sending an acknowledgement is overdue. This is close to one RTT. It is more if the RTT
    /// varies, or if earlier deadlines recently proved too early, as on a busy host that answers in bursts.
    pub(crate) fn deadline(&self) -> Duration {
        // In plain numbers: this is asked several times a packet, and dividing a `Duration` takes long.
        let (answer, variation) = (self.answer.mean.0, self.answer.variation.0);
        if self.samples == 0 {
            return Duration::from_nanos(answer * 2);
        }
        let slack = (variation * 4).clamp(answer / 16, answer).max(Nanos::of(LEAST_SLACK).0);
        // On a short path the host causes lateness, which can last many RTTs. On a longer path it is caused by a lost
        // acknowledgement, which the next one replaces. Waiting for that costs more than sending again.
        let most = if answer < Nanos::of(SHORT).0 { Nanos::of(MOST_SLACK).0 } else { answer / 4 };
        Duration::from_nanos(answer + slack.saturating_mul(1 << self.patience).min(most.max(slack)))
    }

    /// Handles the acknowledgement of a packet that had been given up at its deadline.
    pub(crate) fn on_early_deadline(&mut self, now: Time) {
        if self.patience_until <= now {
            self.patience = (self.patience + 1).min(MOST_PATIENCE);
        }
        self.patience_until = now + PATIENCE_FOR;
    }

    /// Reduces the slack again, step by step.
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
