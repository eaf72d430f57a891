//! One sealed, multi-path, message-oriented transport over UDP for networks that move.
//!
//! An [`Endpoint`] is a UDP socket and the connections on it. [`Endpoint::connect`] and [`Endpoint::accept`] return a
//! [`Mocket`]: a handle on a session with a peer whose key is known. [`Mocket::send`] sends messages reliably and in
//! order. A [`Sender`] sends them with other options: unreliable, unsequenced, or with a tag, a priority or a
//! lifetime. [`Mocket::recv`] receives messages. A [`Stream`] carries bytes.
//!
//! ```
//! use whimbrel::{Config, Endpoint, new_identity};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
//! let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
//!
//! let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
//! let near = client.connect(&url).await?;
//! let far = server.accept().await.ok_or("the endpoint is closed")?;
//!
//! near.send("hello").await?;
//! assert_eq!(far.recv().await?.payload, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! The guide, `docs/guide.md` in the repository, shows each part of the interface and lists all settings.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `serde`: settings, keys and addresses can be read and written in any format that serde knows.
//! - `tracing`: endpoints and connections emit events of the crate `tracing`.
//!
//! # Runtime
//!
//! The futures run on tokio. All protocol logic is in [`whimbrel_proto`], which reads no clock and no socket.

#![warn(missing_debug_implementations)]

mod accepting;
mod address;
mod agreeing;
mod agreements;
mod backlog;
mod clock;
mod company;
mod config;
mod ecn;
mod endpoint;
mod endpoint_shared;
mod error;
mod events;
mod held_streams;
mod identity;
mod key_log;
mod local_socket;
mod locals;
mod lock;
mod locked;
mod message_stream;
mod mocket;
mod mocket_set;
mod networks;
mod paths;
mod receive;
mod recording;
mod resolve;
mod roam;
mod serving;
mod shared;
mod stops;
mod stream;
mod stream_code;
mod stream_half;
mod stream_reader;
mod stream_writer;
mod submissions;
mod suspend;
mod suspended;
#[cfg(test)]
mod testing;
mod trust;
mod turns;
mod wakers;
mod woken;

/// Compiles the example of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The bytes of messages and streams, cheap to clone. From the crate [`bytes`].
pub use bytes::Bytes;

pub use address::{ToSocket, ToUrl};
pub use config::Config;
pub use endpoint::Endpoint;
pub use error::{
    BindError, Closed, ConnectError, PathError, SendError, StreamIoError, StreamOpenError,
    StreamOptionsError, StreamRecvError, TicketsError,
};
pub use events::{Events, EventsError};
pub use identity::new_identity;
pub use locals::{LocalPath, Paths};
pub use message_stream::MessageStream;
pub use mocket::{Delivery, Mocket, Sender, SenderBuilder, Stats, TagHandle};
pub use mocket_set::MocketSet;
pub use stream::Stream;
pub use stream_code::StreamCode;
pub use stream_reader::StreamReader;
pub use stream_writer::StreamWriter;
pub use suspend::{ResumeError, SuspendError};
pub use suspended::{SealError, SuspendedMocket};
pub use whimbrel_proto::congestion::Congestion;
pub use whimbrel_proto::crypto::{Identity, PublicKey, Secret};
pub use whimbrel_proto::handshake::AcceptorConfig;
pub use whimbrel_proto::session::{
    Batch, Counters, CreditPolicy, MAX_OPENING, Message, MessageRef, Outcome, SessionConfig, SessionStats,
    SnapshotError, StreamCredit, StreamOptions, TagStats,
};
pub use whimbrel_proto::units::{self, ParseError};
pub use whimbrel_proto::wire::close::Reason;
pub use whimbrel_proto::{
    Admit, Cause, CloseReason, CodingStats, ConnectionStats, CostPolicy, DEFAULT_PORT, DeadlineStats,
    EndpointStats, Event, ExportError, ListenConfig, LocalAddress, MAX_THRESHOLDS, MessageId, OpenPathError,
    PathId, PathState, PathStats, PeerText, PrimaryRule, Quality, QualityChange, Repeats, Scheduling,
    Service, SetPrimaryError, StreamId, SuspendMode, Tag, Threshold, Ticket, TicketStore, TooManyThresholds,
    Totals, TransportConfig, Url, UrlError,
};
