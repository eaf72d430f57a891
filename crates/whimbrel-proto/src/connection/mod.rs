//! One connection: keys and paths that carry one session now.
//!
//! `state` says what a connection consists of. The rooms hold a noun or a verb a file: nouns know nothing of [`Connection`], verbs are its
//! methods. It routes and owns; it does not compute.
//!
//! - `handshake`: keys, and the client's half of the handshake.
//! - `packet`: packets: put together, taken apart, and what became of them.
//! - `paths`: the paths of a connection: their states, addresses, ids, and which of them carries what.
//! - `lifecycle`: how a connection ends, suspends, comes back.
//! - `control`: the connection's own blocks that wait to be sent.
//! - `observe`: what a connection says of itself: events, figures, thresholds.
//!
//! What to poll in which order: feed `handle_datagram`, `handle_timeout` and commands; then drain `poll_transmit` until it has nothing,
//! `poll_endpoint_event`, `poll_event`; then sleep until `poll_timeout`.

mod api;
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
pub use paths::multipath::OpenPathError;
pub use paths::path_set::MOST_PATHS;
pub use paths::path_state::PathState;
pub use paths::primary::{PrimaryRule, SetPrimaryError};
pub use paths::scheduler::Scheduling;
pub use state::Connection;
pub(crate) use state::Setup;
