//! The server's end: answers strangers without remembering them.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use rand::CryptoRng;
use snow::HandshakeState;

use super::clear::{
    NOBODY, Pass, PingPacket, PongPacket, SYN_LEN, Syn, SynAckHead, VERSION, prologue, ticket_prologue,
};
use super::client::hash;
use super::noise::{MESSAGE_2_OVERHEAD, Pattern};
use super::params::{Params, Secrets};
use crate::crypto::{
    Aead, COOKIE_LIFE, CidGenerator, Claim, Cookie, CookieError, CookieJar, EarlyOpen, Identity, Keys, Offer,
    PathMemory, PublicKey, Register, ResetKey, ResetToken, Secret, Seen, TicketError, TicketJar,
};
use crate::wire::{Malformed, Reader, Writer};
use crate::{ConnectionId, Side, Time};

/// A PONG without room for blocks still fits in this.
const LEAST_PONG: usize = 400;

/// How a server answers.
#[derive(Clone)]
pub struct AcceptorConfig {
    /// Tell strangers that ask the static key, so that they can trust it on first use. Default: no.
    pub show_key: bool,
    /// A pre-shared key (Noise `psk2`) that every client must have; turns early data off. Default: none.
    pub psk: Option<Secret>,
    /// The processor has AES instructions. Default: no.
    pub aes_in_hardware: bool,
    /// Used cookies remembered, 100 bytes each; with more handshakes than this in [`COOKIE_LIFE`] PINGs are refused.
    /// Default: 65,536.
    pub cookies_remembered: usize,
    /// How long tickets are good. Default: a day.
    pub ticket_life: Duration,
    /// Used tickets remembered until they expire, 100 bytes each; when full, tickets do not count. Default: 65,536.
    pub tickets_remembered: usize,
}

impl Default for AcceptorConfig {
    fn default() -> Self {
        Self {
            show_key: false,
            psk: None,
            aes_in_hardware: false,
            cookies_remembered: 65_536,
            ticket_life: Duration::from_secs(86_400),
            tickets_remembered: 65_536,
        }
    }
}

/// Why a SYN or PING gets no answer. Nothing was changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Does not follow the format.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The cookie does not count.
    #[error(transparent)]
    Cookie(#[from] CookieError),
    /// The cookie was used by another PING.
    #[error("the cookie was used before")]
    Replayed,
    /// Too many handshakes of late to remember one more.
    #[error("too many handshakes at a time")]
    Full,
    /// The Noise message fails: for another key, another SYN, without the pre-shared key, or forged.
    #[error("the handshake message does not open")]
    Forged,
    /// The answer could not be made.
    #[error("the answer could not be sealed")]
    Unsealable,
}

/// What a PING is about to cost, for whoever limits it. What went before cost an AEAD operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Diffie-Hellmans, for somebody who is where the PING came from: a cookie came back.
    Cookie,
    /// Diffie-Hellmans, for the bearer of this ticket, who may be anywhere.
    Ticket(ConnectionId),
    /// A SYN-ACK, for anybody.
    SynAck,
}

/// What a PING means.
pub enum Ping {
    /// A client begins a connection: let it in by [`Accepted::finish`], or drop it.
    New(Box<Accepted>),
    /// It began before: its PONG got lost and is due again, byte for byte, to the address the first PING came from.
    /// Nothing if the connection was not let in, or is over.
    Repeated {
        /// The connection.
        server_id: ConnectionId,
    },
    /// Its ticket does not count; a SYN-ACK is in the buffer.
    Answered(TicketError),
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
        let (client, server) = self.noise.dangerously_get_raw_split();
        let keys = Keys::new(Side::Server, self.aead, client, server);
        Ok(Finished { pong, keys, handshake_hash: hash(&self.noise) })
    }
}

/// What a SYN-ACK answers.
struct Asked<'a> {
    packet: &'a [u8],
    client_id: ConnectionId,
    show_key: bool,
    by_ticket: bool,
}

/// The door of one core: SYN in, SYN-ACK out; PING in, a client out.
pub struct Acceptor {
    identity: Identity,
    pattern: Pattern,
    show_key: bool,
    aes_in_hardware: bool,
    cookies: CookieJar,
    used: Register,
    tickets: TicketJar,
    ids: CidGenerator,
    reset: ResetKey,
}

