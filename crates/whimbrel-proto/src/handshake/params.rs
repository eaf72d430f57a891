//! The parameters that each end announces inside PING and PONG (docs/protocol.md section 3).

use std::time::Duration;

use bytes::Bytes;

use crate::Side;
use crate::crypto::{Offer, Proof, ResetToken, Secret};
use crate::wire::{Malformed, Reader, VARINT_MAX, Writer, varint_len};

const END: u64 = 0;
const AEADS: u64 = 1;
const EARLY_SECRET: u64 = 2;
const PROTOCOL: u64 = 3;
const MAX_STREAM_DATA: u64 = 5;
const MAX_STREAMS: u64 = 6;
const MAX_MESSAGE: u64 = 7;
const MAX_PACKET: u64 = 8;
const MAX_ACK_DELAY: u64 = 9;
const IDLE: u64 = 10;
const CROSS_SEQUENCING: u64 = 11;
const FIRST_RESET_TOKEN: u64 = 12;
const SESSION: u64 = 13;
const RESUME: u64 = 14;
const RESUMED: u64 = 15;
const EXTENSIONS: u64 = 16;

/// Features that an end accepts beyond the first version of the protocol. An end sends only what the other announced.
/// Unknown bits are ignored, since either end may be the newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Byte streams that begin with an opening.
    pub openings: bool,
    /// Streams from the 128th on begin with a quarter of the credit of the others.
    pub small_shares: bool,
    /// Packets whose content is a source symbol, and repair symbols.
    pub coding: bool,
}

impl Extensions {
    /// All features that this version accepts.
    pub const OWN: Self = Self { openings: true, small_shares: true, coding: true };
    const OPENINGS: u64 = 1;
    const SMALL_SHARES: u64 = 2;
    const CODING: u64 = 4;

    fn bits(self) -> u64 {
        u64::from(self.openings) * Self::OPENINGS
            + u64::from(self.small_shares) * Self::SMALL_SHARES
            + u64::from(self.coding) * Self::CODING
    }

    fn from_bits(bits: u64) -> Self {
        Self {
            openings: bits & Self::OPENINGS != 0,
            small_shares: bits & Self::SMALL_SHARES != 0,
            coding: bits & Self::CODING != 0,
        }
    }
}

/// A server's answer to RESUME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Resumed {
    /// The session continues over this connection, once the client has sent a packet under its keys.
    Yes = 0,
    /// The session was already resumed from that state.
    Already = 1,
    /// Nobody resumed the session in time, so it is over.
    Expired = 2,
    /// The session is unknown, or it is not this client's.
    Unknown = 3,
}

impl Resumed {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Yes, Self::Already, Self::Expired, Self::Unknown]
            .into_iter()
            .find(|known| *known as u8 == byte)
    }
}

/// The parameters that one end announces. Values out of range are clamped when written; a peer's value out of range
/// ends the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The application protocol, up to 255 bytes. Only clients send it. Default: empty.
    pub protocol: Bytes,
    /// The initial credit of each stream in bytes; stream 0 has at least 262,144. Default: 65,536.
    pub max_stream_data: u64,
    /// The number of streams that the peer may open. Default: 128.
    pub max_streams: u64,
    /// The longest message accepted, in bytes. Default: 262,144.
    pub max_message: u64,
    /// The longest UDP payload accepted, from 1,200 to 65,527 bytes. Default: 1,472.
    pub max_packet: u16,
    /// The longest delay of an acknowledgement, in whole microseconds up to 16.8 s. Default: 25 ms.
    pub max_ack_delay: Duration,
    /// The idle time after which the sender gives up the connection, in whole milliseconds, at least one. Default: 60
    /// s.
    pub idle: Duration,
    /// Whether the streams that this side opens are cross-sequenced. Default: no.
    pub cross_sequencing: bool,
    /// The reset token of the server's first id. Only servers send it; the handshake fills it in.
    pub first_reset_token: Option<ResetToken>,
    /// The session's id, chosen by the client. Only clients send it.
    pub session: Option<[u8; 16]>,
    /// The session to continue over this connection, and the proof of the right to do so. Only clients send it.
    pub resume: Option<Proof>,
    /// Whether the session continues. Only servers send it.
    pub resumed: Option<Resumed>,
    /// The features accepted beyond the first version. Default: none.
    pub extensions: Extensions,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            protocol: Bytes::new(),
            max_stream_data: 65_536,
            max_streams: 128,
            max_message: 262_144,
            max_packet: 1_472,
            max_ack_delay: Duration::from_micros(Self::DEFAULT_ACK_DELAY_US),
            idle: Duration::from_millis(Self::DEFAULT_IDLE_MS),
            cross_sequencing: false,
            first_reset_token: None,
            session: None,
            resume: None,
            resumed: None,
            extensions: Extensions::default(),
        }
    }
}

