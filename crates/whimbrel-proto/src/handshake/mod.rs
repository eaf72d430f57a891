//! Four packets, data on the third (MMSP 3.3.1, Mockets 5.3; docs/protocol.md section 2): SYN, SYN-ACK with a cookie,
//! PING and PONG with the two messages of `Noise_IK_25519_ChaChaPoly_BLAKE2s`.
//!
//! Bytes in, bytes out: no timers (the connection repeats what [`ClientHandshake::syn`] and
//! [`ClientHandshake::ping`] returned) and no memory of strangers (the cookie has it). Whatever fails leaves the
//! state as it was, so a forged packet cannot spoil the genuine one behind it.

mod agreement;
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
pub use clear::{EARLY_WINDOW, PING_LEN, SYN_LEN, VERSION};
pub use client::{ClientConfig, ClientHandshake, Established, HandshakeError, PingFlight, ServerKey, SynAck};
pub use params::{Extensions, Params, Resumed};
pub use server::{Acceptor, AcceptorConfig, Checked, Effort, Ping, Refusal};
