//! The key agreements of a PING: nearly all that a handshake costs, apart from everything that decides about it. A value that needs nothing
//! of its acceptor, so any thread can make them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use snow::HandshakeState;
use zeroize::Zeroizing;

use super::clear::PongPacket;
use super::client::hash;
use super::noise::{MESSAGE_2_OVERHEAD, Pattern, split};
use super::params::{Params, Secrets};
use super::server::{Asked, Refusal};
use crate::crypto::{
    Aead, Claim, EarlyOpen, Identity, Keys, Offer, PathMemory, PublicKey, ResetToken, Secret, TicketClaim,
};
use crate::wire::{Malformed, Reader, Writer};
use crate::{ConnectionId, Side, Time};

/// A PONG without room for blocks still fits in this.
const LEAST_PONG: usize = 400;

/// See the module.
pub struct Agreement {
    pub(super) identity: Identity,
    pub(super) pattern: Arc<Pattern>,
    pub(super) aes_in_hardware: bool,
    pub(super) token: ResetToken,
    /// Our ephemeral key's secret.
    pub(super) ours: Secret,
    pub(super) prologue: [u8; 32],
    pub(super) asked: PingAsked,
}

/// A PING whose cookie or ticket is good.
pub(super) struct PingAsked {
    pub(super) from: SocketAddr,
    pub(super) packet: Vec<u8>,
    /// Bytes before the Noise message.
    pub(super) head: usize,
    pub(super) server_id: ConnectionId,
    pub(super) client_id: ConnectionId,
    /// The client's.
    pub(super) ephemeral: [u8; 32],
    pub(super) pass: Proof,
}

/// What showed that it is not just anybody's.
pub(super) enum Proof {
    /// Good until then.
    Cookie {
        until: Time,
    },
    Ticket(TicketClaim),
}

impl Proof {
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

/// An [`Agreement`] that was made, for [`super::Acceptor::conclude`].
pub struct Agreed {
    pub(super) asked: PingAsked,
    pub(super) opened: Result<Box<Accepted>, Refusal>,
}

impl Agreement {
    /// It came with a ticket.
    pub const fn has_ticket(&self) -> bool {
        matches!(self.asked.pass, Proof::Ticket(_))
    }

    /// Opens message 1: two Diffie-Hellmans, or one if it is forged.
    pub fn run(self) -> Agreed {
        let opened = self.open();
        Agreed { asked: self.asked, opened }
    }

    fn open(&self) -> Result<Box<Accepted>, Refusal> {
        let noise = self.pattern.responder(&self.identity, &self.prologue, *self.ours.bytes());
        let mut noise = noise.map_err(|_| Refusal::Forged)?;
        let first_hash = hash(&noise);
        let message = &self.asked.packet[self.asked.head..];
        // It carries the early secret, which stands before the blocks that are kept.
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

/// A client at the door, authenticated but for the freshness of its PING.
pub struct Accepted {
    /// Where PONG goes.
    pub client_id: ConnectionId,
    /// The server's id for the first path.
    pub server_id: ConnectionId,
    /// Who it is.
    pub client_key: PublicKey,
    /// Its parameters.
    pub params: Params,
    /// Blocks that came with PING: early data.
    pub blocks: Bytes,
    /// Keys for further early packets.
    pub early: Option<EarlyOpen>,
    /// The cipher chosen.
    pub aead: Aead,
    /// From its ticket. If there is one, its address is not validated: send at most three times what came in
    /// (PONG keeps to it by itself).
    pub memory: Option<PathMemory>,
    token: ResetToken,
    ping_len: usize,
    /// Before message 1: what RESUME proves itself against.
    first_hash: [u8; 32],
    noise: HandshakeState,
}

/// A connection begun.
pub struct Finished {
    /// PONG, to be kept and repeated whenever PING is, until the client's first packet under the keys.
    pub pong: Vec<u8>,
    /// The keys from now on.
    pub keys: Keys,
    /// Noise's handshake hash: the same at both ends, of no other connection.
    pub handshake_hash: [u8; 32],
}

impl Accepted {
    /// Whether its RESUME proves that `claim` is known.
    pub fn proves(&self, claim: &Claim) -> bool {
        self.params.resume.is_some_and(|proof| claim.verify(&self.first_hash, &proof))
    }

    /// Messages may come before the client is proven: with this PING, or in packets behind it.
    pub const fn offers_early(&self) -> bool {
        self.early.is_some() || !self.blocks.is_empty()
    }

    /// Bytes received from an address that nothing has proven; None: a cookie has.
    pub fn unvalidated(&self) -> Option<usize> {
        self.memory.is_some().then_some(self.ping_len)
    }

    /// Lets the client in. `write_blocks` fills the room that is left up to `max_packet` bytes, what the client takes,
    /// and three times its PING if its address is not validated. AEADS and FIRST_RESET_TOKEN are added to `params`.
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
