//! The client's side of the handshake.

use std::collections::VecDeque;

use bytes::Bytes;
use rand::{CryptoRng, Rng as _, SeedableRng as _};
use rand_chacha::ChaCha20Rng;
use snow::HandshakeState;
use zeroize::Zeroizing;

use super::clear::{
    LONGEST_PASS, NOBODY, PING_LEN, Pass, PingPacket, PongPacket, Syn, SynAckPacket, VERSION, prologue,
    ticket_prologue,
};
use super::noise::{MESSAGE_1_OVERHEAD, Noise, Pattern, split};
use super::params::{Params, Secrets};
use crate::crypto::{Aead, Claim, EarlySeal, Identity, Keys, Offer, PublicKey, Secret, TicketJar};
use crate::debug_only::debug_only;
use crate::wire::{Malformed, Reader, Writer};
use crate::{ConnectionId, Side};

/// The number of PINGs in progress at once, each with a cookie of its own. There is more than one only after a forged
/// SYN-ACK, or where no PONG gets through. In the latter case the server answers the PING that arrived first, so the
/// older half stays.
const ATTEMPTS: usize = 16;

/// The client's knowledge of the server's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKey {
    /// The key is from a URL or a configuration; no other is accepted.
    Known(PublicKey),
    /// The key is remembered from an earlier contact. The server is asked to show its key, so that a changed key is
    /// detected before PING and not met with silence.
    Remembered(PublicKey),
    /// The key is unknown: trust on first use. The server is asked to show its key, and [`ClientHandshake::trust`]
    /// decides.
    Ask,
}

/// The settings with which a handshake starts.
pub struct ClientConfig {
    /// The server's key.
    pub server_key: ServerKey,
    /// A pre-shared key (Noise `psk2`). It disables early data.
    pub psk: Option<Secret>,
    /// The ciphers offered, in order of preference.
    pub aeads: Offer,
    /// A ticket from an earlier connection to the same server. It is ignored if the server's key is unknown or if it
    /// cannot be a ticket.
    pub ticket: Option<Bytes>,
    /// A session to continue over this connection. No early data is sent then.
    pub resume: Option<Claim>,
}

debug_only!(ClientConfig { server_key, aeads });

impl ClientConfig {
    /// Settings with both ciphers, no pre-shared key and no ticket.
    pub const fn new(server_key: ServerKey, aes_in_hardware: bool) -> Self {
        Self { server_key, psk: None, aeads: Offer::both(aes_in_hardware), ticket: None, resume: None }
    }
}

/// Why a packet or a call did not advance the handshake. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The packet is malformed or of another kind.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The packet belongs to another handshake, or to one that is over.
    #[error("the packet belongs to no handshake in progress")]
    NotOurs,
    /// The server speaks another version. This is not authenticated: a genuine answer may still follow.
    #[error("the server speaks version {0:#010x}")]
    Version(u32),
    /// The server shows a key that differs from the remembered one. This is not authenticated either.
    #[error("the server's key has changed: it shows {shown}")]
    KeyDiffers {
        /// The key that the server shows.
        shown: PublicKey,
    },
    /// The server does not show its key, or shows an unusable one.
    #[error("the server does not show its key; pass it in the URL")]
    NoKeyShown,
    /// [`ClientHandshake::ping`] needs a SYN-ACK or a ticket first.
    #[error("there is no cookie yet")]
    NoCookie,
    /// [`ClientHandshake::ping`] needs [`ClientHandshake::trust`] first.
    #[error("the server's key is not trusted yet")]
    KeyNotTrusted,
    /// The sender does not hold the server's key, or the packet was changed in transit.
    #[error("the packet is not from the server")]
    Forged,
    /// The authenticated server violated the protocol.
    #[error("the server broke the protocol: {0}")]
    Server(&'static str),
}

/// The contents of a SYN-ACK that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynAck {
    /// The id to which PING will be addressed.
    pub server_id: ConnectionId,
    /// The key to decide about, if none is trusted yet ([`ServerKey::Ask`]).
    pub shown_key: Option<PublicKey>,
}

/// A PING to send, and to repeat byte for byte until its PONG arrives.
pub struct PingFlight {
    /// The PING packet.
    pub packet: Vec<u8>,
    /// Keys for packets before PONG. `None` if there is no early data, as with a pre-shared key or on first contact.
    pub early: Option<EarlySeal>,
    /// The id to which the PING and the early packets are addressed.
    pub server_id: ConnectionId,
}

