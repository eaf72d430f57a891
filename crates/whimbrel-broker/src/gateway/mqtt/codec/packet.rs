//! The packets that clients send.

use super::connect::Connect;
use super::cursor::{Cursor, variable};
use super::properties::Properties;
use super::properties::{OF_ACKNOWLEDGEMENT, OF_DISCONNECT, OF_PUBLISH, OF_SUBSCRIBE, OF_UNSUBSCRIBE};
use super::reason::{Fault, Reason};
use super::terms::{Qos, Version};

/// The place of a packet in the bytes that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Frame {
    /// Where its body begins.
    pub(in super::super) body: usize,
    /// Where it ends.
    pub(in super::super) end: usize,
}

/// Finds the packet at the front; `None` if its length is not whole yet. The packet itself need not be.
pub(in super::super) fn frame(bytes: &[u8], most: usize) -> Result<Option<Frame>, Fault> {
    let Some((length, digits)) = variable(bytes.get(1..).unwrap_or_default())? else { return Ok(None) };
    let body = 1 + digits;
    let end = body + length as usize;
    if end > most {
        let why = format!("the packet has {end} bytes; at most {most} are allowed");
        return Err(Fault::new(Reason::TOO_LARGE, why));
    }
    Ok(Some(Frame { body, end }))
}

/// A packet of a client.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a packet lives while it is handled")]
pub(in super::super) enum Packet<'a> {
    Connect(Connect<'a>),
    Publish(Publish<'a>),
    /// The packet identifier of a message that the client has.
    Puback(u16),
    /// The packet identifier of a message at QoS 2 that the client has, or refuses.
    Pubrec(u16, Reason),
    Pubrel(u16),
    /// A packet identifier that the client has released.
    Pubcomp(u16),
    Subscribe {
        id: u16,
        properties: Properties<'a>,
        filters: Vec<Requested<'a>>,
    },
    Unsubscribe {
        id: u16,
        filters: Vec<&'a str>,
    },
    Pingreq,
    Disconnect {
        reason: Reason,
        session_expiry: Option<u32>,
    },
}

/// A message of a client.
#[derive(Clone, Debug)]
pub(in super::super) struct Publish<'a> {
    pub(in super::super) is_repeated: bool,
    pub(in super::super) qos: Qos,
    pub(in super::super) retain: bool,
    pub(in super::super) topic: &'a str,
    /// 0 at QoS 0.
    pub(in super::super) id: u16,
    pub(in super::super) properties: Properties<'a>,
    pub(in super::super) payload: &'a [u8],
}

/// A filter of a SUBSCRIBE.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Requested<'a> {
    pub(in super::super) filter: &'a str,
    pub(in super::super) qos: Qos,
    pub(in super::super) no_local: bool,
    pub(in super::super) as_published: bool,
    pub(in super::super) retained: Retained,
}

/// When a subscription gets last values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Retained {
    Always,
    IfNew,
    Never,
}

impl<'a> Packet<'a> {
    /// Reads a packet of this first byte and body. Before the version is known, only CONNECT can be read.
    pub(in super::super) fn read(first: u8, body: &'a [u8], version: Option<Version>) -> Result<Self, Fault> {
        let (kind, flags) = (first >> 4, first & 0xf);
        let expected = if matches!(kind, 6 | 8 | 10) { 2 } else { 0 };
        if kind != 3 && flags != expected {
            return Err(Fault::malformed("the flags of the packet's first byte are reserved"));
        }
        match (kind, version) {
            (1, None) => return Connect::read(body).map(Self::Connect),
            (1, Some(_)) => return Err(Fault::protocol("the client sent CONNECT twice")),
            (_, None) => return Err(Fault::protocol("the first packet is not CONNECT")),
            _ => {}
        }
        let is_v5 = version == Some(Version::V5);
        let mut from = Cursor(body);
        let packet = match kind {
            3 => Publish::read(flags, &mut from, is_v5).map(Self::Publish)?,
            // Whatever the client thinks of the message, it will not get it again.
            4 => Self::Puback(acknowledged(&mut from, is_v5)?.0),
            5 => acknowledged(&mut from, is_v5).map(|(id, reason)| Self::Pubrec(id, reason))?,
            6 => Self::Pubrel(acknowledged(&mut from, is_v5)?.0),
            7 => Self::Pubcomp(acknowledged(&mut from, is_v5)?.0),
            8 => read_subscribe(&mut from, is_v5)?,
            10 => read_unsubscribe(&mut from, is_v5)?,
            12 => Self::Pingreq,
            14 if is_v5 => read_disconnect(&mut from)?,
            14 => Self::Disconnect { reason: Reason::SUCCESS, session_expiry: None },
            15 if is_v5 => return Err(Fault::protocol("no authentication was begun")),
            _ => return Err(Fault::malformed("a client does not send packets of this kind")),
        };
        if !from.is_empty() {
            return Err(Fault::malformed("there are bytes after the packet's last field"));
        }
        Ok(packet)
    }
}