/// The parameters of the handshake itself, in addition to [`Params`].
#[derive(Clone)]
pub(super) struct Secrets {
    /// The client's offer, or the server's choice.
    pub(super) aeads: Offer,
    /// The early secret, if the client sends early data.
    pub(super) early: Option<Secret>,
}

impl Params {
    /// The longest protocol name, in bytes.
    pub const MAX_PROTOCOL: usize = 255;
    /// The smallest `max_packet`: every path carries packets of this size (as in RFC 9000 section 14).
    pub const MIN_PACKET: u16 = 1_200;
    const LARGEST_PACKET: u16 = 65_527;
    const LONGEST_ACK_DELAY_US: u64 = 1 << 24;
    const DEFAULT_ACK_DELAY_US: u64 = 25_000;
    const DEFAULT_IDLE_MS: u64 = 60_000;

    /// Writes the list in ascending order, without values equal to their defaults. It takes at most 530 bytes; the
    /// caller must provide the room.
    pub(super) fn write(&self, side: Side, secrets: &Secrets, out: &mut Writer<'_>) {
        let default = Self::default();
        let aeads: Vec<u8> = secrets.aeads.iter().map(|aead| aead.code()).collect();
        write_bytes(out, AEADS, &aeads);
        if let (Side::Client, Some(early)) = (side, &secrets.early) {
            write_bytes(out, EARLY_SECRET, early.bytes());
        }
        if side == Side::Client && !self.protocol.is_empty() {
            write_bytes(out, PROTOCOL, &self.protocol[..self.protocol.len().min(Self::MAX_PROTOCOL)]);
        }
        write_int(out, MAX_STREAM_DATA, self.max_stream_data, default.max_stream_data);
        write_int(out, MAX_STREAMS, self.max_streams, default.max_streams);
        write_int(out, MAX_MESSAGE, self.max_message, default.max_message);
        let max_packet = self.max_packet.clamp(Self::MIN_PACKET, Self::LARGEST_PACKET);
        write_int(out, MAX_PACKET, max_packet.into(), default.max_packet.into());
        let ack_delay = whole(self.max_ack_delay.as_micros()).min(Self::LONGEST_ACK_DELAY_US);
        write_int(out, MAX_ACK_DELAY, ack_delay, Self::DEFAULT_ACK_DELAY_US);
        write_int(out, IDLE, whole(self.idle.as_millis()).max(1), Self::DEFAULT_IDLE_MS);
        if self.cross_sequencing {
            write_bytes(out, CROSS_SEQUENCING, &[]);
        }
        if let (Side::Server, Some(token)) = (side, &self.first_reset_token) {
            write_bytes(out, FIRST_RESET_TOKEN, token.as_bytes());
        }
        if let (Side::Client, Some(session)) = (side, &self.session) {
            write_bytes(out, SESSION, session);
        }
        if let (Side::Client, Some(Proof { session, epoch, mac })) = (side, &self.resume) {
            let mut value = [0; 56];
            value[..16].copy_from_slice(session);
            value[16..24].copy_from_slice(&epoch.to_be_bytes());
            value[24..].copy_from_slice(mac);
            write_bytes(out, RESUME, &value);
        }
        if let (Side::Server, Some(resumed)) = (side, self.resumed) {
            write_bytes(out, RESUMED, &[resumed as u8]);
        }
        write_int(out, EXTENSIONS, self.extensions.bits(), 0);
        out.varint(END);
    }

