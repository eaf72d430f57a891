//! Properties of MQTT 5.

use bytes::{BufMut, BytesMut};

use super::cursor::Cursor;
use super::reason::{Fault, Reason};

/// The most user properties of a packet.
pub(in super::super) const MOST_USER_PROPERTIES: usize = 256;

/// The properties of a packet; each absent one is as the standard says of its absence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Properties<'a> {
    pub(in super::super) payload_format: Option<u8>,
    pub(in super::super) message_expiry: Option<u32>,
    pub(in super::super) content_type: Option<&'a str>,
    pub(in super::super) response_topic: Option<&'a str>,
    pub(in super::super) correlation: Option<&'a [u8]>,
    pub(in super::super) subscription: Option<u32>,
    pub(in super::super) session_expiry: Option<u32>,
    pub(in super::super) auth_method: Option<&'a str>,
    pub(in super::super) auth_data: Option<&'a [u8]>,
    pub(in super::super) request_problem: Option<u8>,
    pub(in super::super) will_delay: Option<u32>,
    pub(in super::super) request_response: Option<u8>,
    pub(in super::super) reason: Option<&'a str>,
    pub(in super::super) receive_maximum: Option<u16>,
    pub(in super::super) topic_alias_maximum: Option<u16>,
    pub(in super::super) topic_alias: Option<u16>,
    pub(in super::super) maximum_packet: Option<u32>,
    pub(in super::super) user: Vec<(&'a str, &'a str)>,
}

/// The identifiers that a packet may have.
pub(super) type Allowed = &'static [u8];

pub(super) const OF_CONNECT: Allowed = &[0x11, 0x15, 0x16, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27];
pub(super) const OF_WILL: Allowed = &[0x01, 0x02, 0x03, 0x08, 0x09, 0x18, 0x26];
/// A subscription identifier is for the broker to send.
pub(super) const OF_PUBLISH: Allowed = &[0x01, 0x02, 0x03, 0x08, 0x09, 0x23, 0x26];
pub(super) const OF_ACKNOWLEDGEMENT: Allowed = &[0x1f, 0x26];
pub(super) const OF_SUBSCRIBE: Allowed = &[0x0b, 0x26];
pub(super) const OF_UNSUBSCRIBE: Allowed = &[0x26];
pub(super) const OF_DISCONNECT: Allowed = &[0x11, 0x1f, 0x26];
/// The identifiers that a message may have when it is sent on.
const OF_MESSAGE: Allowed = &[0x01, 0x03, 0x08, 0x09, 0x26];

impl<'a> Properties<'a> {
    /// Reads the properties at the front.
    pub(super) fn read(cursor: &mut Cursor<'a>, allowed: Allowed) -> Result<Self, Fault> {
        let length = cursor.variable()?;
        Self::read_all(Cursor(cursor.take(length as usize)?), allowed)
    }

    /// Reads the properties of a message that [`PropertyList`] wrote, without their length.
    pub(in super::super) fn of_message(bytes: &'a [u8]) -> Result<Self, Fault> {
        Self::read_all(Cursor(bytes), OF_MESSAGE)
    }

    fn read_all(mut cursor: Cursor<'a>, allowed: Allowed) -> Result<Self, Fault> {
        let mut properties = Self::default();
        while !cursor.is_empty() {
            let id = cursor.byte()?;
            if !allowed.contains(&id) {
                return Err(Fault::protocol("the packet has a property that it cannot have"));
            }
            properties.read_one(id, &mut cursor)?;
        }
        properties.check()?;
        Ok(properties)
    }

