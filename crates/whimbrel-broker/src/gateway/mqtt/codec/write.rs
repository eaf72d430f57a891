//! The packets that the broker sends.

use bytes::{BufMut, BytesMut};
use whimbrel_pubsub::message::LONGEST_MESSAGE;

use super::properties::PropertyList;
use super::reason::Reason;
use super::terms::{Qos, Version};

/// Packets that wait to be sent, in the client's version and within its limit.
#[derive(Debug)]
pub(in super::super) struct Out {
    version: Version,
    /// The longest packet that the client takes.
    most: usize,
    /// Whether it wants to be told reasons of what it did wrong.
    tells_problems: bool,
    bytes: BytesMut,
}

/// An answer to a CONNECT.
#[derive(Debug)]
pub(in super::super) struct Connack<'a> {
    pub(in super::super) session_present: bool,
    pub(in super::super) reason: Reason,
    pub(in super::super) why: &'a str,
    pub(in super::super) properties: PropertyList,
}

/// The kind of an acknowledgement, as the first byte of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Acknowledged {
    Publish = 0x40,
    Received = 0x50,
    Release = 0x62,
    Complete = 0x70,
}

impl Out {
    pub(in super::super) fn new(version: Version) -> Self {
        Self { version, most: usize::MAX, tells_problems: true, bytes: BytesMut::new() }
    }

    /// Sets the longest packet that the client takes, and whether it wants to be told reasons.
    pub(in super::super) fn limit(&mut self, most: usize, tells_problems: bool) {
        (self.most, self.tells_problems) = (most, tells_problems);
    }

    /// Whether the client takes packets as long as any message's.
    pub(in super::super) fn takes_any_length(&self) -> bool {
        self.most >= 2 * LONGEST_MESSAGE
    }

    pub(in super::super) fn version(&self) -> Version {
        self.version
    }

    /// The bytes to send.
    pub(in super::super) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    pub(in super::super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(in super::super) fn connack(&mut self, connack: Connack<'_>) {
        let Connack { session_present, reason, why, mut properties } = connack;
        let mut body = BytesMut::new();
        body.put_u8(session_present.into());
        match self.version {
            Version::V3 => {
                let Some(code) = reason.return_code() else { return };
                body.put_u8(code);
            }
            Version::V5 => {
                body.put_u8(reason.0);
                if !why.is_empty() {
                    properties.binary(0x1f, why.as_bytes());
                }
                put_properties(&mut body, &properties);
            }
        }
        self.packet(0x20, &body);
    }

    /// Acknowledges a message. A client of MQTT 3.1.1 cannot be told reasons.
    pub(in super::super) fn acknowledge(&mut self, what: Acknowledged, id: u16, reason: Reason, why: &str) {
        let mut body = BytesMut::new();
        body.put_u16(id);
        if self.version == Version::V5 && reason != Reason::SUCCESS {
            body.put_u8(reason.0);
            self.put_why(&mut body, 4, why);
        }
        self.packet(what as u8, &body);
    }

    /// Answers a SUBSCRIBE.
    pub(in super::super) fn suback(&mut self, id: u16, reasons: &[Reason], why: &str) {
        let mut body = BytesMut::new();
        body.put_u16(id);
        match self.version {
            Version::V3 => {
                body.extend(reasons.iter().map(|reason| if reason.0 < 0x80 { reason.0 } else { 0x80 }));
            }
            Version::V5 => {
                self.put_why(&mut body, 4 + reasons.len(), why);
                body.extend(reasons.iter().map(|reason| reason.0));
            }
        }
        self.packet(0x90, &body);
    }

    /// Answers an UNSUBSCRIBE.
    pub(in super::super) fn unsuback(&mut self, id: u16, reasons: &[Reason]) {
        let mut body = BytesMut::new();
        body.put_u16(id);
        if self.version == Version::V5 {
            body.put_u8(0);
            body.extend(reasons.iter().map(|reason| reason.0));
        }
        self.packet(0xb0, &body);
    }

    pub(in super::super) fn pingresp(&mut self) {
        self.packet(0xd0, &[]);
    }

    /// Says why the broker closes the connection. A client of MQTT 3.1.1 cannot be told.
    pub(in super::super) fn disconnect(&mut self, reason: Reason, why: &str) {
        if self.version == Version::V5 {
            let mut body = BytesMut::new();
            body.put_u8(reason.0);
            if why.len() <= usize::from(u16::MAX) && why.len() + 16 <= self.most {
                let mut properties = PropertyList::default();
                properties.binary(0x1f, why.as_bytes());
                put_properties(&mut body, &properties);
            }
            self.packet(0xe0, &body);
        }
    }

    /// Sends a message at a QoS, with a packet identifier unless that is 0. Returns whether the client takes one so long; otherwise nothing is
    /// sent.
    pub(in super::super) fn publish(
        &mut self,
        topic: &str,
        (qos, id): (Qos, u16),
        retain: bool,
        properties: &PropertyList,
        payload: &[u8],
    ) -> bool {
        let has_id = qos != Qos::AtMostOnce;
        let properties_length = match self.version {
            Version::V3 => 0,
            Version::V5 => properties.as_bytes().len() + variable_len(properties.as_bytes().len()),
        };
        let length = 2 + topic.len() + if has_id { 2 } else { 0 } + properties_length + payload.len();
        if 1 + variable_len(length) + length > self.most {
            return false;
        }
        self.bytes.reserve(length + 5);
        self.bytes.put_u8(0x30 | (qos as u8) << 1 | u8::from(retain));
        put_variable(&mut self.bytes, length as u32);
        // A topic of a message has at most 65,535 bytes.
        self.bytes.put_u16(topic.len() as u16);
        self.bytes.put_slice(topic.as_bytes());
        if has_id {
            self.bytes.put_u16(id);
        }
        if self.version == Version::V5 {
            put_properties(&mut self.bytes, properties);
        }
        self.bytes.put_slice(payload);
        true
    }

    /// Adds properties with a sentence for people, if the client wants it and it fits beside `others` bytes.
    fn put_why(&self, body: &mut BytesMut, others: usize, why: &str) {
        let mut properties = PropertyList::default();
        if self.tells_problems && !why.is_empty() && others + why.len() + 16 <= self.most {
            properties.binary(0x1f, why.as_bytes());
        }
        put_properties(body, &properties);
    }

    pub(super) fn packet(&mut self, first: u8, body: &[u8]) {
        if body.len() + 5 > self.most && body.len() + 1 + variable_len(body.len()) > self.most {
            return;
        }
        self.bytes.put_u8(first);
        put_variable(&mut self.bytes, body.len() as u32);
        self.bytes.put_slice(body);
    }
}

pub(super) fn put_properties(body: &mut BytesMut, properties: &PropertyList) {
    put_variable(body, properties.as_bytes().len() as u32);
    body.put_slice(properties.as_bytes());
}

pub(super) fn put_variable(out: &mut BytesMut, mut number: u32) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

fn variable_len(number: usize) -> usize {
    1 + usize::from(number > 0x7f) + usize::from(number > 0x3fff) + usize::from(number > 0x1f_ffff)
}
