//! A random linear code over a sliding window (RFC 8681), for messages that cannot wait for a retransmission.
//!
//! A *source symbol* is what a packet carries of the session. A *repair symbol* is a linear combination of the source
//! symbols of a window. As many repair symbols as source symbols were lost recover them, whichever they are.

mod decoder;
mod encoder;
mod field;
mod repair;
mod stats;
#[cfg(test)]
mod tests;

pub(crate) use decoder::{Decoder, MOST_HELD, Recovered};
pub(crate) use encoder::Encoder;
pub(crate) use repair::Repair;
pub use stats::CodingStats;
