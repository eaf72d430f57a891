//! `whimbrel perf`: measures a path, as iperf does for TCP.
//!
//! The two ends play two parts. The *source* generates the messages of a `Plan`; the *sink* counts what arrives. Figures are the
//! sink's, with the source's counters beside them. Both talk by small control messages on the same mocket, of high priority, told apart
//! from the load by their payload protocol identifier; a `Start` travels ahead of the load, so that measuring costs no round trip.

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
