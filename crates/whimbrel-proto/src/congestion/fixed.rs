//! A configured rate that is kept whatever happens.

use std::time::Duration;

use super::controller::{ASSUMED_RTT, AckSample, Controller, ControllerStats, LARGEST_PACKET, Remembered};
use super::coupling::Company;
use super::math;
use crate::Time;

/// Sends at a given rate. The window only bounds what is lost on a dead path: two round trips' worth.
#[derive(Debug)]
pub struct Fixed {
    rate: u64,
    packet_size: u64,
    rtt: Option<Duration>,
    min_rtt: Duration,
}

impl Fixed {
    /// Creates a controller that sends at `rate` wire bytes a second.
    pub fn new(rate: u64, packet_size: u64) -> Self {
        Self {
            rate: rate.max(1),
            packet_size: packet_size.clamp(1, LARGEST_PACKET),
            rtt: None,
            min_rtt: Duration::ZERO,
        }
    }
}

impl Controller for Fixed {
    fn on_rtt(&mut self, _now: Time, rtt: Duration) {
        self.rtt = Some(rtt);
    }

    fn on_sent(&mut self, _now: Time, _size: u64, _in_flight_before: u64) {}

    fn on_ack(&mut self, sample: &AckSample) {
        self.rtt = Some(sample.srtt);
        self.min_rtt = sample.min_rtt;
    }

    fn on_loss(&mut self, _now: Time, _lost: u64, _in_flight: u64, _persistent: bool) {}

    fn on_spurious_loss(&mut self, _now: Time, _bytes: u64) {}

    fn on_restart(&mut self, _now: Time) {}

    fn on_company(&mut self, _now: Time, _company: Option<Company>) {}

    fn window(&self) -> u64 {
        // 50 ms more allow for delayed acknowledgements and timers.
        let span = self.rtt.unwrap_or(ASSUMED_RTT).saturating_add(Duration::from_millis(50));
        math::volume(self.rate, span).saturating_mul(2).max(self.packet_size.saturating_mul(4))
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }

    fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes.clamp(1, LARGEST_PACKET);
    }

    fn remember(&self) -> Option<Remembered> {
        None
    }

    fn recall(&mut self, _remembered: Remembered) {}

    fn state(&self) -> ControllerStats {
        ControllerStats {
            bandwidth: self.rate,
            min_rtt: self.min_rtt,
            queue: self.rtt.unwrap_or_default().saturating_sub(self.min_rtt),
            phase: "fixed",
            baseline_loss_ppm: 0,
            window: self.window(),
            pacing_rate: self.rate,
        }
    }
}
