//! Datagrams of UDP programs: see [`protocol::Datagram`](crate::protocol::Datagram).

mod codecs;
mod far;
mod far_contexts;
mod far_program;
mod lanes;
pub(super) mod outgoing;
mod parts;
mod programs;

pub(crate) use codecs::Codecs;
pub(crate) use far::{FarPrograms, Found};
pub(crate) use outgoing::Outgoing;
pub(crate) use parts::UdpParts;
pub(crate) use programs::{EchoReply, Reply, replies};
pub use programs::{ProgramGuard, Programs};
