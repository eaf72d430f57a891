//! The operating system's side of the Whimbrel transport: UDP in batches.
//!
//! [`UdpSocket`] is a socket on the tokio runtime; [`BareSocket`] is the same for a thread that waits by itself. Both
//! send up to 64 datagrams in one call (GSO) and receive as many coalesced (GRO). Each datagram comes with its ECN
//! mark and the local address that it was sent to. [`RecvBatch`] holds the memory for receiving and gives access to
//! single datagrams.
//!
//! [`host_addresses`] lists the addresses of this host, and [`AddressWatch`] reports when they change.
//!
//! Addresses are always plain: a dual-stack socket takes and returns `192.0.2.1`, never `::ffff:192.0.2.1`.
//!
//! An error from sending concerns that datagram and never the socket: continue with the next one. ICMP errors about
//! earlier datagrams ("port unreachable") are not reported as errors. Anyone can forge them, and the transport finds
//! out by itself whether its peer is there.

#![warn(missing_debug_implementations)]

mod addresses;
mod bare;
mod batch;
mod io;
mod options;
mod pool;
mod room;
mod socket;
mod watch;

pub use addresses::{HostAddress, host_addresses, source_for};
pub use bare::BareSocket;
pub use batch::{Datagram, RecvBatch};
pub use options::SocketOptions;
pub use pool::{OwnedDatagram, RecvPool};
pub use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit};
pub use socket::UdpSocket;
pub use watch::AddressWatch;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod watch_tests;