impl Acceptor {
    /// For the core that `ids` is for.
    pub fn new(
        identity: &Identity,
        config: &AcceptorConfig,
        ids: CidGenerator,
        rng: &mut impl CryptoRng,
    ) -> Self {
        Self {
            identity: identity.clone(),
            pattern: Pattern::new(config.psk.clone()),
            show_key: config.show_key,
            aes_in_hardware: config.aes_in_hardware,
            cookies: CookieJar::new(rng),
            used: Register::new(config.cookies_remembered),
            tickets: TicketJar::new(config.ticket_life, config.tickets_remembered, rng),
            ids,
            reset: ResetKey::new(identity),
        }
    }

    /// Issues this core's connection ids, of clients too.
    pub const fn ids(&mut self) -> &mut CidGenerator {
        &mut self.ids
    }

    /// Makes the reset tokens of this identity's ids.
    pub const fn reset_key(&self) -> &ResetKey {
        &self.reset
    }

    /// Cookies used lately.
    pub const fn cookies_used(&self) -> &Register {
        &self.used
    }

    /// Tickets used and not yet expired.
    pub const fn tickets_used(&self) -> &Register {
        self.tickets.used()
    }

    /// A ticket for a client that is connected, and how long it is good.
    pub fn issue_ticket(
        &mut self,
        now: Time,
        client_key: &PublicKey,
        memory: PathMemory,
    ) -> ([u8; TicketJar::TICKET_LEN], Duration) {
        let server_id = self.ids.issue();
        (self.tickets.issue(now, server_id, client_key, memory), self.tickets.life())
    }

    /// Answers SYN: appends SYN-ACK, no longer than the SYN, to `out`. Remembers nothing.
    pub fn handle_syn(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let syn = Syn::parse(packet)?;
        if syn.version == VERSION {
            let asked = Asked { packet, client_id: syn.client_id, show_key: syn.show_key, by_ticket: false };
            self.invite(now, from, &asked, out);
        } else {
            let head = SynAckHead { version: VERSION, server_id: NOBODY, key: None, instead_of_pong: false };
            head.write(syn.client_id, out);
            out.push(0);
        }
        Ok(())
    }

    /// Appends a SYN-ACK with a cookie.
    fn invite(&mut self, now: Time, from: SocketAddr, asked: &Asked<'_>, out: &mut Vec<u8>) {
        let server_id = self.ids.issue();
        let key = (asked.show_key && self.show_key).then(|| *self.identity.public().as_bytes());
        let start = out.len();
        let head = SynAckHead { version: VERSION, server_id, key, instead_of_pong: asked.by_ticket };
        head.write(asked.client_id, out);
        let prologue = prologue([asked.packet, &out[start..]]);
        // As a two-byte integer.
        out.extend_from_slice(&(CookieJar::COOKIE_LEN as u16 | 0x4000).to_be_bytes());
        let cookie = Cookie { made: now, client_id: asked.client_id, prologue };
        self.cookies.seal(from, server_id, &cookie, out);
        debug_assert!(out.len() - start <= asked.packet.len(), "never longer than what came in");
    }

