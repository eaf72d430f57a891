//! Compression of what goes over the link. Pure: it knows neither sockets nor sessions, nor the protocol.
//!
//! - [`Method`] and [`Dictionary`] say how. [`Encoder`] and [`Decoder`] do it, with bounded windows.
//! - [`DatagramCodec`] is for datagrams, each by itself. For flows there is
//!   [`flow::compressed`](crate::flow::compressed).
//! - [`Budget`] bounds the memory of all contexts together.

mod budget;
mod datagrams;
mod decoder;
mod dictionary;
mod encoder;
mod malformed;
mod method;
mod train;

pub use budget::{Budget, Share};
pub use datagrams::DatagramCodec;
pub use decoder::Decoder;
pub use dictionary::{Dictionary, DictionaryId, InvalidDictionary};
pub use encoder::{Encoder, Failed};
pub use malformed::MalformedCompression;
pub use method::{Algorithm, InvalidMethod, Method};
pub use train::{CannotTrain, train};
