//! The packets that a broker of others sends to a client, which a bridge is.

use super::cursor::Cursor;
use super::packet::Publish;
use super::packet::{acknowledged, identifier};
use super::properties::Properties;
use super::properties::{OF_ACKNOWLEDGEMENT, OF_DISCONNECT};
use super::reason::{Fault, Reason};
use super::terms::Version;

/// The user property by which a bridge names its cluster in CONNECT, and a broker of ours its own in the answer.
pub(in super::super) const CLUSTER: &str = "whimbrel-cluster";

/// A packet of a broker.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a packet lives while it is handled")]
pub(in super::super) enum ServerPacket<'a> {
    Connack(Accepted),
    Publish(Publish<'a>),
    /// The packet identifier of a message that the broker has, or will not have.
    Puback(u16, Reason),
    /// The packet identifier of a SUBSCRIBE, and what became of its filters.
    Suback(u16, Vec<Reason>),
    Pingresp,
    Disconnect(Reason),
}

/// The answer to a CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Accepted {
    pub(in super::super) session_present: bool,
    /// As MQTT 5 says it, also for 3.1.1.
    pub(in super::super) reason: Reason,
    /// A sentence for people, if there is one.
    pub(in super::super) why: String,
    /// The most messages that the broker wants to have unacknowledged.
    pub(in super::super) receive_maximum: u16,
    /// The longest packet that it takes.
    pub(in super::super) maximum_packet: usize,
    /// The highest QoS that it takes.
    pub(in super::super) maximum_qos: u8,
    /// Whether it takes last values.
    pub(in super::super) retains: bool,
    /// Its cluster, if it is one of ours.
    pub(in super::super) cluster: Option<String>,
    /// Seconds, if it wants others than were asked for.
    pub(in super::super) keep_alive: Option<u16>,
}

impl<'a> ServerPacket<'a> {
    /// Reads a packet of this first byte and body.
    pub(in super::super) fn read(first: u8, body: &'a [u8], version: Version) -> Result<Self, Fault> {
        let (kind, flags) = (first >> 4, first & 0xf);
        if kind != 3 && flags != 0 {
            return Err(Fault::malformed("the flags of the packet's first byte are reserved"));
        }
        let is_v5 = version == Version::V5;
        let mut from = Cursor(body);
        let packet = match kind {
            2 => Self::Connack(Accepted::read(&mut from, is_v5)?),
            3 => Self::Publish(Publish::read(flags, &mut from, is_v5)?),
            4 => acknowledged(&mut from, is_v5).map(|(id, reason)| Self::Puback(id, reason))?,
            9 => read_suback(&mut from, is_v5)?,
            13 => Self::Pingresp,
            14 if is_v5 => read_disconnect(&mut from)?,
            _ => return Err(Fault::malformed("a broker does not send packets of this kind to a bridge")),
        };
        if !from.is_empty() {
            return Err(Fault::malformed("there are bytes after the packet's last field"));
        }
        Ok(packet)
    }
}

impl Accepted {
    fn read(from: &mut Cursor<'_>, is_v5: bool) -> Result<Self, Fault> {
        let flags = from.byte()?;
        if flags > 1 {
            return Err(Fault::malformed("reserved flags of the CONNACK are set"));
        }
        let code = from.byte()?;
        // A broker that knows no MQTT 5 refuses it in the form of 3.1.1.
        let is_v5 = is_v5 && !from.is_empty();
        let reason = if is_v5 { Reason(code) } else { Reason::of_return_code(code) };
        let mut accepted = Self {
            session_present: flags == 1,
            reason,
            why: String::new(),
            receive_maximum: u16::MAX,
            maximum_packet: usize::MAX,
            maximum_qos: 2,
            retains: true,
            cluster: None,
            keep_alive: None,
        };
        if is_v5 {
            let length = from.variable()?;
            let mut properties = Cursor(from.take(length as usize)?);
            while !properties.is_empty() {
                accepted.read_property(&mut properties)?;
            }
        }
        Ok(accepted)
    }

    fn read_property(&mut self, from: &mut Cursor<'_>) -> Result<(), Fault> {
        match from.byte()? {
            0x21 => self.receive_maximum = from.u16()?.max(1),
            0x27 => self.maximum_packet = from.u32()? as usize,
            0x24 => self.maximum_qos = from.byte()?,
            0x25 => self.retains = from.byte()? != 0,
            0x13 => self.keep_alive = Some(from.u16()?),
            0x1f => self.why = from.text()?.to_owned(),
            // A bridge needs none of these.
            0x11 => drop(from.u32()?),
            0x22 => drop(from.u16()?),
            0x28..=0x2a => drop(from.byte()?),
            0x12 | 0x15 | 0x1a | 0x1c => drop(from.text()?),
            0x16 => drop(from.binary()?),
            0x26 => {
                let (name, value) = (from.text()?, from.text()?);
                if name == CLUSTER {
                    self.cluster = Some(value.to_owned());
                }
            }
            _ => return Err(Fault::protocol("the CONNACK has a property that it cannot have")),
        }
        Ok(())
    }
}

fn read_suback<'a>(from: &mut Cursor<'a>, is_v5: bool) -> Result<ServerPacket<'a>, Fault> {
    let id = identifier(from)?;
    if is_v5 {
        Properties::read(from, OF_ACKNOWLEDGEMENT)?;
    }
    Ok(ServerPacket::Suback(id, from.rest().iter().map(|code| Reason(*code)).collect()))
}

fn read_disconnect<'a>(from: &mut Cursor<'a>) -> Result<ServerPacket<'a>, Fault> {
    let reason = if from.is_empty() { Reason::SUCCESS } else { Reason(from.byte()?) };
    if !from.is_empty() {
        Properties::read(from, OF_DISCONNECT)?;
    }
    Ok(ServerPacket::Disconnect(reason))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_panic_nowhere(first in any::<u8>(), body in proptest::collection::vec(any::<u8>(), 0..60)) {
            for version in [Version::V3, Version::V5] {
                drop(ServerPacket::read(first, &body, version));
            }
        }
    }

    #[test]
    fn answers_are_read() {
        let read = |first, body: &'static [u8], version| ServerPacket::read(first, body, version).unwrap();
        let body = &[1, 0, 13, 0x21, 0, 9, 0x27, 0, 1, 0, 0, 0x24, 1, 0x13, 0, 30];
        let ServerPacket::Connack(accepted) = read(0x20, body, Version::V5) else { panic!() };
        assert!(accepted.session_present && accepted.retains);
        assert_eq!((accepted.receive_maximum, accepted.maximum_packet), (9, 65_536));
        assert_eq!((accepted.maximum_qos, accepted.keep_alive), (1, Some(30)));
        let ServerPacket::Connack(refused) = read(0x20, &[0, 5], Version::V3) else { panic!() };
        assert_eq!(refused.reason, Reason::NOT_AUTHORIZED);
        let ServerPacket::Connack(old) = read(0x20, &[0, 1], Version::V5) else { panic!() };
        assert_eq!(old.reason, Reason::PROTOCOL_VERSION);
        let ServerPacket::Puback(7, Reason::NOT_AUTHORIZED) = read(0x40, &[0, 7, 0x87], Version::V5) else {
            panic!()
        };
        let ServerPacket::Suback(2, reasons) = read(0x90, &[0, 2, 1, 0x80], Version::V3) else { panic!() };
        assert_eq!(reasons, [Reason(1), Reason::UNSPECIFIED]);
    }
}