    fn read_one(&mut self, id: u8, from: &mut Cursor<'a>) -> Result<(), Fault> {
        match id {
            0x01 => once(&mut self.payload_format, from.byte()?),
            0x02 => once(&mut self.message_expiry, from.u32()?),
            0x03 => once(&mut self.content_type, from.text()?),
            0x08 => once(&mut self.response_topic, from.text()?),
            0x09 => once(&mut self.correlation, from.binary()?),
            0x0b => once(&mut self.subscription, from.variable()?),
            0x11 => once(&mut self.session_expiry, from.u32()?),
            0x15 => once(&mut self.auth_method, from.text()?),
            0x16 => once(&mut self.auth_data, from.binary()?),
            0x17 => once(&mut self.request_problem, from.byte()?),
            0x18 => once(&mut self.will_delay, from.u32()?),
            0x19 => once(&mut self.request_response, from.byte()?),
            0x1f => once(&mut self.reason, from.text()?),
            0x21 => once(&mut self.receive_maximum, from.u16()?),
            0x22 => once(&mut self.topic_alias_maximum, from.u16()?),
            0x23 => once(&mut self.topic_alias, from.u16()?),
            0x27 => once(&mut self.maximum_packet, from.u32()?),
            0x26 if self.user.len() == MOST_USER_PROPERTIES => {
                Err(Fault::new(Reason::IMPLEMENTATION, "a packet has at most 256 user properties here"))
            }
            0x26 => {
                self.user.push((from.text()?, from.text()?));
                Ok(())
            }
            _ => Err(Fault::malformed("there is no property with this number")),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let flags = [self.payload_format, self.request_problem, self.request_response];
        if flags.into_iter().flatten().any(|flag| flag > 1) {
            return Err(Fault::protocol("a property that is 0 or 1 has another value"));
        }
        if self.receive_maximum == Some(0) || self.maximum_packet == Some(0) || self.subscription == Some(0) {
            return Err(Fault::protocol("a property that must be at least 1 is 0"));
        }
        if self.auth_data.is_some() && self.auth_method.is_none() {
            return Err(Fault::protocol("there is authentication data without a method"));
        }
        Ok(())
    }

    /// Writes the properties that a message may have when it is sent on, but for its expiry.
    pub(in super::super) fn to_list(&self) -> PropertyList {
        let mut list = PropertyList::default();
        if let Some(format) = self.payload_format {
            list.byte(0x01, format);
        }
        let binaries = [
            (0x03, self.content_type.map(str::as_bytes)),
            (0x08, self.response_topic.map(str::as_bytes)),
            (0x09, self.correlation),
        ];
        for (id, value) in binaries {
            if let Some(value) = value {
                list.binary(id, value);
            }
        }
        self.user.iter().for_each(|(name, value)| list.user(name, value));
        list
    }

    /// The first value of a user property.
    pub(in super::super) fn user(&self, name: &str) -> Option<&'a str> {
        self.user.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::protocol("the packet has a property twice")),
    }
}

/// Properties that are being written.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct PropertyList(BytesMut);

impl PropertyList {
    pub(in super::super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds properties that are written already.
    pub(in super::super) fn written(&mut self, bytes: &[u8]) {
        self.0.put_slice(bytes);
    }

    pub(in super::super) fn byte(&mut self, id: u8, value: u8) {
        self.0.put_slice(&[id, value]);
    }

    pub(in super::super) fn u16(&mut self, id: u8, value: u16) {
        self.0.put_u8(id);
        self.0.put_u16(value);
    }

    pub(in super::super) fn u32(&mut self, id: u8, value: u32) {
        self.0.put_u8(id);
        self.0.put_u32(value);
    }

    pub(in super::super) fn variable(&mut self, id: u8, value: u32) {
        self.0.put_u8(id);
        super::write::put_variable(&mut self.0, value);
    }

    /// Adds bytes, or a text. What does not fit is left out.
    pub(in super::super) fn binary(&mut self, id: u8, value: &[u8]) {
        if let Ok(length) = u16::try_from(value.len()) {
            self.0.put_u8(id);
            self.0.put_u16(length);
            self.0.put_slice(value);
        }
    }

    pub(in super::super) fn user(&mut self, name: &str, value: &str) {
        if let (Ok(_), Ok(length)) = (u16::try_from(name.len()), u16::try_from(value.len())) {
            self.binary(0x26, name.as_bytes());
            self.0.put_u16(length);
            self.0.put_slice(value.as_bytes());
        }
    }
}
