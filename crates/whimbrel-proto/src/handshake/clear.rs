//! The clear (unsealed) packets (docs/protocol.md section 1.2): how to parse and write them.

use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};

use crate::ConnectionId;
use crate::crypto::{CookieJar, TicketJar};
use crate::wire::block::{PING, PONG, SYN, SYN_ACK};
use crate::wire::packet::{CLEAR_BIT, CLEAR_LEN};
use crate::wire::{Malformed, Writer};

/// The protocol version of this implementation.
pub const VERSION: u32 = 0x5748_0001;
/// The length of a SYN in bytes. No SYN-ACK is longer.
pub const SYN_LEN: usize = 160;
/// The longest PING or PONG that every path carries, in bytes.
pub const PING_LEN: usize = 1_200;
/// How long PINGs may offer early data, counted from the client's first PING that did. A server remembers a session
/// this much longer than a cookie is valid.
pub const EARLY_WINDOW: Duration = Duration::from_secs(10);
/// The id that stands for no peer.
pub(super) const NOBODY: ConnectionId = ConnectionId(0);

const SHOW_KEY: u8 = 1;
const INSTEAD_OF_PONG: u8 = 2;

/// A SYN, which asks for a cookie.
pub(super) struct Syn {
    pub(super) version: u32,
    pub(super) client_id: ConnectionId,
    pub(super) show_key: bool,
}

impl Syn {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(SYN_LEN);
        let mut out = head(&mut packet, SYN, NOBODY, SYN_LEN);
        out.u32(self.version);
        out.u64(self.client_id.0);
        out.u8(if self.show_key { SHOW_KEY } else { 0 });
        packet.resize(SYN_LEN, 0);
        packet
    }

    /// Parses a SYN of any version: all versions share its length and the places of version and id.
    pub(super) fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let (_, mut rest) = body(packet, SYN)?;
        if packet.len() != SYN_LEN {
            return Err(Malformed("SYN: wrong length"));
        }
        let version = u32::from_be_bytes(take(&mut rest)?);
        let client_id = ConnectionId::from_bytes(take(&mut rest)?);
        let [flags] = take(&mut rest)?;
        Ok(Self { version, client_id, show_key: flags & SHOW_KEY != 0 })
    }
}

/// The head of a SYN-ACK, which answers a SYN, or a PING whose ticket is not accepted.
pub(super) struct SynAckHead {
    pub(super) version: u32,
    pub(super) server_id: ConnectionId,
    pub(super) key: Option<[u8; 32]>,
    /// Whether it answers a PING whose ticket is not accepted, and not a SYN. The prologue then begins with that
    /// PING.
    pub(super) instead_of_pong: bool,
}

impl SynAckHead {
    /// Writes the packet up to the cookie's length, which is the part that the prologue covers.
    pub(super) fn write(&self, client_id: ConnectionId, packet: &mut Vec<u8>) {
        let mut out = head(packet, SYN_ACK, client_id, SYN_LEN);
        out.u32(self.version);
        out.u64(self.server_id.0);
        let shows = if self.key.is_some() { SHOW_KEY } else { 0 };
        out.u8(shows | if self.instead_of_pong { INSTEAD_OF_PONG } else { 0 });
        out.bytes(self.key.as_ref().map_or(&[], |key| &key[..]));
    }
}

/// A received SYN-ACK.
pub(super) struct SynAckPacket<'a> {
    pub(super) client_id: ConnectionId,
    pub(super) head: SynAckHead,
    /// The bytes that the prologue covers.
    pub(super) covered: &'a [u8],
    pub(super) cookie: &'a [u8],
}

impl<'a> SynAckPacket<'a> {
    pub(super) fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let (client_id, mut rest) = body(packet, SYN_ACK)?;
        let version = u32::from_be_bytes(take(&mut rest)?);
        let server_id = ConnectionId::from_bytes(take(&mut rest)?);
        let [flags] = take(&mut rest)?;
        let key = if flags & SHOW_KEY != 0 { Some(take(&mut rest)?) } else { None };
        let instead_of_pong = flags & INSTEAD_OF_PONG != 0;
        let covered = &packet[..packet.len() - rest.len()];
        let cookie = sized(&mut rest)?;
        // SYN-ACK is never longer than SYN. This bounds what a client keeps.
        if packet.len() > SYN_LEN || !rest.is_empty() {
            return Err(Malformed("SYN-ACK: wrong length"));
        }
        Ok(Self { client_id, head: SynAckHead { version, server_id, key, instead_of_pong }, covered, cookie })
    }
}

/// The cookie or ticket in a PING, which proves that the server has dealt with its sender before.
#[derive(Clone, Copy)]
pub(super) enum Pass<'a> {
    Cookie(&'a [u8]),
    Ticket(&'a [u8]),
}

/// The client's Noise message and the head before it.
pub(super) struct PingPacket<'a> {
    pub(super) server_id: ConnectionId,
    pub(super) client_id: ConnectionId,
    pub(super) pass: Pass<'a>,
    /// All bytes before the Noise message.
    pub(super) head: &'a [u8],
    pub(super) noise: &'a [u8],
}