impl<'a> Publish<'a> {
    pub(super) fn read(flags: u8, from: &mut Cursor<'a>, is_v5: bool) -> Result<Self, Fault> {
        let qos = Qos::of(flags >> 1 & 3)?;
        let is_repeated = flags & 8 != 0;
        if is_repeated && qos == Qos::AtMostOnce {
            return Err(Fault::malformed("a message at QoS 0 is marked as repeated"));
        }
        let topic = from.text()?;
        let id = if qos == Qos::AtMostOnce { 0 } else { identifier(from)? };
        let properties = if is_v5 { Properties::read(from, OF_PUBLISH)? } else { Properties::default() };
        Ok(Self { is_repeated, qos, retain: flags & 1 != 0, topic, id, properties, payload: from.rest() })
    }
}

pub(super) fn identifier(from: &mut Cursor<'_>) -> Result<u16, Fault> {
    match from.u16()? {
        0 => Err(Fault::protocol("the packet identifier is 0")),
        id => Ok(id),
    }
}

pub(super) fn acknowledged(from: &mut Cursor<'_>, is_v5: bool) -> Result<(u16, Reason), Fault> {
    let (id, mut reason) = (identifier(from)?, Reason::SUCCESS);
    if is_v5 && !from.is_empty() {
        reason = Reason(from.byte()?);
        if !from.is_empty() {
            Properties::read(from, OF_ACKNOWLEDGEMENT)?;
        }
    }
    Ok((id, reason))
}

fn read_subscribe<'a>(from: &mut Cursor<'a>, is_v5: bool) -> Result<Packet<'a>, Fault> {
    let id = identifier(from)?;
    let properties = if is_v5 { Properties::read(from, OF_SUBSCRIBE)? } else { Properties::default() };
    let mut filters = Vec::new();
    while !from.is_empty() {
        filters.push(Requested::read(from, is_v5)?);
    }
    if filters.is_empty() {
        return Err(Fault::protocol("the packet names no filter"));
    }
    Ok(Packet::Subscribe { id, properties, filters })
}

impl<'a> Requested<'a> {
    fn read(from: &mut Cursor<'a>, is_v5: bool) -> Result<Self, Fault> {
        let filter = from.text()?;
        let options = from.byte()?;
        let reserved = if is_v5 { 0xc0 } else { 0xfc };
        if options & reserved != 0 {
            return Err(Fault::malformed("reserved bits of the subscription's options are set"));
        }
        let retained = match options >> 4 & 3 {
            0 => Retained::Always,
            1 => Retained::IfNew,
            2 => Retained::Never,
            _ => return Err(Fault::protocol("retain handling is 0, 1 or 2")),
        };
        let (no_local, as_published) = (options & 4 != 0, options & 8 != 0);
        if no_local && filter.starts_with("$share/") {
            return Err(Fault::protocol("a shared subscription cannot leave out the client's own messages"));
        }
        Ok(Self { filter, qos: Qos::of(options & 3)?, no_local, as_published, retained })
    }
}

fn read_unsubscribe<'a>(from: &mut Cursor<'a>, is_v5: bool) -> Result<Packet<'a>, Fault> {
    let id = identifier(from)?;
    if is_v5 {
        Properties::read(from, OF_UNSUBSCRIBE)?;
    }
    let mut filters = Vec::new();
    while !from.is_empty() {
        filters.push(from.text()?);
    }
    if filters.is_empty() {
        return Err(Fault::protocol("the packet names no filter"));
    }
    Ok(Packet::Unsubscribe { id, filters })
}

fn read_disconnect<'a>(from: &mut Cursor<'a>) -> Result<Packet<'a>, Fault> {
    let reason = if from.is_empty() { Reason::SUCCESS } else { Reason(from.byte()?) };
    let properties =
        if from.is_empty() { Properties::default() } else { Properties::read(from, OF_DISCONNECT)? };
    Ok(Packet::Disconnect { reason, session_expiry: properties.session_expiry })
}
