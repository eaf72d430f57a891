//! Datagrams of UDP programs: see [`protocol::Datagram`](crate::protocol::Datagram).

mod codecs;
mod far;
mod far_socket;
mod lanes;
mod outgoing;
mod programs;

pub(crate) use codecs::Codecs;
pub(crate) use far::{FarPrograms, Found};
pub(in crate::relay) use far_socket::FarSocket;
pub(crate) use outgoing::Outgoing;
pub(crate) use programs::{EchoReply, Reply, replies};
pub use programs::{Program, Programs};
