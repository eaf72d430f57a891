//! The handshake of four packets, with data from the third on (MMSP 3.3.1, Mockets 5.3; docs/protocol.md section 2).
//! They are SYN, SYN-ACK with a cookie, and PING and PONG with the two messages of
//! `Noise_IK_25519_ChaChaPoly_BLAKE2s`.
//!
//! The module takes bytes and returns bytes. It has no timers: the connection repeats what [`ClientHandshake::syn`]
//! and [`ClientHandshake::ping`] returned. It keeps no state for strangers: the cookie holds it. A packet that fails
//! leaves the state unchanged, so a forged packet cannot spoil the genuine one that follows.

mod agreement;
#[cfg(test)]
mod captured;
mod clear;
mod client;
mod noise;
mod params;
mod server;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use agreement::{Accepted, Agreed, Agreement, Finished};
#[cfg(test)]
pub(crate) use captured::Captured;
pub use clear::{EARLY_WINDOW, PING_LEN, SYN_LEN, VERSION};
pub use client::{ClientConfig, ClientHandshake, Established, HandshakeError, PingFlight, ServerKey, SynAck};
pub use params::{Extensions, Params, Resumed};
pub use server::{Acceptor, AcceptorConfig, Checked, Effort, Ping, Refusal};
