//! Interception by TPROXY on Linux: TCP connections and datagrams of others, or of this host, whose programs know
//! nothing of it.
//!
//! nft marks what is to be intercepted (`ruleset`). By its mark, the kernel routes a datagram or the rest of a
//! connection to a socket of ours. The SYN of a new connection goes into a TUN (`routes`), where it waits until the far
//! end has answered (`gate`). The table, the TUN and the lock on an instance's names go with the process. What stays
//! after a kill, [`cleanup`](super::cleanup) finds by its numbers.

mod error;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod interception;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(not(target_os = "linux"))]
mod nowhere;
mod parts;
#[cfg(target_os = "linux")]
mod replies;
#[cfg(target_os = "linux")]
mod routes;
#[cfg(target_os = "linux")]
mod ruleset;
mod settings;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(target_os = "linux")]
mod udp;

pub use error::TproxyError;
#[cfg(target_os = "linux")]
pub use interception::Interception;
#[cfg(not(target_os = "linux"))]
pub use nowhere::{Interception, Leftovers, cleanup};
pub(crate) use parts::{InterceptionNote, InterceptionParts};
pub use settings::{TproxyMistake, TproxySettings};
