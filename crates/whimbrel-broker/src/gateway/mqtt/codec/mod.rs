//! Packets of MQTT 3.1.1 and 5 on the wire: what clients send is read, and what the broker sends is written. For bridges, it is also the other
//! way round.
//!
//! Packets borrow from the bytes they were read from. Each mistake is a [`Fault`] with the standard's reason code.

mod connect;
mod cursor;
mod packet;
mod properties;
mod reason;
mod request;
mod server;
mod terms;
mod write;

#[cfg(test)]
mod tests;

pub(super) use connect::{Connect, WillPart};
pub(super) use packet::{Packet, Publish, Requested, Retained, frame};
pub(super) use properties::{Properties, PropertyList};
pub(super) use reason::{Fault, Reason};
pub(super) use request::Introducing;
pub(super) use server::{Accepted, CLUSTER, ServerPacket};
pub(super) use terms::{Qos, Version};
pub(super) use write::{Acknowledged, Connack, Out};