debug_only!(PingFlight { server_id });

/// A completed handshake.
pub struct Established {
    /// The connection's keys.
    pub keys: Keys,
    /// The server's parameters.
    pub params: Params,
    /// The blocks that came with PONG.
    pub blocks: Bytes,
    /// The cipher agreed on.
    pub aead: Aead,
    /// The server's id for the first path.
    pub server_id: ConnectionId,
    /// The key that the server has proven to hold.
    pub server_key: PublicKey,
    /// Noise's handshake hash: the same at both ends and unique to this connection.
    pub handshake_hash: [u8; 32],
    /// Whether PONG answers the latest PING, and not one that was given up after a worthless SYN-ACK.
    pub answers_latest: bool,
}

debug_only!(Established { server_id, server_key, params, aead });

/// A handshake in progress.
pub struct ClientHandshake {
    identity: Identity,
    pattern: Pattern,
    aeads: Offer,
    trust: Trust,
    client_id: ConnectionId,
    rng: ChaCha20Rng,
    syn: Vec<u8>,
    ticket: TicketState,
    resume: Option<Claim>,
    early_is_over: bool,
    invitation: Option<Invitation>,
    attempts: VecDeque<Attempt>,
}

debug_only!(ClientHandshake { client_id });

#[derive(Clone, Copy)]
enum Trust {
    Known(PublicKey),
    Remembered(PublicKey),
    FirstContact(PublicKey),
    Undecided,
}

impl Trust {
    const fn key(self) -> Option<PublicKey> {
        match self {
            Self::Known(key) | Self::Remembered(key) | Self::FirstContact(key) => Some(key),
            Self::Undecided => None,
        }
    }
}

enum TicketState {
    None,
    Unused(Bytes),
    /// The PING that carried the ticket, which a SYN-ACK may answer.
    Used(Vec<u8>),
}

/// A SYN-ACK that was accepted.
struct Invitation {
    server_id: ConnectionId,
    prologue: [u8; 32],
    cookie: Vec<u8>,
}

/// A PING that was sent.
struct Attempt {
    server_id: ConnectionId,
    server_key: PublicKey,
    noise: Noise,
}

