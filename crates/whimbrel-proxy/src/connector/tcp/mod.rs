//! The connector `tcp`: a session of two proxies over one TCP connection, in place of Whimbrel's transport.
//!
//! [`frame`] is what goes over it, [`mux`] the streams and messages, with [`half`] for one direction of a stream and
//! [`outbox`] for what waits: these are pure. [`noise`] proves keys and seals, [`link`] has the
//! [`connection`], [`dial`](mod@dial) makes it, and [`listener`] lets peers in.

mod connection;
mod dial;
mod frame;
mod half;
mod link;
mod listener;
mod mux;
#[cfg(test)]
mod mux_tests;
mod noise;
mod outbox;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use self::dial::dial;
pub(crate) use self::link::{TcpLink, TcpWatch};
pub(crate) use self::listener::serve;
pub(crate) use self::noise::Keys;
pub(crate) use self::stream::{TcpReader, TcpStreamEnds, TcpWriter};
