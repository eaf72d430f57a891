//! A flow's byte stream whose bytes are compressed, with one context for the whole of a direction.
//!
//! [`Compressed`] goes around a [`Channel`](super::Channel). Bytes go in pieces (`piece`), made at the sender (`pack`), so
//! that what does not shrink is left alone (`judge`), and undone at the receiver (`unpack`).

mod judge;
mod pack;
mod paused;
mod piece;
mod restart;
mod stage;
mod unpack;

pub use paused::Paused;
pub use restart::Restart;
pub use stage::{Compressed, LinkBytes};