    /// Parses a peer's parameters without a handshake, for fuzzing.
    ///
    /// # Errors
    /// The parameters are malformed.
    #[doc(hidden)]
    pub fn parse(from: Side, bytes: bytes::Bytes) -> Result<Self, Malformed> {
        Self::read(from, &mut Reader::new(bytes)).map(|(params, _)| params)
    }

    /// Reads the list that `side` wrote, including its end.
    pub(super) fn read(side: Side, reader: &mut Reader) -> Result<(Self, Secrets), Malformed> {
        let mut params = Self::default();
        let (mut aeads, mut early, mut last) = (None, None, END);
        loop {
            let id = reader.varint()?;
            if id == END {
                let aeads = aeads.ok_or(Malformed("parameters: no cipher that we know"))?;
                return Ok((params, Secrets { aeads, early }));
            }
            if id <= last {
                return Err(Malformed("parameters: twice the same, or not in order"));
            }
            last = id;
            let length = reader.varint()?;
            let value = reader.bytes(length)?;
            match (id, side) {
                (AEADS, _) => aeads = Offer::parse(&value),
                (EARLY_SECRET, Side::Client) => early = Some(Secret::new(exact(&value)?)),
                (PROTOCOL, Side::Client) if value.len() <= Self::MAX_PROTOCOL => params.protocol = value,
                (MAX_STREAM_DATA, _) => params.max_stream_data = int(value, 0, VARINT_MAX)?,
                (MAX_STREAMS, _) => params.max_streams = int(value, 0, VARINT_MAX)?,
                (MAX_MESSAGE, _) => params.max_message = int(value, 0, VARINT_MAX)?,
                (MAX_PACKET, _) => {
                    // A value above what UDP can carry means no limit.
                    let largest =
                        int(value, Self::MIN_PACKET.into(), VARINT_MAX)?.min(Self::LARGEST_PACKET.into());
                    params.max_packet = largest as u16;
                }
                (MAX_ACK_DELAY, _) => {
                    params.max_ack_delay = Duration::from_micros(int(value, 0, Self::LONGEST_ACK_DELAY_US)?);
                }
                (IDLE, _) => params.idle = Duration::from_millis(int(value, 1, VARINT_MAX)?),
                (CROSS_SEQUENCING, _) if value.is_empty() => params.cross_sequencing = true,
                (FIRST_RESET_TOKEN, Side::Server) => {
                    params.first_reset_token = Some(ResetToken::new(exact(&value)?));
                }
                (SESSION, Side::Client) => params.session = Some(exact(&value)?),
                (RESUME, Side::Client) => {
                    let mut reader = Reader::new(Bytes::copy_from_slice(&exact::<56>(&value)?));
                    let (session, epoch, mac) = (reader.array()?, reader.u64()?, reader.array()?);
                    params.resume = Some(Proof { session, epoch, mac });
                }
                (RESUMED, Side::Server) => {
                    let [byte] = exact(&value)?;
                    params.resumed = Resumed::from_byte(byte);
                }
                (EXTENSIONS, _) => params.extensions = Extensions::from_bits(int(value, 0, VARINT_MAX)?),
                (END..=EXTENSIONS, _) => {
                    return Err(Malformed("parameter: too long, or from the wrong side"));
                }
                _ => {}
            }
        }
    }
}

fn write_bytes(out: &mut Writer<'_>, id: u64, value: &[u8]) {
    out.varint(id);
    out.varint(value.len() as u64);
    out.bytes(value);
}

fn write_int(out: &mut Writer<'_>, id: u64, value: u64, default: u64) {
    if value != default {
        let value = value.min(VARINT_MAX);
        out.varint(id);
        out.varint(varint_len(value) as u64);
        out.varint(value);
    }
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(VARINT_MAX).min(VARINT_MAX)
}

fn exact<const N: usize>(value: &Bytes) -> Result<[u8; N], Malformed> {
    value[..].try_into().map_err(|_| Malformed("parameter: wrong length"))
}

