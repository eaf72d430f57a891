//! Datagrams of UDP programs: see [`protocol::Datagram`](crate::protocol::Datagram).

mod far;
mod outgoing;
mod programs;

pub(crate) use far::FarPrograms;
pub(crate) use outgoing::Outgoing;
pub use programs::{Program, Programs};
pub(crate) use programs::{Reply, replies};
