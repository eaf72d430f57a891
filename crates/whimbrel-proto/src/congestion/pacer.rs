//! Decides when the next packet may be sent.

use std::time::Duration;

use super::controller::INITIAL_PACKETS;
use super::math;
use crate::Time;

/// Timers with a resolution of a millisecond (tokio) wake up to two late. The bucket must not overflow until then, or
/// the timer would set the rate.
const WAKE_UP: Duration = Duration::from_micros(2000);
/// The latest wake-up that is made up for, however busy the host. The burst that makes up for it stays a fraction of
/// most queues.
const LATEST: Duration = Duration::from_millis(20);

/// A wake-up up to this late is made up for on any path, up to an initial window. On short paths a few milliseconds are
/// many round trips, and a queue of a few milliseconds empties long before the sender wakes up.
const LEAST: Duration = Duration::from_millis(5);

/// A token bucket that fills at the pacing rate, to the depth of one burst.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// When the bucket has refilled everything sent so far.
    paid_at: Time,
    rate: u64,
    packet_size: u64,
    /// How late wake-ups have been recently.
    late: Duration,
}

impl Pacer {
    /// Creates a full bucket for packets of `packet_size` wire bytes.
    pub fn new(packet_size: u64) -> Self {
        Self { paid_at: Time::ZERO, rate: u64::MAX, packet_size, late: Duration::ZERO }
    }

    /// When a packet of `size` bytes may be sent: `now` or later.
    pub fn ready_at(&self, now: Time, size: u64) -> Time {
        let burst = self.burst(self.rate).max(size);
        let ready = self.paid_at.saturating_sub(math::span(burst - size, self.rate));
        ready.max(now)
    }

    /// Notes that a packet was sent while the controller's rate was `rate` bytes a second.
    pub fn on_sent(&mut self, now: Time, size: u64, rate: u64) {
        self.rate = rate.max(1);
        self.paid_at = self.paid_at.max(now) + math::span(size, self.rate);
    }

    /// Notes that a packet was sent `late` because its sender woke up late. What the rate would have sent in that
    /// time is made up for, up to `most` or a few milliseconds. Otherwise a busy host's scheduler would set the rate.
    pub fn on_woken(&mut self, late: Duration, most: Duration) {
        let initial = math::span(self.packet_size.saturating_mul(INITIAL_PACKETS), self.rate);
        let most = most.max(LEAST.min(initial)).min(LATEST);
        // A quarter more, because a fraction of a packet is lost at each wake-up.
        self.late = (late + late / 4).max(self.late - self.late / 8).min(most);
    }

    /// Changes the size of full packets.
    pub fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes;
    }

    /// The bytes that may be sent at once: a wake-up's worth. With a smaller bucket the timer would be the limit.
    pub fn burst(&self, rate: u64) -> u64 {
        // One packet more, because a bucket that lacks part of a packet fills without effect.
        let wake_up = math::volume(rate, WAKE_UP.max(self.late)).saturating_add(self.packet_size);
        wake_up.max(self.packet_size.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the rate that is sent in ten seconds if the sender wakes up only this often.
    fn share(wakes: Duration, told: bool, most: Duration) -> f64 {
        let (rate, size) = (500_000, 1500);
        let (mut pacer, mut now, mut sent, mut due) = (Pacer::new(size), Time::ZERO, 0, None);
        pacer.on_sent(now, size, rate);
        while now < Time::ZERO + Duration::from_secs(10) {
            if let Some(due) = due.take().filter(|_| told) {
                pacer.on_woken(now.since(due), most);
            }
            while pacer.ready_at(now, size) <= now {
                pacer.on_sent(now, size, rate);
                sent += size;
            }
            due = Some(pacer.ready_at(now, size));
            now += wakes;
        }
        sent as f64 / (rate * 10) as f64
    }

    #[test]
    fn a_busy_host_still_sends_at_the_rate() {
        let (ms, most) = (Duration::from_millis, Duration::from_secs(1));
        assert!(share(ms(1), true, most) > 0.98);
        assert!(share(ms(10), true, most) > 0.98, "{}", share(ms(10), true, most));
        assert!(share(ms(10), false, most) < 0.8, "otherwise nothing is shown");
    }

    #[test]
    fn a_few_milliseconds_are_made_up_for_on_any_path() {
        let (ms, most) = (Duration::from_millis, Duration::from_micros(500));
        assert!(share(ms(5), true, most) > 0.98, "{}", share(ms(5), true, most));
        assert!(share(ms(20), true, most) < 0.6, "no more than a few");
    }

    #[test]
    fn no_late_wake_up_lets_out_more_than_an_initial_window() {
        for rate in [1_000_000, 10_000_000, 20_000_000] {
            let mut pacer = Pacer::new(1500);
            pacer.on_sent(Time::ZERO, 1500, rate);
            pacer.on_woken(Duration::from_secs(9), Duration::from_micros(500));
            assert!(pacer.burst(rate) <= (INITIAL_PACKETS + 1) * 1500, "{rate}: {}", pacer.burst(rate));
        }
    }

    #[test]
    fn a_late_wake_up_is_soon_forgotten() {
        let mut pacer = Pacer::new(1500);
        let small = pacer.burst(500_000);
        pacer.on_woken(Duration::from_secs(9), Duration::from_millis(10));
        assert_eq!(pacer.burst(500_000), 500_000 / 100 + 1500);
        for _ in 0..20 {
            pacer.on_woken(Duration::ZERO, Duration::from_millis(10));
        }
        assert_eq!(pacer.burst(500_000), small);
    }
}
