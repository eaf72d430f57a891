//! Controls paths shorter than a timer's resolution, which a window serves better than a rate.
//!
//! On loopback or across one switch, a round trip takes tens of microseconds, and a timer fires a millisecond late.
//! Paced by timers, such a path is idle most of the time, and measurements show the timer. Instead, the window opens
//! while round trips stay short and closes on loss. Pacing releases a window in half the time it may take.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;

/// A path with a base round trip below this is local.
const LOCAL: Duration = Duration::from_millis(2);
/// The window opens while round trips stay below this.
const SHORT: Duration = Duration::from_micros(1000);
/// Round trips above this mean that the window is too large.
const LONG: Duration = Duration::from_millis(8);
const LARGEST: u64 = 4 << 20;
const SMALLEST_PACKETS: u64 = 64;

/// The window of a local path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Local {
    window: u64,
    reduced_at: Time,
}

impl Local {
    /// Returns whether a path with this base round trip is local.
    pub(super) fn is(base: Duration) -> bool {
        base > Duration::ZERO && base < LOCAL
    }

    pub(super) fn window(&self, packet_size: u64) -> u64 {
        self.window.max(packet_size.saturating_mul(SMALLEST_PACKETS))
    }

    /// Releases a window in half of [`SHORT`].
    pub(super) fn pacing_rate(&self, packet_size: u64) -> u64 {
        math::rate(self.window(packet_size), SHORT / 2)
    }

    pub(super) fn on_ack(
        &mut self,
        now: Time,
        acked: u64,
        prior_in_flight: u64,
        rtt: Option<Duration>,
        packet_size: u64,
    ) {
        let window = self.window(packet_size);
        match rtt {
            Some(rtt) if rtt > LONG => self.reduce(now, 850, packet_size),
            // Only the part of the window that was used is known to fit.
            Some(rtt) if rtt < SHORT && prior_in_flight > window / 2 => {
                self.window = window.saturating_add(acked).min(LARGEST);
            }
            _ => {}
        }
    }

    pub(super) fn on_loss(&mut self, now: Time, packet_size: u64) {
        self.reduce(now, 700, packet_size);
    }

    /// Reduces the window at most once every few milliseconds, because the losses of one overflow are detected in
    /// pieces.
    fn reduce(&mut self, now: Time, permille: u64, packet_size: u64) {
        if now.since(self.reduced_at) > LONG {
            self.window = math::scale(self.window(packet_size), permille);
            self.reduced_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1500;

    #[test]
    fn opens_while_round_trips_are_short_and_closes_on_loss() {
        let mut local = Local::default();
        let mut now = Time::ZERO + Duration::from_secs(1);
        for _ in 0..20 {
            now += Duration::from_micros(100);
            let window = local.window(PACKET);
            local.on_ack(now, window, window, Some(Duration::from_micros(100)), PACKET);
        }
        assert_eq!(local.window(PACKET), LARGEST);
        local.on_loss(now, PACKET);
        local.on_loss(now, PACKET);
        assert_eq!(local.window(PACKET), LARGEST * 7 / 10, "one overflow counts once");
        let before = local.window(PACKET);
        local.on_ack(now, before, before, Some(Duration::from_millis(3)), PACKET);
        assert_eq!(local.window(PACKET), before, "not while the queue stands");
    }

    #[test]
    fn an_idle_sender_proves_nothing() {
        let mut local = Local::default();
        let before = local.window(PACKET);
        local.on_ack(Time::ZERO, PACKET, PACKET, Some(Duration::from_micros(50)), PACKET);
        assert_eq!(local.window(PACKET), before);
    }
}
