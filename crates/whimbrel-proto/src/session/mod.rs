//! The session: messages, streams, order, credit, tags, priorities, lifetimes, outcomes.
//!
//! `state` defines [`Session`]. Each submodule file holds a noun or a verb: nouns know nothing of [`Session`], verbs
//! are methods of it.
//!
//! - `send`: a message waits in a *lane* (`lane`). When it is first sent it gets its number and moves to its order
//!   domain's list of messages in flight (`sending`). It ends with an [`Outcome`]. [`Carried`] records what a packet
//!   carried.
//! - `receive`: a domain (`receiving`) detects duplicates, reassembles parts and restores order. Messages whose turn
//!   has come wait in an inbox.
//! - `account`: credit in both directions, and the memory held for the peer.
//! - `snapshot`: saving a session as bytes and restoring it.
//!
//! Byte streams have their own pair of halves (`bytes_out`, `bytes_in`). Numbers index ring buffers, so nothing is
//! looked up by hash, and everything is plain data.

mod account;
mod api;
mod chronicle;
pub(crate) mod config;
mod content;
mod end;
mod end_out;
mod message;
mod numbers;
mod options;
mod receive;
mod resting;
mod send;
mod snapshot;
mod state;
mod stats;
mod stream;
mod stream_counts;
mod stream_options;
mod streams_api;
mod tag_figures;
mod tag_stats;
#[cfg(test)]
mod tests;

pub use account::admission::{Admission, MAX_BESIDE, MAX_BESIDE_BYTES};
pub use account::stalls::StreamCredit;
pub(crate) use account::stalls::Whose;
pub(crate) use chronicle::Note;
pub use config::{
    DEFAULT_CREDIT, DEFAULT_SHARE, DEFAULT_STREAMS, MAX_NOTICES, MAX_RANGES, MAX_REPEATABLE, MAX_SPAN,
    MAX_STREAMS, MESSAGE_CHARGE, PeerLimits, SessionConfig, URGENT_BEYOND, URGENT_LEN,
};
pub use message::{
    Carried, DomainKey, Message, OpenError, Outcome, Outgoing, Read, SendError, SessionEvent, StreamError,
    StreamKind, TagSettings,
};
pub use options::{CreditPolicy, RouteClass, StreamOptions};
pub use receive::batch::{Batch, MessageRef};
pub use receive::opening::MAX_OPENING;
pub(crate) use send::copied::{Copied, Copies};
pub(crate) use send::data_out::Flow;
pub use snapshot::codec::{SNAPSHOT_VERSION, SnapshotError};
pub use state::Session;
pub use stats::{Counters, SessionStats};
pub use tag_stats::TagStats;
