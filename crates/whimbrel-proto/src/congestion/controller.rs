//! The interface between a path and its congestion controller.

use std::fmt::Debug;
use std::time::Duration;

use super::coupling::{Calls, Company};
use super::rate::RateSample;
use crate::Time;

/// Packets that may be sent, paced, before anything is acknowledged.
pub const INITIAL_PACKETS: u64 = 32;

/// The largest packet, in wire bytes.
pub(super) const LARGEST_PACKET: u64 = 65_535;

/// The round trip assumed until one is measured.
pub const ASSUMED_RTT: Duration = Duration::from_millis(100);

/// Decides how much may be in flight on one path and how fast it is sent.
pub trait Controller: Send + Debug {
    /// Handles a round trip measured by other means than a SACK: by the handshake or a path probe.
    fn on_rtt(&mut self, now: Time, rtt: Duration);
    /// Handles the sending of a packet of `size` wire bytes. By itself it changes neither window nor pacing rate.
    fn on_sent(&mut self, now: Time, size: u64, in_flight_before: u64);
    /// Handles a SACK that acknowledged something new.
    fn on_ack(&mut self, sample: &AckSample);
    /// Handles the loss of `lost` bytes, detected by a SACK (then called before its [`Self::on_ack`]) or by a timer.
    /// Each loss is reported once. `persistent` means that a whole window was lost, which is a blackout and not
    /// congestion.
    fn on_loss(&mut self, now: Time, lost: u64, in_flight: u64, persistent: bool);
    /// Handles the acknowledgement of bytes that had been declared lost.
    fn on_spurious_loss(&mut self, now: Time, bytes: u64);
    /// Handles the return of the path after a silence.
    fn on_restart(&mut self, now: Time);
    /// Handles a change of the flows that share the path's bottleneck; `None` means that none are known.
    fn on_company(&mut self, now: Time, company: Option<Company>);
    /// Returns the actions of this controller so far that the others on its bottleneck should repeat.
    fn calls(&self) -> Calls {
        Calls::default()
    }
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// The pacing rate in bytes a second; never 0.
    fn pacing_rate(&self) -> u64;
    /// Handles a change of the size of full packets, in wire bytes.
    fn set_packet_size(&mut self, bytes: u64);
    /// Returns the measurements of this path that a ticket should remember.
    fn remember(&self) -> Option<Remembered>;
    /// Starts from what a ticket remembered. It has no effect once something was measured.
    fn recall(&mut self, remembered: Remembered);
    /// The controller's state, for statistics and logs.
    fn state(&self) -> ControllerStats;
}

/// The information that one SACK revealed.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When the SACK arrived.
    pub now: Time,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Bytes newly declared lost with it, the same that [`Controller::on_loss`] received.
    pub lost: u64,
    /// Bytes in flight after the SACK.
    pub in_flight: u64,
    /// Bytes in flight before the SACK.
    pub prior_in_flight: u64,
    /// The round trip that the SACK measured, without the peer's acknowledgement delay.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Duration,
    /// The path's smallest round trip.
    pub min_rtt: Duration,
    /// The sample that the path's [`RateSampler`](super::RateSampler) derived from the SACK.
    pub rate: RateSample,
    /// When the newest acknowledged packet was sent.
    pub largest_sent_at: Time,
    /// Packets newly reported as marked by ECN.
    pub ecn_ce: u64,
}

/// The measurements of a path that are kept for a later connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The rate in bytes a second.
    pub rate: u64,
    /// The base round trip.
    pub rtt: Duration,
}

/// A controller's view of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerStats {
    /// The estimated rate of the bottleneck in bytes a second; 0 if unknown.
    pub bandwidth: u64,
    /// The base round trip; zero if unknown.
    pub min_rtt: Duration,
    /// The standing queueing delay.
    pub queue: Duration,
    /// A word for the current phase.
    pub phase: &'static str,
    /// The loss taken for inherent to the path and not for congestion, ppm.
    pub baseline_loss_ppm: u32,
    /// The value of [`Controller::window`].
    pub window: u64,
    /// The value of [`Controller::pacing_rate`].
    pub pacing_rate: u64,
}
