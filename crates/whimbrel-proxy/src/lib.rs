//! The proxy: unmodified TCP and UDP programs over one sealed, multi-path session of Whimbrel.
//!
//! - [`protocol`] is what two proxies tell each other. [`policy`] decides what becomes of a flow, and what a peer may
//!   open. [`flow`] hands bytes on between a program and a stream, and [`compress`] makes them smaller on the link. These
//!   four are pure.
//! - `connector` carries a session: by Whimbrel's transport, or by one TCP connection.
//! - [`relay`] has the peers, their sessions, and the flows and datagrams of these.
//! - [`intercept`] takes programs' connections: SOCKS5, HTTP CONNECT, fixed forwards, TPROXY, and a TUN interface.
//! - `multicast` carries groups of links, and `sockets` has what is special about sockets of the proxy.
//! - [`upgrade`] is what one process hands over to another.
//! - [`Proxy`] puts them together.
//!
//! docs/proxy.md is the guide, docs/proxy-protocol.md the protocol.

#![warn(missing_debug_implementations)]

mod allowance;
mod common;
pub mod compress;
mod connector;
pub mod flow;
mod handing_over;
pub mod intercept;
mod intercepting;
mod multicast;
mod news;
mod peer_settings;
pub mod policy;
pub mod protocol;
mod proxy;
mod proxy_status;
pub mod relay;
mod reloading;
mod rule_mistake;
mod sessions;
mod settings;
mod sockets;
mod sources;
mod text;
pub mod upgrade;
mod ways_in;

pub use connector::{Connector, Listen, PeerUrl, PeerUrlError};
pub use multicast::{BrokerSettings, MulticastError, MulticastMistake, MulticastSettings};
pub use news::News;
pub use peer_settings::{Mode, PeerSettings};
pub use proxy::{Proxy, StartError};
pub use proxy_status::ProxyStatus;
pub use rule_mistake::RuleMistake;
pub use sessions::TcpConnector;
pub use settings::{Settings, SettingsError, WaysIn};
pub use sources::Sources;

/// Compiles and runs the example of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
