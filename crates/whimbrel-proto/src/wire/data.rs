//! DATA (0): a fragment, a message, or a run of messages (MMSP 3.2.1, RFC 8260).

use super::{Malformed, Reader, VARINT_MAX, Writer, block, varint_len};
use crate::Service;

/// The block holds the last fragment of its message.
pub const END: u8 = 0x01;
/// The block holds the first fragment of its message.
pub const BEGIN: u8 = 0x02;
/// The message is unsequenced.
pub const UNSEQUENCED: u8 = 0x04;
/// The message is reliable.
pub const RELIABLE: u8 = 0x08;
/// The payload's length follows the head.
pub const LENGTH: u8 = 0x10;
/// The payload is a run of whole messages.
pub const MANY: u8 = 0x20;
/// Extras follow.
pub const EXTRAS: u8 = 0x40;

const TAG: u8 = 1;
const PRIORITY: u8 = 2;
const PPID: u8 = 4;
const CROSS: u8 = 8;
const BYTES: u8 = 16;
const CONFIRM: u8 = 32;
const OPENING: u8 = 64;

/// The priority of a message that names none.
pub const DEFAULT_PRIORITY: u8 = 100;

/// Fields that most messages do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extras {
    /// The application's tag.
    pub tag: Option<u64>,
    /// The priority from 0 to 255; higher goes first.
    pub priority: u8,
    /// The payload protocol identifier.
    pub ppid: Option<u32>,
    /// On a cross-sequenced stream, one more than the number of the latest reliable message before this one; 0 for
    /// none.
    pub latest_reliable: Option<u64>,
    /// Whether this is a byte stream, which has no declared length.
    pub bytes: bool,
    /// Whether the sender wants a TAKEN once the application has confirmed the message.
    pub confirm: bool,
    /// Whether the byte stream begins with an opening: its length, then that many bytes. Every block of the stream
    /// says so.
    pub opening: bool,
}

impl Extras {
    /// The defaults, which need no bytes on the wire.
    pub const NONE: Self = Self {
        tag: None,
        priority: DEFAULT_PRIORITY,
        ppid: None,
        latest_reliable: None,
        bytes: false,
        confirm: false,
        opening: false,
    };

    fn bits(&self) -> u8 {
        (u8::from(self.tag.is_some()) * TAG)
            | (u8::from(self.priority != DEFAULT_PRIORITY) * PRIORITY)
            | (u8::from(self.ppid.is_some()) * PPID)
            | (u8::from(self.latest_reliable.is_some()) * CROSS)
            | (u8::from(self.bytes) * BYTES)
            | (u8::from(self.confirm) * CONFIRM)
            | (u8::from(self.opening) * OPENING)
    }

    /// Returns the length on the wire in bytes; 0 if all fields have their defaults.
    #[inline]
    pub fn len(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        1 + self.tag.map_or(0, varint_len)
            + usize::from(self.priority != DEFAULT_PRIORITY)
            + self.ppid.map_or(0, |ppid| varint_len(u64::from(ppid)))
            + self.latest_reliable.map_or(0, varint_len)
    }

    /// Returns whether all fields have their defaults.
    #[inline]
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    fn read(reader: &mut Reader) -> Result<Self, Malformed> {
        let bits = reader.u8()?;
        if bits & 0x80 != 0 {
            return Err(Malformed("DATA: unknown extras"));
        }
        if bits & (BYTES | OPENING) == OPENING {
            return Err(Malformed("DATA: an opening of what is no byte stream"));
        }
        let mut extras = Self {
            bytes: bits & BYTES != 0,
            confirm: bits & CONFIRM != 0,
            opening: bits & OPENING != 0,
            ..Self::NONE
        };
        if bits & TAG != 0 {
            extras.tag = Some(reader.varint()?);
        }
        if bits & PRIORITY != 0 {
            extras.priority = reader.u8()?;
        }
        if bits & PPID != 0 {
            extras.ppid =
                Some(u32::try_from(reader.varint()?).map_err(|_| Malformed("DATA: PPID above 32 bits"))?);
        }
        if bits & CROSS != 0 {
            extras.latest_reliable = Some(reader.varint()?);
        }
        Ok(extras)
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.bits());
        if let Some(tag) = self.tag {
            out.varint(tag);
        }
        if self.priority != DEFAULT_PRIORITY {
            out.u8(self.priority);
        }
        if let Some(ppid) = self.ppid {
            out.varint(u64::from(ppid));
        }
        if let Some(latest) = self.latest_reliable {
            out.varint(latest);
        }
    }
}

/// How a DATA block marks the end of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The payload ends with the packet.
    ToEnd,
    /// The payload has this length in bytes.
    Bytes(usize),
    /// Two bytes are reserved for the length, for [`Writer::patch_varint2`].
    Reserved,
}

/// The part of a DATA block before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHead {
    /// The flags as on the wire. When written, LENGTH and EXTRAS are set from the rest.
    pub flags: u8,
    /// The stream's id.
    pub stream: u64,
    /// The message number in its domain; in a run, the first message's number.
    pub number: u64,
    /// The offset of the payload in its message; 0 in a first fragment.
    pub offset: u64,
    /// The rarer fields.
    pub extras: Extras,
    /// The length of the whole message, where a first fragment declares it.
    pub message_length: Option<u64>,
}

impl DataHead {
    /// Returns the service that the flags encode.
    #[inline]
    pub const fn service(&self) -> Service {
        Service::new(self.flags & RELIABLE != 0, self.flags & UNSEQUENCED == 0)
    }

