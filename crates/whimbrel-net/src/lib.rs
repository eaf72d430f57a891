//! What the Whimbrel transport asks of the operating system: UDP in batches.
//!
//! [`UdpSocket`] is a socket on the tokio runtime, [`BareSocket`] the same for a thread that waits by itself. Both
//! send up to 64 datagrams in one call (GSO), receive as many coalesced (GRO), and carry with each its ECN mark and
//! the local address it was sent to. [`RecvBatch`] holds the memory for receiving and hands out single datagrams.
//!
//! [`host_addresses`] lists what this host can be reached by, and [`AddressWatch`] tells when that changes.
//!
//! Addresses are always plain: a dual-stack socket takes and gives `192.0.2.1`, never `::ffff:192.0.2.1`.
//!
//! An error from sending is about that datagram, never about the socket: send the next one. What ICMP reports
//! about earlier datagrams ("port unreachable") is not an error here; anyone can forge it, and the transport finds
//! out by itself whether its peer is there.

mod addresses;
mod bare;
mod batch;
mod io;
mod options;
mod pool;
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
