//! The interface between a path and its congestion controller.

use std::fmt::Debug;
use std::time::Duration;

use super::coupling::{Calls, Company};
use super::rate::RateSample;
use crate::Time;

/// Packets that may leave before anything was heard, paced.
pub const INITIAL_PACKETS: u64 = 32;

/// No packet is larger, wire bytes.
pub(super) const LARGEST_PACKET: u64 = 65_535;

/// The round trip assumed before one was measured.
pub const ASSUMED_RTT: Duration = Duration::from_millis(100);

/// Decides how much may be in flight on one path, and how fast it leaves.
pub trait Controller: Send + Debug {
    /// A round trip was measured by other means than a SACK: the handshake, a path probe.
    fn on_rtt(&mut self, now: Time, rtt: Duration);
    /// A packet of `size` wire bytes leaves. By itself it changes neither window nor pacing rate.
    fn on_sent(&mut self, now: Time, size: u64, in_flight_before: u64, app_limited: bool);
    /// A SACK acknowledged something new.
    fn on_ack(&mut self, sample: &AckSample);
    /// `lost` bytes were declared lost, by a SACK (told before its [`Self::on_ack`]) or by a timer: each loss
    /// is told here once. `persistent`: a whole window vanished, which is a blackout and not congestion.
    fn on_loss(&mut self, now: Time, lost: u64, in_flight: u64, persistent: bool);
    /// What had been declared lost was acknowledged after all.
    fn on_spurious_loss(&mut self, now: Time, bytes: u64);
    /// The path came back after a silence.
    fn on_restart(&mut self, now: Time);
    /// What shares the path's bottleneck changed; none: nothing that is known.
    fn on_company(&mut self, now: Time, company: Option<Company>);
    /// What it did so far that those who share its bottleneck should do, too.
    fn calls(&self) -> Calls {
        Calls::default()
    }
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Bytes a second at which packets leave; never 0.
    fn pacing_rate(&self) -> u64;
    /// The size of full packets changed, wire bytes.
    fn set_packet_size(&mut self, bytes: u64);
    /// What a ticket should remember of this path.
    fn remember(&self) -> Option<Remembered>;
    /// Starts from what a ticket remembered. Does nothing once something was measured.
    fn recall(&mut self, remembered: Remembered);
    /// For statistics and logs.
    fn state(&self) -> ControllerStats;
}

/// What one SACK told.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Time,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Bytes newly declared lost with it; the same that [`Controller::on_loss`] was told.
    pub lost: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Bytes in flight before it.
    pub prior_in_flight: u64,
    /// The round trip it measured, without the peer's acknowledgement delay.
    pub rtt: Option<Duration>,
    /// Smoothed round trip.
    pub srtt: Duration,
    /// The path's smallest round trip.
    pub min_rtt: Duration,
    /// What the path's [`RateSampler`](super::RateSampler) made of it.
    pub rate: RateSample,
    /// When the newest acknowledged packet was sent.
    pub largest_sent_at: Time,
    /// Packets newly reported as marked by ECN.
    pub ecn_ce: u64,
    /// The sender has too little to send.
    pub app_limited: bool,
}

/// What is kept of a path for a next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Bytes a second.
    pub rate: u64,
    /// Base round trip.
    pub rtt: Duration,
}

/// A controller's view of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerStats {
    /// Estimated rate of the bottleneck, bytes a second; 0: unknown.
    pub bandwidth: u64,
    /// Base round trip; zero: unknown.
    pub min_rtt: Duration,
    /// Standing queueing delay.
    pub queue: Duration,
    /// A word for what it is doing.
    pub phase: &'static str,
    /// Loss, in millionths, taken for the path's nature and not for congestion.
    pub baseline_loss_ppm: u32,
    /// [`Controller::window`].
    pub window: u64,
    /// [`Controller::pacing_rate`].
    pub pacing_rate: u64,
}