fn int(value: Bytes, least: u64, most: u64) -> Result<u64, Malformed> {
    let mut reader = Reader::new(value);
    let int = reader.varint()?;
    if reader.is_empty() && (least..=most).contains(&int) {
        Ok(int)
    } else {
        Err(Malformed("parameter: out of range"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::Aead;

    fn written(side: Side, params: &Params, secrets: &Secrets) -> Bytes {
        let mut buf = Vec::new();
        params.write(side, secrets, &mut Writer::new(&mut buf, 1000));
        buf.into()
    }

    fn secrets() -> Secrets {
        Secrets { aeads: Offer::both(true), early: None }
    }

    prop_compose! {
        fn any_params()(
            protocol in prop::collection::vec(any::<u8>(), 0..=255), credit in prop::array::uniform3(0..=VARINT_MAX),
            max_packet in 1200..=65_527u16, delay in 0..=1u64 << 24, idle in 1..=VARINT_MAX, cross_sequencing: bool,
            token: Option<[u8; 16]>, session: Option<[u8; 16]>, resume: Option<([u8; 16], u64, [u8; 32])>,
            resumed in prop::option::of(0..4u8), openings: bool, small_shares: bool, coding: bool,
        ) -> Params {
            Params {
                protocol: protocol.into(), max_stream_data: credit[0], max_streams: credit[1],
                max_message: credit[2], max_packet, max_ack_delay: Duration::from_micros(delay),
                idle: Duration::from_millis(idle), cross_sequencing,
                first_reset_token: token.map(ResetToken::new), session,
                resume: resume.map(|(session, epoch, mac)| Proof { session, epoch, mac }),
                resumed: resumed.and_then(Resumed::from_byte),
                extensions: Extensions { openings, small_shares, coding },
            }
        }
    }

    proptest! {
        #[test]
        fn lists_round_trip(params in any_params(), early: Option<[u8; 32]>) {
            let sent = Secrets { aeads: Offer::only(Aead::Aes128Gcm), early: early.map(Secret::new) };
            for side in [Side::Client, Side::Server] {
                let bytes = written(side, &params, &sent);
                prop_assert!(bytes.len() <= 530);
                let (read, secrets) = Params::read(side, &mut Reader::new(bytes)).unwrap();
                let mut expected = params.clone();
                match side {
                    Side::Client => (expected.first_reset_token, expected.resumed) = (None, None),
                    Side::Server => {
                        (expected.protocol, expected.session, expected.resume) = (Bytes::new(), None, None);
                    }
                }
                prop_assert_eq!(read, expected);
                prop_assert_eq!(secrets.aeads, sent.aeads);
                prop_assert!(secrets.early == sent.early.clone().filter(|_| side == Side::Client));
            }
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..80), client: bool) {
            let side = if client { Side::Client } else { Side::Server };
            Params::read(side, &mut Reader::new(bytes.into())).ok();
        }
    }

    #[test]
    fn defaults_cost_nothing() {
        assert_eq!(written(Side::Client, &Params::default(), &secrets()), [1, 2, 1, 2, 0][..]);
    }

    #[test]
    fn unknown_ones_are_ignored_and_bad_ones_refused() {
        let read =
            |bytes: &'static [u8]| Params::read(Side::Client, &mut Reader::new(Bytes::from_static(bytes)));
        assert_eq!(read(b"\x01\x01\x01\x20\x02hi\x00").unwrap().0, Params::default());
        let newer = Params { extensions: Extensions::OWN, ..Params::default() };
        assert_eq!(read(b"\x01\x01\x01\x10\x01\x37\x00").unwrap().0, newer, "bits of a later version");
        for bad in [
            &b"\x01\x01\x01"[..],                        // no end
            b"\x00",                                     // no cipher
            b"\x01\x01\x09\x00",                         // none we know
            b"\x01\x01\x01\x01\x01\x01\x00",             // twice
            b"\x01\x01\x01\x06\x01\x05\x05\x01\x05\x00", // out of order
            b"\x01\x01\x01\x02\x01\x05\x00",             // short secret
            b"\x01\x01\x01\x08\x02\x41\x00\x00",         // packets of 256 bytes
            b"\x01\x01\x01\x0a\x01\x00\x00",             // no idle time at all
            b"\x01\x01\x01\x05\x02\x01\x01\x00",         // two integers
            b"\x01\x01\x01\x0b\x01\x01\x00",             // a flag with a value
            b"\x01\x01\x01\x10\x02\x01\x01\x00",         // extensions twice
            b"\x01\x01\x01\x05\x7f\xff\x01\x00",         // beyond the end
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
