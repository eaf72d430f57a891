//! Congestion control: one controller a path, behind one trait.
//!
//! A path owns a [`RateSampler`], a [`Controller`] and a [`Pacer`]. Before a packet is sent, the window and the pacer
//! must allow it; afterwards all three are notified. A SACK goes to the sampler for each newly acknowledged packet,
//! then to the controller for the losses it revealed ([`Controller::on_loss`]), then as a whole
//! ([`Controller::on_ack`]).
//!
//! All sizes are wire bytes including IP and UDP headers, since that is what fills a link. Rates are wire bytes a
//! second.

mod controller;
mod coupling;
mod cubic;
mod fixed;
mod gauge;
mod math;
mod pacer;
mod rate;
#[cfg(test)]
mod tests;

pub use controller::{ASSUMED_RTT, AckSample, Controller, ControllerStats, INITIAL_PACKETS, Remembered};
pub use coupling::{Calls, Company, Delays, Member, company, share_queue};
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use gauge::Gauge;
pub use pacer::Pacer;
pub use rate::{RateSample, RateSampler, Snapshot};

use crate::Time;

/// The kind of controller that a path gets. Default: [`Congestion::Gauge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Congestion {
    /// Models the bottleneck's rate and the base round trip; random loss does not slow it.
    #[default]
    Gauge,
    /// CUBIC (RFC 9438), which cuts its window to 70 % at every loss. For networks whose policy asks for it.
    Cubic,
    /// Sends at a given rate whatever happens: for radios with a known rate and nobody else on them.
    Fixed {
        /// The rate in wire bytes a second.
        bytes_per_s: u64,
    },
}

impl Congestion {
    /// Creates a controller for one path whose full packets are `packet_size` wire bytes.
    pub fn build(&self, packet_size: u64, now: Time) -> Box<dyn Controller> {
        match *self {
            Self::Gauge => Box::new(Gauge::new(packet_size, now)),
            Self::Cubic => Box::new(Cubic::new(packet_size)),
            Self::Fixed { bytes_per_s } => Box::new(Fixed::new(bytes_per_s, packet_size)),
        }
    }
}
