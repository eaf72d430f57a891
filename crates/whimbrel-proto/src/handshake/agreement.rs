//! The key agreements of a PING: nearly all the cost of a handshake, separate from the decisions about it. An
//! agreement is a value that needs nothing from its acceptor, so any thread can run it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::clear::PongPacket;
use super::client::hash;
use super::noise::{MESSAGE_2_OVERHEAD, Noise, Pattern, split};
use super::params::{Params, Secrets};
use super::server::{Asked, Refusal};
use crate::crypto::{
    Aead, Claim, EarlyOpen, Identity, Keys, Offer, PathMemory, PublicKey, ResetToken, Secret, TicketClaim,
};
use crate::debug_only::debug_only;
use crate::wire::{Malformed, Reader, Writer};
use crate::{ConnectionId, Side, Time};

/// The room that is enough for a PONG without blocks.
const LEAST_PONG: usize = 400;

/// The key agreements of one PING; see the module documentation.
pub struct Agreement {
    pub(super) identity: Identity,
    pub(super) pattern: Arc<Pattern>,
    pub(super) aes_in_hardware: bool,
    pub(super) token: ResetToken,
    /// The secret half of our ephemeral key.
    pub(super) ours: Secret,
    pub(super) prologue: [u8; 32],
    pub(super) asked: PingAsked,
}

debug_only!(Agreement {});

/// A PING with a valid cookie or ticket.
pub(super) struct PingAsked {
    pub(super) from: SocketAddr,
    pub(super) packet: Vec<u8>,
    /// The number of bytes before the Noise message.
    pub(super) head: usize,
    pub(super) server_id: ConnectionId,
    pub(super) client_id: ConnectionId,
    /// The client's ephemeral key.
    pub(super) ephemeral: [u8; 32],
    pub(super) pass: PingProof,
}

/// The checked cookie or ticket of a PING.
pub(super) enum PingProof {
    /// A cookie, and when it expires.
    Cookie {
        until: Time,
    },
    Ticket(TicketClaim),
}

impl PingProof {
    const fn memory(&self) -> Option<PathMemory> {
        match self {
            Self::Cookie { .. } => None,
            Self::Ticket(claim) => Some(claim.memory),
        }
    }
}

impl PingAsked {
    pub(super) fn by_ticket(&self) -> Asked<'_> {
        Asked { packet: &self.packet, client_id: self.client_id, show_key: false, by_ticket: true }
    }
}

/// A completed [`Agreement`], for [`super::Acceptor::conclude`].
pub struct Agreed {
    pub(super) asked: PingAsked,
    pub(super) opened: Result<Box<Accepted>, Refusal>,
}

debug_only!(Agreed { opened });

impl Agreement {
    /// Returns whether the PING came with a ticket.
    pub const fn has_ticket(&self) -> bool {
        matches!(self.asked.pass, PingProof::Ticket(_))
    }

    /// Opens message 1. This costs two Diffie-Hellman operations, or one if the message is forged.
    pub fn run(self) -> Agreed {
        let opened = self.open();
        Agreed { asked: self.asked, opened }
    }

    fn open(&self) -> Result<Box<Accepted>, Refusal> {
        let noise = self.pattern.responder(&self.identity, &self.prologue, *self.ours.bytes());
        let mut noise = noise.map_err(|_| Refusal::Forged)?;
        let first_hash = hash(&noise);
        let message = &self.asked.packet[self.asked.head..];
        // The payload carries the early secret, which stands before the blocks that are kept.
        let mut payload = Zeroizing::new(vec![0; message.len()]);
        let length = noise.read_message(message, &mut payload).map_err(|_| Refusal::Forged)?;
        payload.truncate(length);
        let client_key = noise.get_remote_static().and_then(|key| key.try_into().ok());
        let client_key =
            PublicKey::proven(client_key.ok_or(Refusal::Forged)?).map_err(|_| Refusal::Forged)?;

        let mut reader = Reader::new(Bytes::from_owner(payload));
        let (params, secrets) = Params::read(Side::Client, &mut reader)?;
        let blocks = reader.rest();
        if self.pattern.has_psk() && (secrets.early.is_some() || !blocks.is_empty()) {
            return Err(Malformed("PING: early data with a pre-shared key").into());
        }
        Ok(Box::new(Accepted {
            client_id: self.asked.client_id,
            server_id: self.asked.server_id,
            client_key,
            params,
            blocks,
            early: secrets.early.map(|early| EarlyOpen::new(secrets.aeads, &early)),
            aead: secrets.aeads.choose(self.aes_in_hardware),
            memory: self.asked.pass.memory(),
            token: self.token,
            ping_len: self.asked.packet.len(),
            first_hash,
            noise,
        }))
    }
}

