//! CONNECT.

use super::cursor::Cursor;
use super::properties::Properties;
use super::properties::{OF_CONNECT, OF_WILL};
use super::reason::{Fault, Reason};
use super::terms::{Qos, Version};

/// The first packet of a client.
#[derive(Clone, Debug)]
pub(in super::super) struct Connect<'a> {
    pub(in super::super) version: Version,
    /// Clean Start, which MQTT 3.1.1 calls Clean Session.
    pub(in super::super) is_clean: bool,
    /// Seconds; 0 is none.
    pub(in super::super) keep_alive: u16,
    pub(in super::super) properties: Properties<'a>,
    pub(in super::super) client: &'a str,
    pub(in super::super) will: Option<WillPart<'a>>,
    pub(in super::super) user: Option<&'a str>,
    pub(in super::super) password: Option<&'a [u8]>,
}

/// The message that is published if the client goes without saying so.
#[derive(Clone, Debug)]
pub(in super::super) struct WillPart<'a> {
    pub(in super::super) qos: Qos,
    pub(in super::super) retain: bool,
    pub(in super::super) properties: Properties<'a>,
    pub(in super::super) topic: &'a str,
    pub(in super::super) payload: &'a [u8],
}

impl<'a> Connect<'a> {
    /// The version that the bytes of a CONNECT name, as far as they can be read: an answer is written in it.
    pub(in super::super) fn version_of(body: &[u8]) -> Version {
        match body {
            [0, 4, b'M', b'Q', b'T', b'T', level, ..] if *level >= 5 => Version::V5,
            _ => Version::V3,
        }
    }

    pub(super) fn read(body: &'a [u8]) -> Result<Self, Fault> {
        let mut from = Cursor(body);
        let name = from.text()?;
        let level = from.byte()?;
        let version = match (name, level) {
            ("MQTT", 4) => Version::V3,
            ("MQTT", 5) => Version::V5,
            ("MQTT" | "MQIsdp", _) => {
                return Err(Fault::new(Reason::PROTOCOL_VERSION, "the broker speaks MQTT 3.1.1 and 5"));
            }
            _ => return Err(Fault::malformed("the protocol is not MQTT")),
        };
        let flags = from.byte()?;
        let has = |bit: u8| flags & bit != 0;
        if has(1) {
            return Err(Fault::malformed("a reserved flag is set"));
        }
        if version == Version::V3 && has(0x40) && !has(0x80) {
            return Err(Fault::malformed("there is a password without a user"));
        }
        if !has(4) && flags & 0x38 != 0 {
            return Err(Fault::malformed("there are Will flags, but no Will"));
        }
        let keep_alive = from.u16()?;
        let is_v5 = version == Version::V5;
        let properties = if is_v5 { Properties::read(&mut from, OF_CONNECT)? } else { Properties::default() };
        let client = from.text()?;
        let will = has(4).then(|| WillPart::read(&mut from, flags, is_v5)).transpose()?;
        let user = has(0x80).then(|| from.text()).transpose()?;
        let password = has(0x40).then(|| from.binary()).transpose()?;
        if !from.is_empty() {
            return Err(Fault::malformed("there are bytes after the packet's last field"));
        }
        Ok(Self { version, is_clean: has(2), keep_alive, properties, client, will, user, password })
    }
}

impl<'a> WillPart<'a> {
    fn read(from: &mut Cursor<'a>, flags: u8, is_v5: bool) -> Result<Self, Fault> {
        let qos = Qos::of(flags >> 3 & 3)?;
        let properties = if is_v5 { Properties::read(from, OF_WILL)? } else { Properties::default() };
        let (topic, payload) = (from.text()?, from.binary()?);
        Ok(Self { qos, retain: flags & 0x20 != 0, properties, topic, payload })
    }
}
