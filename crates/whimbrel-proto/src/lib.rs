//! The Whimbrel transport as pure state machines: no sockets, no clock, no randomness of its own.
//!
//! Think of it as three rooms. The *session* knows messages, streams, order, credit, tags, lifetimes and outcomes; it
//! knows nothing of packets. The *connection* knows keys, paths, packets, acknowledgement, loss and congestion; it
//! knows nothing of messages. It asks the session to fill a packet's room with blocks, remembers which
//! [`session::Carried`] the packet contained, and tells the session the fate of each. The *endpoint* finds the
//! connection that a datagram is for, and answers strangers without keeping state for them.
//!
//! Everything is driven by `handle_…(now, …)` and drained by `poll_…`. The same inputs give the same outputs.

#![warn(missing_debug_implementations)]

mod budget;
mod coding;
mod config;
pub mod congestion;
pub mod connection;
pub mod crypto;
mod debug_only;
mod endpoint;
mod error;
mod expected;
pub mod handshake;
mod id;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
mod peer_text;
mod recovery;
pub mod session;
mod setters;
mod settings_text;
mod tickets;
mod time;
pub mod units;
mod url;
pub mod wire;

/// Compiles the example of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use budget::{Budget, Budgets};
pub use coding::CodingStats;
pub use config::{Repeats, TransportConfig};
pub use connection::{
    CloseReason, Connection, ConnectionStats, CostPolicy, Datagram, DeadlineStats, Dial, EndpointAnswer,
    EndpointEvent, Event, ExportError, IssuedTicket, LocalAddress, MAX_THRESHOLDS, MOST_PATHS, OpenPathError,
    PathState, PathStats, PrimaryRule, Quality, QualityChange, Resuming, SUSPENDED_VERSION, Scheduling,
    SetPrimaryError, SuspendError, SuspendMode, Suspended, Threshold, TooManyThresholds, Totals, Transmit,
};
pub use endpoint::{
    Admit, AgreedPing, Agreeing, ConnectConfig, Endpoint, EndpointStats, Handle, ListenConfig, ResumeError,
    Routed,
};
pub use error::{Cause, PeerMisbehaved};
pub use id::{ConnectionId, MessageId, PathId, Service, Side, StreamId, Tag};
pub use peer_text::PeerText;
pub use recovery::Ecn;
pub use tickets::{Ticket, TicketStore};
pub use time::Time;
pub use url::{DEFAULT_PORT, Url, UrlError};
