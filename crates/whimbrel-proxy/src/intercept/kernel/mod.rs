//! The parts that every interception in the kernel needs: an instance with names of its own, rules and routes that are found
//! again after a kill, and SYNs that wait until the far end has answered.

mod error;
mod gate;
mod held;
mod host;
mod instance;
mod leftovers;
mod names;
mod program;
mod rights;
mod routes;
mod seen;
mod segment;

pub use error::KernelError;
pub(super) use gate::{Fate, Gate};
pub(super) use held::{Pair, Verdict};
pub(super) use host::{check_forwarding, has_ipv6};
pub(super) use instance::Instance;
pub(super) use leftovers::remove_dead;
pub use leftovers::{Leftovers, cleanup};
pub(super) use names::Names;
pub(super) use program::{Tool, first_line};
pub(super) use rights::check_rights;
pub(super) use routes::{PROTOCOL, Routes, families, remove as remove_routes};
pub(super) use segment::{SynRefusal, datagram, datagram_refusal, dscp, ip, refusal, stray_reset, syn};