    /// Takes a PING. Something is appended to `out` only if the answer is [`Ping::Answered`].
    ///
    /// A valid one costs two Diffie-Hellmans here and three in [`Accepted::finish`]; one without a valid cookie or
    /// ticket costs an AEAD. `afford` is asked before what costs more is done: not what anybody can send from any address.
    pub fn handle_ping(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &[u8],
        rng: &mut impl CryptoRng,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<Ping, Refusal> {
        let ping = PingPacket::parse(packet)?;
        let ephemeral = ping.ephemeral()?;
        match ping.pass {
            Pass::Cookie(cookie) => {
                let cookie = self.cookies.open(now, from, ping.server_id, cookie)?;
                if cookie.client_id != ping.client_id {
                    return Err(CookieError::Invalid.into());
                }
                match self.used.look(now, ping.server_id, &ephemeral) {
                    Seen::Repeated => return Ok(Ping::Repeated { server_id: ping.server_id }),
                    Seen::Used => return Err(Refusal::Replayed),
                    Seen::Full => return Err(Refusal::Full),
                    Seen::Never if !afford(Effort::Cookie) => return Err(Refusal::Full),
                    Seen::Never => {}
                }
                let accepted = self.open(&ping, &cookie.prologue, packet.len(), None, rng)?;
                self.used.mark(ping.server_id, ephemeral, cookie.made + COOKIE_LIFE);
                Ok(Ping::New(accepted))
            }
            // The answer may be a SYN-ACK, which is not to be longer.
            Pass::Ticket(_) if packet.len() < SYN_LEN => {
                Err(Malformed("PING: too short for a ticket").into())
            }
            Pass::Ticket(ticket) => {
                let claim = match self.tickets.look(now, ticket, &ephemeral) {
                    Ok(claim) if claim.server_id != ping.server_id => {
                        return Err(Malformed("PING: not the ticket's id").into());
                    }
                    Ok(claim) if claim.repeated => return Ok(Ping::Repeated { server_id: claim.server_id }),
                    Ok(claim) => claim,
                    Err(error) => return self.decline(now, from, packet, &ping, error, afford, out),
                };
                if !afford(Effort::Ticket(claim.server_id)) {
                    return Err(Refusal::Full);
                }
                let prologue = ticket_prologue(ping.head);
                let accepted = self.open(&ping, &prologue, packet.len(), Some(claim.memory), rng)?;
                match self.tickets.redeem(&claim, ephemeral, &accepted.client_key) {
                    Ok(()) => Ok(Ping::New(accepted)),
                    Err(error) => self.decline(now, from, packet, &ping, error, afford, out),
                }
            }
        }
    }

    /// A ticket that does not count: SYN-ACK, as if PING were a SYN.
    #[allow(
        clippy::too_many_arguments,
        reason = "a packet, where it came from, and what is to be said of it"
    )]
    fn decline(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &[u8],
        ping: &PingPacket<'_>,
        error: TicketError,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<Ping, Refusal> {
        if !afford(Effort::SynAck) {
            return Err(Refusal::Full);
        }
        let asked = Asked { packet, client_id: ping.client_id, show_key: false, by_ticket: true };
        self.invite(now, from, &asked, out);
        Ok(Ping::Answered(error))
    }

    /// Opens message 1.
    fn open(
        &self,
        ping: &PingPacket<'_>,
        prologue: &[u8; 32],
        ping_len: usize,
        memory: Option<PathMemory>,
        rng: &mut impl CryptoRng,
    ) -> Result<Box<Accepted>, Refusal> {
        let mut ephemeral = [0; 32];
        rng.fill_bytes(&mut ephemeral);
        let noise = self.pattern.responder(&self.identity, prologue, ephemeral);
        let mut noise = noise.map_err(|_| Refusal::Forged)?;
        let first_hash = hash(&noise);
        let mut payload = vec![0; ping.noise.len()];
        let length = noise.read_message(ping.noise, &mut payload).map_err(|_| Refusal::Forged)?;
        payload.truncate(length);
        let client_key = noise.get_remote_static().and_then(|key| key.try_into().ok());
        let client_key =
            PublicKey::proven(client_key.ok_or(Refusal::Forged)?).map_err(|_| Refusal::Forged)?;

        let mut reader = Reader::new(payload.into());
        let (params, secrets) = Params::read(Side::Client, &mut reader)?;
        let blocks = reader.rest();
        if self.pattern.has_psk() && (secrets.early.is_some() || !blocks.is_empty()) {
            return Err(Malformed("PING: early data with a pre-shared key").into());
        }
        Ok(Box::new(Accepted {
            client_id: ping.client_id,
            server_id: ping.server_id,
            client_key,
            params,
            blocks,
            early: secrets.early.map(|early| EarlyOpen::new(secrets.aeads, &early)),
            aead: secrets.aeads.choose(self.aes_in_hardware),
            memory,
            token: self.reset.token(ping.server_id),
            ping_len,
            first_hash,
            noise,
        }))
    }
}
