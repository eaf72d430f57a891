//! Compression of what goes over the link: of flows, with one context for the whole of a direction, and of datagrams, each
//! by itself. Pure: it knows neither sockets nor sessions.
//!
//! - [`Method`] and [`Dictionary`] say how. [`Encoder`] and [`Decoder`] do it, with bounded windows.
//! - [`Compressed`] puts them around a [`Channel`](crate::flow::Channel), in pieces, so that what does not shrink is left
//!   alone. [`DatagramCodec`] is for datagrams.
//! - [`Budget`] bounds the memory of all contexts together.

mod budget;
mod datagrams;
mod decoder;
mod dictionary;
mod encoder;
mod judge;
mod method;
mod pack;
mod paused;
mod piece;
mod restart;
mod stage;
mod train;
mod unpack;

pub use budget::{Budget, Share};
pub use datagrams::DatagramCodec;
pub use decoder::Decoder;
pub use dictionary::{Dictionary, DictionaryId, InvalidDictionary};
pub use encoder::{Encoder, Failed};
pub use method::{Algorithm, InvalidMethod, Method};
pub use paused::Paused;
pub use restart::Restart;
pub use stage::{Compressed, LinkBytes};
pub use train::{CannotTrain, train};

/// Bytes that are not what an encoder of this method makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's compressed bytes are malformed")]
pub struct Malformed;