impl<'a> PingPacket<'a> {
    pub(super) fn write_head(server_id: ConnectionId, client_id: ConnectionId, pass: Pass<'_>) -> Vec<u8> {
        let mut packet = Vec::with_capacity(PING_LEN);
        let mut out = head(&mut packet, PING, server_id, PING_LEN);
        out.u64(client_id.0);
        let pass = match pass {
            Pass::Cookie(cookie) => cookie,
            Pass::Ticket(ticket) => {
                out.u8(0);
                ticket
            }
        };
        out.varint(pass.len() as u64);
        out.bytes(pass);
        packet
    }

    pub(super) fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let (server_id, mut rest) = body(packet, PING)?;
        let client_id = ConnectionId::from_bytes(take(&mut rest)?);
        let pass = match sized(&mut rest)? {
            [] => Pass::Ticket(sized(&mut rest)?),
            cookie => Pass::Cookie(cookie),
        };
        let head = &packet[..packet.len() - rest.len()];
        Ok(Self { server_id, client_id, pass, head, noise: rest })
    }

    /// The ephemeral key at the start of the Noise message.
    pub(super) fn ephemeral(&self) -> Result<[u8; 32], Malformed> {
        self.noise.first_chunk().copied().ok_or(Malformed("PING: no message"))
    }
}

/// The server's Noise message and the head before it.
pub(super) struct PongPacket<'a> {
    pub(super) client_id: ConnectionId,
    pub(super) server_id: ConnectionId,
    pub(super) noise: &'a [u8],
}

impl<'a> PongPacket<'a> {
    /// The number of bytes before the Noise message.
    pub(super) const HEAD_LEN: usize = CLEAR_LEN + ConnectionId::LEN;

    pub(super) fn write_head(client_id: ConnectionId, server_id: ConnectionId, packet: &mut Vec<u8>) {
        head(packet, PONG, client_id, Self::HEAD_LEN).u64(server_id.0);
    }

    pub(super) fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let (client_id, mut rest) = body(packet, PONG)?;
        let server_id = ConnectionId::from_bytes(take(&mut rest)?);
        Ok(Self { client_id, server_id, noise: rest })
    }
}

/// The Noise prologue: SHA-256 over the concatenation of `parts`.
pub(super) fn prologue(parts: [&[u8]; 2]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// The prologue of a PING with a ticket, which no other packet preceded.
pub(super) fn ticket_prologue(head: &[u8]) -> [u8; 32] {
    prologue([b"whimbrel ticket", head])
}

/// The longest ticket or cookie that a PING can carry beside the parameters.
pub(super) const LONGEST_PASS: usize = 512;
const _: () = assert!(CookieJar::COOKIE_LEN <= LONGEST_PASS && TicketJar::TICKET_LEN <= LONGEST_PASS);

fn head<'a>(packet: &'a mut Vec<u8>, block: u8, to: ConnectionId, room: usize) -> Writer<'a> {
    let limit = packet.len() + room;
    let mut out = Writer::new(packet, limit);
    out.u8(CLEAR_BIT | block);
    out.u64(to.0);
    out
}

fn body(packet: &[u8], block: u8) -> Result<(ConnectionId, &[u8]), Malformed> {
    let mut rest = packet;
    let [kind] = take(&mut rest)?;
    if kind != CLEAR_BIT | block {
        return Err(Malformed("packet: of another kind"));
    }
    Ok((ConnectionId::from_bytes(take(&mut rest)?), rest))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, left) = rest.split_first_chunk().ok_or(Malformed("packet: truncated"))?;
    *rest = left;
    Ok(*taken)
}

/// Takes a length of one or two bytes, and as many bytes. Longer encodings of a length are refused, so that each PING
/// has one form.
fn sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let [first] = take(rest)?;
    let length = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => {
            let [second] = take(rest)?;
            match usize::from(first & 0x3f) << 8 | usize::from(second) {
                0..0x40 => return Err(Malformed("length: not in its shortest form")),
                length => length,
            }
        }
        _ => return Err(Malformed("length: beyond the packet")),
    };
    let (taken, left) = rest.split_at_checked(length).ok_or(Malformed("length: beyond the packet"))?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut packet in prop::collection::vec(any::<u8>(), 0..200), kind in SYN..=PONG) {
            if let Some(first) = packet.first_mut() {
                *first = CLEAR_BIT | kind;
            }
            Syn::parse(&packet).ok();
            SynAckPacket::parse(&packet).ok();
            if let Ok(ping) = PingPacket::parse(&packet) {
                ping.ephemeral().ok();
                prop_assert_eq!(ping.head.len() + ping.noise.len(), packet.len());
            }
            PongPacket::parse(&packet).ok();
        }

        #[test]
        fn ping_heads_round_trip(to: u64, from: u64, pass in prop::collection::vec(any::<u8>(), 1..LONGEST_PASS), ticket: bool) {
            let pass = if ticket { Pass::Ticket(&pass) } else { Pass::Cookie(&pass) };
            let packet = PingPacket::write_head(ConnectionId(to), ConnectionId(from), pass);
            let ping = PingPacket::parse(&packet).unwrap();
            prop_assert_eq!((ping.server_id.0, ping.client_id.0, ping.noise.len()), (to, from, 0));
            match (ping.pass, pass) {
                (Pass::Cookie(a), Pass::Cookie(b)) | (Pass::Ticket(a), Pass::Ticket(b)) => prop_assert_eq!(a, b),
                _ => prop_assert!(false, "another kind of pass"),
            }
        }
    }
}