    /// Returns whether this is the first fragment.
    #[inline]
    pub const fn begins(&self) -> bool {
        self.flags & BEGIN != 0
    }

    /// Returns whether this is the last fragment.
    #[inline]
    pub const fn ends(&self) -> bool {
        self.flags & END != 0
    }

    /// Returns whether the payload is a run of messages.
    #[inline]
    pub const fn many(&self) -> bool {
        self.flags & MANY != 0
    }

    /// Returns the length on the wire in bytes, with the type and without the length field.
    #[inline]
    pub fn len(&self) -> usize {
        let offset = if self.begins() { 0 } else { varint_len(self.offset) };
        let declared = self.message_length.map_or(0, varint_len);
        2 + varint_len(self.stream) + varint_len(self.number) + offset + self.extras.len() + declared
    }

    /// Always false.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the type and head; the payload must follow.
    #[inline]
    pub fn write(&self, out: &mut Writer<'_>, length: Length) {
        let mut flags = self.flags & !(LENGTH | EXTRAS);
        if length != Length::ToEnd {
            flags |= LENGTH;
        }
        let extras = !self.extras.is_empty();
        if extras {
            flags |= EXTRAS;
        }
        out.bytes(&[block::DATA, flags]);
        out.varint(self.stream);
        out.varint(self.number);
        if !self.begins() {
            out.varint(self.offset);
        }
        if extras {
            self.extras.write(out);
        }
        if let Some(length) = self.message_length {
            out.varint(length);
        }
        match length {
            Length::ToEnd => {}
            Length::Bytes(bytes) => out.varint(bytes as u64),
            Length::Reserved => out.bytes(&[0x40, 0]),
        }
    }

    /// Reads a head after its type byte. Returns it and the length of its payload, which is present in the packet.
    #[inline]
    pub fn read(reader: &mut Reader) -> Result<(Self, usize), Malformed> {
        let flags = reader.u8()?;
        if flags & 0x80 != 0 {
            return Err(Malformed("DATA: unknown flag"));
        }
        let stream = reader.varint()?;
        let number = reader.varint()?;
        let offset = if flags & BEGIN == 0 { reader.varint()? } else { 0 };
        let extras = if flags & EXTRAS != 0 { Extras::read(reader)? } else { Extras::NONE };
        let declares = flags & (BEGIN | END) == BEGIN && !extras.bytes;
        let message_length = if declares { Some(reader.varint()?) } else { None };
        let length = if flags & LENGTH != 0 { reader.varint()? } else { reader.remaining() as u64 };
        if length > reader.remaining() as u64 {
            return Err(Malformed("DATA: payload beyond the packet"));
        }
        let whole = flags & (BEGIN | END) == BEGIN | END;
        if flags & MANY != 0 && (!whole || extras.bytes) {
            return Err(Malformed("DATA: a run of what is not whole messages"));
        }
        if length == 0 && flags & (END | MANY) != END {
            return Err(Malformed("DATA: empty fragment"));
        }
        if offset > VARINT_MAX - length {
            return Err(Malformed("DATA: offset beyond the largest integer"));
        }
        if message_length.is_some_and(|whole| whole <= length) {
            return Err(Malformed("DATA: a first fragment as long as its message"));
        }
        Ok((Self { flags, stream, number, offset, extras, message_length }, length as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_round_trip(
            bits in 0u8..64, stream in 0..=VARINT_MAX, number in 0..=VARINT_MAX, offset in 1u64..1 << 40,
            tag in proptest::option::of(0..=VARINT_MAX), priority: u8, ppid: Option<u32>,
            latest in proptest::option::of(0..=VARINT_MAX), bytes: bool, confirm: bool, opening: bool, payload in 1usize..100, kind in 0u8..3,
        ) {
            let many = bits & MANY != 0 && !bytes;
            let flags = if many { bits | BEGIN | END } else { bits & !MANY } & !LENGTH;
            let extras = Extras { tag, priority, ppid, latest_reliable: latest, bytes, confirm, opening: opening && bytes };
            let begins = flags & BEGIN != 0;
            let declares = begins && flags & END == 0 && !bytes;
            let head = DataHead {
                flags, stream, number, extras,
                offset: if begins { 0 } else { offset },
                message_length: declares.then_some(payload as u64 + offset),
            };
            let length = match kind { 0 => Length::ToEnd, 1 => Length::Bytes(payload), _ => Length::Reserved };
            let mut buf = Vec::new();
            let mut out = Writer::new(&mut buf, 4096);
            head.write(&mut out, length);
            if length == Length::Reserved {
                let at = out.len() - 2;
                out.patch_varint2(at, payload);
            }
            let head_len = buf.len();
            prop_assert_eq!(head.len(), head_len - match kind { 0 => 0, 1 => varint_len(payload as u64), _ => 2 });
            buf.resize(head_len + payload, 7);
            let mut reader = Reader::new(buf.into());
            prop_assert_eq!(reader.u8().unwrap(), block::DATA);
            let (read, len) = DataHead::read(&mut reader).unwrap();
            prop_assert_eq!(len, payload);
            prop_assert_eq!(DataHead { flags: read.flags & !(LENGTH | EXTRAS), ..read }, head);
            prop_assert_eq!(reader.remaining(), payload);
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let mut reader = Reader::new(bytes.into());
            if let Ok((_, length)) = DataHead::read(&mut reader) {
                prop_assert!(length <= reader.remaining());
            }
        }
    }
}
