//! A published message: what it is in memory and on the wire, and what brokers add to it.
//!
//! A publisher fills in a [`Draft`]. [`Message`] holds the encoded bytes once, and the places of its parts in them: whoever sends it on
//! sends these bytes. The broker at which it enters adds a [`Stamp`], which names it everywhere.

mod body;
mod draft;
mod error;
mod index;
mod lifetime;
mod limits;
mod publication;
mod stamp;

pub use body::Message;
pub use draft::Draft;
pub use error::MessageError;
pub use index::Index;
pub use lifetime::LONGEST_LIFETIME;
pub use limits::{LONGEST_KEY, LONGEST_MESSAGE};
pub use publication::{Publication, Publications, PublisherId, WINDOW};
pub use stamp::{BrokerId, ChannelId, Hlc, LAST_SEQUENCE, Origin, PartitionId, Stamp};
