//! Congestion control: one controller a path, behind one trait.
//!
//! A path owns a [`RateSampler`], a [`Controller`] and a [`Pacer`]. Sending a packet asks the window and the
//! pacer, then tells all three. A SACK first tells the sampler of every newly acknowledged packet, then the
//! controller of the losses it revealed ([`Controller::on_loss`]), then of the whole ([`Controller::on_ack`]).
//!
//! All sizes are wire bytes including IP and UDP headers, since that is what fills a link; rates are such
//! bytes a second.

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

/// Which controller a path gets. Default: [`Congestion::Gauge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Congestion {
    /// A model of the bottleneck's rate and of the base round trip; random loss does not slow it.
    #[default]
    Gauge,
    /// RFC 9438: halves, nearly, at every loss. For networks whose policy asks for it.
    Cubic,
    /// Sends at a given rate whatever happens: for radios with a known rate and nobody else on them.
    Fixed {
        /// Wire bytes a second.
        bytes_per_s: u64,
    },
}

impl Congestion {
    /// A controller for one path whose full packets are `packet_size` wire bytes.
    pub fn build(&self, packet_size: u64, now: Time) -> Box<dyn Controller> {
        match *self {
            Self::Gauge => Box::new(Gauge::new(packet_size, now)),
            Self::Cubic => Box::new(Cubic::new(packet_size)),
            Self::Fixed { bytes_per_s } => Box::new(Fixed::new(bytes_per_s, packet_size)),
        }
    }
}
