//! The proxy: unmodified TCP and UDP programs over one sealed, multi-path session of Whimbrel.
//!
//! - [`protocol`] is what two proxies tell each other. [`policy`] decides what a peer may open. [`flow`] hands bytes on
//!   between a program and a stream. These three are pure.
//! - [`intercept`] takes programs' connections: SOCKS5, HTTP CONNECT and fixed forwards. [`relay`] has the sockets.
//! - [`Proxy`] puts them together.
//!
//! docs/proxy.md is the guide, docs/proxy-protocol.md the protocol.

#![warn(missing_debug_implementations)]

pub mod flow;
pub mod intercept;
pub mod policy;
pub mod protocol;
mod proxy;
pub mod relay;
mod settings;
mod text;

pub use proxy::{News, Proxy, ProxyStatus, StartError};
pub use settings::{PeerSettings, Settings, SettingsError, WaysIn};
