//! Packets of MQTT 3.1.1 and 5 on the wire: what clients send is read, what the broker sends is written.
//!
//! Packets borrow from the bytes they were read from. Each mistake is a [`Fault`] with the standard's reason code.

mod connect;
mod cursor;
mod packet;
mod properties;
mod reason;
mod write;

#[cfg(test)]
mod tests;

pub(super) use connect::{Connect, WillPart};
pub(super) use packet::{Packet, Publish, Requested, Retained, frame};
pub(super) use properties::{Properties, PropertyList};
pub(super) use reason::{Fault, Reason};
pub(super) use write::{Acknowledged, Connack, Out};

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// 3.1.1.
    V3,
    /// 5.
    V5,
}

/// How often a message may arrive, and whether it may get lost: the protocol's QoS.
#[allow(clippy::enum_variant_names, reason = "the words of the standard")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Qos {
    AtMostOnce = 0,
    AtLeastOnce = 1,
    ExactlyOnce = 2,
}

impl Qos {
    pub(super) fn of(bits: u8) -> Result<Self, Fault> {
        match bits {
            0 => Ok(Self::AtMostOnce),
            1 => Ok(Self::AtLeastOnce),
            2 => Ok(Self::ExactlyOnce),
            _ => Err(Fault::malformed("a QoS is 0, 1 or 2")),
        }
    }
}