impl ClientHandshake {
    /// Begins a handshake. `client_id` is a fresh id to which the server will send. All randomness needed later is
    /// drawn from `rng` here.
    pub fn new(
        rng: &mut impl CryptoRng,
        identity: &Identity,
        config: ClientConfig,
        client_id: ConnectionId,
    ) -> Self {
        let ClientConfig { server_key, psk, aeads, ticket, resume } = config;
        let (trust, show_key) = match server_key {
            ServerKey::Known(key) => (Trust::Known(key), false),
            ServerKey::Remembered(key) => (Trust::Remembered(key), true),
            ServerKey::Ask => (Trust::Undecided, true),
        };
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut_slice());
        Self {
            identity: identity.clone(),
            pattern: Pattern::new(psk),
            aeads,
            trust,
            client_id,
            rng: ChaCha20Rng::from_seed(*seed),
            syn: Syn { version: VERSION, client_id, show_key }.write(),
            ticket: ticket
                .filter(|ticket| trust.key().is_some() && is_ticket(ticket))
                .map_or(TicketState::None, TicketState::Unused),
            resume,
            early_is_over: false,
            invitation: None,
            attempts: VecDeque::new(),
        }
    }

    /// Sets the session to continue over the connection. Call it before any PING.
    pub(crate) fn resume(&mut self, claim: Claim) {
        self.resume = Some(claim);
    }

    /// Stops early data: further PINGs carry none, and no keys for any.
    pub(crate) fn end_early(&mut self) {
        self.early_is_over = true;
    }

    /// Returns the id to which SYN-ACK and PONG are addressed.
    pub const fn client_id(&self) -> ConnectionId {
        self.client_id
    }

    /// Returns whether there is an unused ticket, so that [`ClientHandshake::ping`] can be called at once, without
    /// SYN.
    pub const fn has_ticket(&self) -> bool {
        matches!(self.ticket, TicketState::Unused(_))
    }

    /// Returns the SYN, with the same bytes on every call.
    pub fn syn(&self) -> Vec<u8> {
        self.syn.clone()
    }

    /// Handles a SYN-ACK: the next [`ClientHandshake::ping`] uses its cookie.
    ///
    /// Nothing proves that it is genuine. A forged one leads to a PING without an answer. After a while without an
    /// answer, take a later SYN-ACK and ping again. Do not ping again sooner: the server treats a second PING as
    /// another connection.
    pub fn handle_syn_ack(&mut self, packet: &[u8]) -> Result<SynAck, HandshakeError> {
        let answer = SynAckPacket::parse(packet)?;
        if answer.client_id != self.client_id {
            return Err(HandshakeError::NotOurs);
        }
        if answer.head.version != VERSION {
            return Err(HandshakeError::Version(answer.head.version));
        }
        if answer.cookie.is_empty() || answer.head.server_id == NOBODY {
            return Err(Malformed("SYN-ACK: no cookie").into());
        }
        // Only in answer to what was sent. An observer can build a SYN from a PING with a ticket, and so get a
        // genuine SYN-ACK to a SYN that the client never sent. Its PING would be accepted beside the first.
        let asked_by = match (&self.ticket, answer.head.instead_of_pong) {
            (TicketState::None, false) => &self.syn,
            (TicketState::Used(ping), true) => ping,
            _ => return Err(HandshakeError::NotOurs),
        };
        let shown_key = self.check_key(answer.head.key)?;
        let server_id = answer.head.server_id;
        let prologue = prologue([asked_by, answer.covered]);
        self.invitation = Some(Invitation { server_id, prologue, cookie: answer.cookie.to_vec() });
        Ok(SynAck { server_id, shown_key })
    }

    fn check_key(&self, shown: Option<[u8; 32]>) -> Result<Option<PublicKey>, HandshakeError> {
        let usable = |bytes| PublicKey::new(bytes).map_err(|_| HandshakeError::NoKeyShown);
        match (self.trust, shown) {
            (Trust::Undecided, None) => Err(HandshakeError::NoKeyShown),
            (Trust::Undecided, Some(bytes)) => usable(bytes).map(Some),
            (Trust::Remembered(key) | Trust::FirstContact(key), Some(bytes)) if bytes != *key.as_bytes() => {
                Err(HandshakeError::KeyDiffers { shown: usable(bytes)? })
            }
            _ => Ok(None),
        }
    }

    /// Trusts the key that a SYN-ACK showed. It has no effect if a key is known already.
    pub fn trust(&mut self, key: PublicKey) {
        if matches!(self.trust, Trust::Undecided) {
            self.trust = Trust::FirstContact(key);
        }
    }

    /// Makes the PING for the latest SYN-ACK, once, or for the ticket if there was no SYN-ACK.
    ///
    /// `write_blocks` fills the room that is left up to `max_packet` bytes (not below [`PING_LEN`]). It is not called
    /// if no early data may be sent. The parameters AEADS and EARLY_SECRET are added to `params`.
    pub fn ping(
        &mut self,
        params: &Params,
        max_packet: usize,
        write_blocks: &mut dyn FnMut(&mut Writer<'_>),
    ) -> Result<PingFlight, HandshakeError> {
        let server_key = self.trust.key().ok_or(HandshakeError::KeyNotTrusted)?;
        let (server_id, prologue, mut packet) = self.ping_head()?;
        let early = self.may_send_early().then(|| Secret::random(&mut self.rng));
        let secrets = Secrets { aeads: self.aeads, early };

        let max_packet = max_packet.clamp(PING_LEN, usize::from(u16::MAX));
        let room = max_packet - packet.len() - MESSAGE_1_OVERHEAD;
        // The payload carries the early secret.
        let mut payload = Zeroizing::new(Vec::with_capacity(room));
        let mut out = Writer::new(&mut payload, room);

        let mut ephemeral = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(ephemeral.as_mut_slice());
        let noise = self.pattern.initiator(&self.identity, &server_key, &prologue, *ephemeral);
        let mut noise = noise.map_err(|_| HandshakeError::Forged)?;
        let resume = self.resume.as_ref().map(|claim| claim.prove(&hash(&noise)));
        Params { resume, ..params.clone() }.write(Side::Client, &secrets, &mut out);
        if secrets.early.is_some() {
            write_blocks(&mut out);
        }
        let head = packet.len();
        packet.resize(head + MESSAGE_1_OVERHEAD + payload.len(), 0);
        // Fails only if the server's key is invalid, which an unauthenticated SYN-ACK cannot cause.
        noise.write_message(&payload, &mut packet[head..]).map_err(|_| HandshakeError::Forged)?;

        // A cookie is good for one PING.
        if self.invitation.take().is_none() {
            self.ticket = TicketState::Used(packet.clone());
        }
        if self.attempts.len() == ATTEMPTS {
            self.attempts.remove(ATTEMPTS / 2);
        }
        self.attempts.push_back(Attempt { server_id, server_key, noise });
        let early = secrets.early.map(|early| EarlySeal::new(self.aeads, &early));
        Ok(PingFlight { packet, early, server_id })
    }

    /// Waits for the PONG to this PING alone, which somebody else has made.
    #[cfg(test)]
    pub(super) fn wait_for_pong(&mut self, server_id: ConnectionId, server_key: PublicKey, noise: Noise) {
        self.attempts = [Attempt { server_id, server_key, noise }].into();
    }

    /// The server's id, the prologue, and the packet up to the Noise message.
    fn ping_head(&self) -> Result<(ConnectionId, [u8; 32], Vec<u8>), HandshakeError> {
        if let Some(Invitation { server_id, prologue, cookie }) = &self.invitation {
            let head = PingPacket::write_head(*server_id, self.client_id, Pass::Cookie(cookie));
            return Ok((*server_id, *prologue, head));
        }
        let TicketState::Unused(ticket) = &self.ticket else {
            return Err(HandshakeError::NoCookie);
        };
        let server_id = TicketJar::server_id(ticket).ok_or(HandshakeError::NoCookie)?;
        let head = PingPacket::write_head(server_id, self.client_id, Pass::Ticket(ticket));
        Ok((server_id, ticket_prologue(&head), head))
    }

    /// Early data is only as safe as the server's key. With `psk2` the pre-shared key does not protect it.
    const fn may_send_early(&self) -> bool {
        !self.pattern.has_psk()
            && !self.early_is_over
            && self.resume.is_none()
            && matches!(self.trust, Trust::Known(_) | Trust::Remembered(_))
    }

    /// The trusted key; `None` while the key that the server shows is still to be decided about.
    pub(crate) const fn server_key(&self) -> Option<PublicKey> {
        self.trust.key()
    }

    /// Handles a PONG. A forged one fails, and does not prevent the genuine one from being accepted later.
    pub fn handle_pong(&mut self, packet: &[u8]) -> Result<Established, HandshakeError> {
        let pong = PongPacket::parse(packet)?;
        if pong.client_id != self.client_id {
            return Err(HandshakeError::NotOurs);
        }
        if self.attempts.iter().all(|attempt| attempt.server_id != pong.server_id) {
            return Err(HandshakeError::NotOurs);
        }
        let mut payload = vec![0; pong.noise.len()];
        let latest = self.attempts.len().saturating_sub(1);
        let answered = self
            .attempts
            .iter_mut()
            .enumerate()
            .filter(|(_, attempt)| attempt.server_id == pong.server_id)
            .find_map(|(at, attempt)| {
                let length = attempt.noise.read_message(pong.noise, &mut payload).ok()?;
                Some((at == latest, attempt, length))
            });
        let (answers_latest, attempt, length) = answered.ok_or(HandshakeError::Forged)?;
        payload.truncate(length);
        let (client, server) = split(&mut attempt.noise);
        let (server_id, server_key) = (attempt.server_id, attempt.server_key);
        let handshake_hash = hash(&attempt.noise);
        // Whatever the message contains, it is the server's, and there is no second one.
        self.attempts.clear();

        let mut reader = Reader::new(payload.into());
        let misbehaved = |malformed: Malformed| HandshakeError::Server(malformed.0);
        let (params, secrets) = Params::read(Side::Server, &mut reader).map_err(misbehaved)?;
        let aead = secrets.aeads.first();
        if secrets.aeads != Offer::only(aead) || !self.aeads.contains(aead) {
            return Err(HandshakeError::Server("a cipher that was not offered"));
        }
        let keys = Keys::new(Side::Client, aead, client, server);
        let blocks = reader.rest();
        Ok(Established { keys, params, blocks, aead, server_id, server_key, handshake_hash, answers_latest })
    }
}

/// Returns whether the bytes may be a ticket: they begin with an id, and a PING has room for them.
fn is_ticket(ticket: &[u8]) -> bool {
    (ConnectionId::LEN..=LONGEST_PASS).contains(&ticket.len())
}

pub(super) fn hash(noise: &HandshakeState) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(noise.get_handshake_hash());
    hash
}