/// A client that asks for a connection. It is authenticated, but its PING may be a replay.
pub struct Accepted {
    /// The id to which PONG is addressed.
    pub client_id: ConnectionId,
    /// The server's id for the first path.
    pub server_id: ConnectionId,
    /// The client's key.
    pub client_key: PublicKey,
    /// The client's parameters.
    pub params: Params,
    /// The blocks that came with PING: early data.
    pub blocks: Bytes,
    /// The keys for further early packets.
    pub early: Option<EarlyOpen>,
    /// The cipher chosen.
    pub aead: Aead,
    /// The path memory from its ticket. If there is one, the client's address is not validated: send at most three
    /// times the bytes received. PONG respects this by itself.
    pub memory: Option<PathMemory>,
    token: ResetToken,
    ping_len: usize,
    /// The handshake hash before message 1, which the proof of RESUME covers.
    first_hash: [u8; 32],
    noise: Noise,
}

debug_only!(Accepted { client_id, server_id, client_key, params, aead });

/// A connection that has begun.
pub struct Finished {
    /// The PONG, to be kept and sent again whenever the PING arrives again, until the client's first packet under the
    /// keys.
    pub pong: Vec<u8>,
    /// The connection's keys.
    pub keys: Keys,
    /// Noise's handshake hash: the same at both ends and unique to this connection.
    pub handshake_hash: [u8; 32],
}

debug_only!(Finished { keys });

impl Accepted {
    /// Returns whether its RESUME proves that the client knows `claim`.
    pub fn proves(&self, claim: &Claim) -> bool {
        self.params.resume.is_some_and(|proof| claim.verify(&self.first_hash, &proof))
    }

    /// Returns whether messages may arrive before the client is proven to be live, with this PING or in packets after
    /// it.
    pub const fn offers_early(&self) -> bool {
        self.early.is_some() || !self.blocks.is_empty()
    }

    /// Returns the bytes received, if the address is not validated; `None` if a cookie has validated it.
    pub fn unvalidated(&self) -> Option<usize> {
        self.memory.is_some().then_some(self.ping_len)
    }

    /// Accepts the client. `write_blocks` fills the room that is left. The PONG is limited by `max_packet`, by what
    /// the client accepts, and by three times its PING if its address is not validated. The parameters AEADS and
    /// FIRST_RESET_TOKEN are added to `params`.
    pub fn finish(
        mut self,
        params: &Params,
        max_packet: usize,
        write_blocks: &mut dyn FnMut(&mut Writer<'_>),
    ) -> Result<Finished, Refusal> {
        let max_packet = max_packet.min(self.params.max_packet.into());
        let max_packet = if self.memory.is_some() { max_packet.min(3 * self.ping_len) } else { max_packet };
        let room = max_packet.max(LEAST_PONG) - PongPacket::HEAD_LEN - MESSAGE_2_OVERHEAD;
        let mut payload = Vec::with_capacity(room);
        let mut out = Writer::new(&mut payload, room);
        let params = Params { first_reset_token: Some(self.token), ..params.clone() };
        params.write(Side::Server, &Secrets { aeads: Offer::only(self.aead), early: None }, &mut out);
        write_blocks(&mut out);

        let mut pong = Vec::with_capacity(PongPacket::HEAD_LEN + MESSAGE_2_OVERHEAD + payload.len());
        PongPacket::write_head(self.client_id, self.server_id, &mut pong);
        pong.resize(pong.capacity(), 0);
        let message = &mut pong[PongPacket::HEAD_LEN..];
        let length = self.noise.write_message(&payload, message).map_err(|_| Refusal::Unsealable)?;
        pong.truncate(PongPacket::HEAD_LEN + length);
        let (client, server) = split(&mut self.noise);
        let keys = Keys::new(Side::Server, self.aead, client, server);
        Ok(Finished { pong, keys, handshake_hash: hash(&self.noise) })
    }
}
