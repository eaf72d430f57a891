//! One connection: keys and paths that carry one session now.
//!
//! `state` holds the parts of a connection. The folders hold one noun or verb a file: verbs are methods of
//! [`Connection`], and nouns know nothing of it. Only `lifecycle::redial` and `lifecycle::succession` hold other
//! connections. The connection routes and owns; it does not compute.
//!
//! - `handshake`: the handshake, its keys, and tickets.
//! - `packet`: building and opening packets, and reporting their fates.
//! - `paths`: the paths of a connection: their states, addresses and ids, and the choice of path for each packet.
//! - `lifecycle`: closing, suspending, resuming and reattaching.
//! - `control`: the queue of the connection's own blocks.
//! - `observe`: events, statistics and quality thresholds.

mod api;
#[cfg(test)]
mod captured_tests;
mod control;
mod datagram;
mod event;
mod handshake;
mod lifecycle;
mod observe;
mod packet;
pub(crate) mod paths;
#[cfg(test)]
mod printed;
mod state;
mod timeout;
#[cfg(test)]
mod vectors;

pub use datagram::{Datagram, Transmit};
pub use event::{EndpointAnswer, EndpointEvent, Event};
pub use handshake::export_error::ExportError;
pub(crate) use handshake::opening::Opening;
pub use handshake::ticketing::IssuedTicket;
pub(crate) use lifecycle::attachment::Attachment;
pub use lifecycle::close::CloseReason;
pub use lifecycle::dial::Dial;
pub use lifecycle::resuming::Resuming;
pub use lifecycle::suspend::{SuspendError, SuspendMode};
pub use lifecycle::suspended::{SUSPENDED_VERSION, Suspended};
pub use observe::quality::{MAX_THRESHOLDS, Quality, QualityChange, Threshold, TooManyThresholds};
pub use observe::stats::{ConnectionStats, PathStats, Totals};
pub use packet::copies::DeadlineStats;
pub use paths::addresses::LocalAddress;
pub use paths::cost::CostPolicy;
pub use paths::opening::OpenPathError;
pub use paths::path_set::MOST_PATHS;
pub use paths::path_state::PathState;
pub use paths::primary::{PrimaryRule, SetPrimaryError};
pub use paths::scheduler::Scheduling;
pub use state::Connection;
pub(crate) use state::Setup;
