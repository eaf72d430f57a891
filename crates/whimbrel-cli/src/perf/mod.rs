//! `whimbrel perf`: measures a path, as iperf does for TCP.
//!
//! The *source* generates the messages of a `Plan`, and the *sink* counts what arrives. The figures are the sink's,
//! together with the source's counters. Both exchange small control messages of high priority on the same mocket,
//! distinguished from the load by their payload protocol identifier. A `Start` message travels ahead of the load, so
//! that measuring costs no round trip.

mod clock;
mod command;
mod control;
mod ending;
mod figures;
mod meter;
mod plan;
mod received_set;
mod run;
mod screen;
mod serve;
mod sink;
mod source;
mod stamp;
mod ticket;

pub use clock::monotonic_ns;
pub use command::PerfCommand;
