//! Words that many packets have: the version, and the QoS.

use super::reason::Fault;

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Version {
    /// 3.1.1.
    V3,
    /// 5.
    V5,
}

/// How often a message may arrive, and whether it may get lost: the protocol's QoS.
#[allow(clippy::enum_variant_names, reason = "the words of the standard")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Qos {
    AtMostOnce = 0,
    AtLeastOnce = 1,
    ExactlyOnce = 2,
}

impl Qos {
    pub(in super::super) fn of(bits: u8) -> Result<Self, Fault> {
        match bits {
            0 => Ok(Self::AtMostOnce),
            1 => Ok(Self::AtLeastOnce),
            2 => Ok(Self::ExactlyOnce),
            _ => Err(Fault::malformed("a QoS is 0, 1 or 2")),
        }
    }
}
