//! Multicast: groups of a link here are carried to peers, and those of peers are sent on to links here.
//!
//! Each peer gets a copy of its own, or all proxies get them through a broker ([`dissemination`]). A datagram counts only if its source is on the link. Nothing is sent back to where it
//! came from, nor carried on by whoever hears what a proxy has sent ([`seen`]): networks that several proxies join do not
//! feed each other.

#[cfg(target_os = "linux")]
mod dissemination;
#[cfg(target_os = "linux")]
mod links;
#[cfg(not(target_os = "linux"))]
mod nowhere;
#[cfg(target_os = "linux")]
mod running;
mod seen;
#[cfg(target_os = "linux")]
mod senders;
mod settings;
#[cfg(target_os = "linux")]
mod sockets;

#[cfg(not(target_os = "linux"))]
pub(crate) use nowhere::Multicast;
#[cfg(target_os = "linux")]
pub(crate) use running::Multicast;
pub use settings::{BrokerSettings, MulticastError, MulticastMistake, MulticastSettings};
