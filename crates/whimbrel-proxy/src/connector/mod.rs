//! The connector carries a session of two proxies: Whimbrel's transport, or one TCP connection, so that what the transport gains can
//! be measured.
//!
//! A session opens and accepts streams with an opening, and sends messages. [`Link`] offers exactly that.

mod failure;
mod kind;
mod link;
mod listen;
mod messages;
mod network;
mod stream;
pub(crate) mod tcp;
mod url;

pub(crate) use failure::Failure;
pub use kind::Connector;
pub(crate) use link::{Link, LinkEnd};
pub use listen::Listen;
pub(crate) use messages::Messages;
pub(crate) use stream::{Stream, StreamReader, StreamWriter};
pub use url::{PeerUrl, PeerUrlError};
