//! The server's side of the handshake, which answers strangers without keeping state for them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::CryptoRng;

use super::agreement::{Accepted, Agreed, Agreement, PingAsked, PingProof};
use super::clear::{NOBODY, Pass, PingPacket, SYN_LEN, Syn, SynAckHead, VERSION, prologue, ticket_prologue};
use super::noise::Pattern;
use crate::crypto::{
    COOKIE_LIFE, CidGenerator, Cookie, CookieError, CookieJar, Identity, PathMemory, PublicKey, Register,
    ResetKey, Secret, Seen, TicketClaim, TicketError, TicketJar, Tries, Try,
};
use crate::debug_only::debug_only;
use crate::wire::Malformed;
use crate::{ConnectionId, Time};

/// The settings of an [`Acceptor`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct AcceptorConfig {
    /// Whether to tell the static key to strangers that ask, so that they can trust it on first use. Default: no.
    pub show_key: bool,
    /// A pre-shared key (Noise `psk2`) that every client must have. It disables early data. Default: none.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub psk: Option<Secret>,
    /// Whether the processor has AES instructions. Default: no.
    pub aes_in_hardware: bool,
    /// The number of used cookies remembered, of 100 bytes each. With more handshakes than this within
    /// [`COOKIE_LIFE`], PINGs are refused; those of strangers at three quarters of it. Default: 65,536.
    pub cookies_remembered: usize,
    /// How long tickets are valid. Default: a day.
    #[cfg_attr(feature = "serde", serde(with = "crate::units::as_text::duration"))]
    pub ticket_life: Duration,
    /// The number of used tickets remembered until they expire, of 100 bytes each. While it is full, no ticket is
    /// accepted. Default: 65,536.
    pub tickets_remembered: usize,
}

crate::setters!(AcceptorConfig {
    show_key: bool,
    psk: Option<Secret>,
    aes_in_hardware: bool,
    cookies_remembered: usize,
    ticket_life: Duration,
    tickets_remembered: usize,
});

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

/// Why a SYN or PING gets no answer. The acceptor's state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The packet is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The cookie is not accepted.
    #[error(transparent)]
    Cookie(#[from] CookieError),
    /// The cookie was used by another PING.
    #[error("the cookie was used before")]
    Replayed,
    /// There were too many handshakes lately to remember one more.
    #[error("too many handshakes at once")]
    Full,
    /// The Noise message does not open: it is for another key or SYN, lacks the pre-shared key, or is forged.
    #[error("the handshake message cannot be decrypted")]
    Forged,
    /// Too many PINGs with this cookie failed.
    #[error("too many messages with this cookie failed")]
    Void,
    /// The same PING is being opened already.
    #[error("the same message is already being processed")]
    UnderWay,
    /// The answer could not be sealed.
    #[error("the answer could not be sealed")]
    Unsealable,
}

/// The cost of the next step for a PING, for the caller's rate limits. The steps before cost one AEAD operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Diffie-Hellman operations for a client whose address is proven by its cookie.
    Cookie {
        /// Whether the memory of used cookies is nearly full, so that the rest should be kept for known clients.
        crowded: bool,
    },
    /// One more message with this ticket. It costs nothing yet, but someone who copied the ticket without its key may
    /// send many.
    Try(ConnectionId),
    /// Diffie-Hellman operations for the bearer of this ticket, whose address is not proven.
    Ticket(ConnectionId),
    /// A SYN-ACK to an address that is not proven.
    SynAck,
}

/// The result of a PING.
#[derive(Debug)]
pub enum Ping {
    /// A client begins a connection: accept it with [`Accepted::finish`], or drop it.
    New(Box<Accepted>),
    /// The connection began before, but its PONG was lost. Send the PONG again, byte for byte, to the address from
    /// which the first PING came. Send nothing if the connection was not accepted or is over.
    Repeated {
        /// The server's id of the connection.
        server_id: ConnectionId,
    },
    /// The ticket is not accepted; a SYN-ACK was appended to the buffer.
    Answered(TicketError),
}

/// The result of a PING's cheap checks, before any key agreement.
#[derive(Debug)]
pub enum Checked {
    /// Its key agreements, which any thread can run, followed by [`Acceptor::conclude`].
    Agree(Box<Agreement>),
    /// The key agreements of the same PING are running already.
    UnderWay,
    /// See [`Ping::Repeated`].
    Repeated {
        /// The server's id of the connection.
        server_id: ConnectionId,
    },
    /// See [`Ping::Answered`].
    Answered(TicketError),
}

/// The packet that a SYN-ACK answers.
pub(super) struct Asked<'a> {
    pub(super) packet: &'a [u8],
    pub(super) client_id: ConnectionId,
    pub(super) show_key: bool,
    pub(super) by_ticket: bool,
}

fn asked_by_ticket<'a>(packet: &'a [u8], ping: &PingPacket<'_>) -> Asked<'a> {
    Asked { packet, client_id: ping.client_id, show_key: false, by_ticket: true }
}

/// The entry to one core: it answers SYNs with SYN-ACKs, and turns PINGs into clients.
pub struct Acceptor {
    identity: Identity,
    pattern: Arc<Pattern>,
    show_key: bool,
    aes_in_hardware: bool,
    cookies: CookieJar,
    used: Register,
    tries: Tries,
    tickets: TicketJar,
    ids: CidGenerator,
    reset: ResetKey,
}

debug_only!(Acceptor { show_key, aes_in_hardware });

impl Acceptor {
    /// Creates the acceptor of the core that `ids` belongs to. `reset` makes the reset tokens of the ids.
    pub fn new(
        identity: &Identity,
        config: &AcceptorConfig,
        ids: CidGenerator,
        reset: ResetKey,
        rng: &mut impl CryptoRng,
    ) -> Self {
        Self {
            identity: identity.clone(),
            pattern: Arc::new(Pattern::new(config.psk.clone())),
            show_key: config.show_key,
            aes_in_hardware: config.aes_in_hardware,
            cookies: CookieJar::new(rng),
            used: Register::new(config.cookies_remembered),
            tries: Tries::default(),
            tickets: TicketJar::new(config.ticket_life, config.tickets_remembered, rng),
            ids,
            reset,
        }
    }

    /// Returns the generator of this core's connection ids. Connections that this core opens use it as well.
    pub const fn ids(&mut self) -> &mut CidGenerator {
        &mut self.ids
    }

    /// Returns the key that makes the reset tokens of this core's ids.
    pub const fn reset_key(&self) -> &ResetKey {
        &self.reset
    }

    /// Replaces the key that makes reset tokens.
    pub(crate) fn set_reset_key(&mut self, reset: ResetKey) {
        self.reset = reset;
    }

    /// Voids the tickets issued to this client so far.
    pub(crate) fn void_tickets_of(&mut self, now: Time, client_key: &PublicKey) {
        self.tickets.void_of(now, client_key);
    }

    /// Voids all tickets issued so far.
    pub(crate) fn void_tickets(&mut self, now: Time) {
        self.tickets.void(now);
    }

    /// Returns the register of recently used cookies.
    pub const fn cookies_used(&self) -> &Register {
        &self.used
    }

    /// Returns the register of used tickets that have not expired.
    pub const fn tickets_used(&self) -> &Register {
        self.tickets.used()
    }

    /// Issues a ticket for a connected client. Returns it and how long it is valid.
    pub fn issue_ticket(
        &mut self,
        now: Time,
        client_key: &PublicKey,
        memory: PathMemory,
    ) -> ([u8; TicketJar::TICKET_LEN], Duration) {
        let server_id = self.ids.issue();
        (self.tickets.issue(now, server_id, client_key, memory), self.tickets.life())
    }

    /// Answers a SYN: appends a SYN-ACK no longer than the SYN to `out`, and keeps no state.
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
        // The length is written as a two-byte integer.
        out.extend_from_slice(&(CookieJar::COOKIE_LEN as u16 | 0x4000).to_be_bytes());
        let cookie = Cookie { made: now, client_id: asked.client_id, prologue };
        self.cookies.seal(from, server_id, &cookie, out);
        debug_assert!(out.len() - start <= asked.packet.len(), "never longer than what came in");
    }

    /// Handles a PING: [`Acceptor::check_ping`], [`Agreement::run`] and [`Acceptor::conclude`] in one.
    pub fn handle_ping(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &[u8],
        rng: &mut impl CryptoRng,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<Ping, Refusal> {
        match self.check_ping(now, from, packet, rng, afford, out)? {
            Checked::Agree(agreement) => self.conclude(now, agreement.run(), afford, out),
            Checked::UnderWay => Err(Refusal::UnderWay),
            Checked::Repeated { server_id } => Ok(Ping::Repeated { server_id }),
            Checked::Answered(error) => Ok(Ping::Answered(error)),
        }
    }

    /// Makes all checks of a PING that need no key agreement. `out` is appended to only if the result is
    /// [`Checked::Answered`].
    ///
    /// This costs one AEAD operation. The rest costs two Diffie-Hellman operations, and [`Accepted::finish`] three.
    /// `afford` is asked before each costlier step. It is not asked for work that anyone can cause from any address.
    pub fn check_ping(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &[u8],
        rng: &mut impl CryptoRng,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<Checked, Refusal> {
        let ping = PingPacket::parse(packet)?;
        match ping.pass {
            Pass::Cookie(cookie) => self.check_cookie(now, from, &ping, cookie, rng, afford),
            // The answer may be a SYN-ACK, which must not be longer than the PING.
            Pass::Ticket(_) if packet.len() < SYN_LEN => {
                Err(Malformed("PING: too short for a ticket").into())
            }
            Pass::Ticket(ticket) => {
                let asked = asked_by_ticket(packet, &ping);
                let claim = match self.tickets.look(now, ticket, &ping.ephemeral()?) {
                    Ok(claim) => claim,
                    Err(error) => {
                        return self.decline(now, from, &asked, error, afford, out).map(Checked::Answered);
                    }
                };
                match self.check_ticket(now, from, &ping, claim, rng, afford)? {
                    Some(checked) => Ok(checked),
                    None => self.withdraw(now, from, &asked, &claim, afford, out).map(Checked::Answered),
                }
            }
        }
    }

    fn check_cookie(
        &mut self,
        now: Time,
        from: SocketAddr,
        ping: &PingPacket<'_>,
        cookie: &[u8],
        rng: &mut impl CryptoRng,
        afford: &mut dyn FnMut(Effort) -> bool,
    ) -> Result<Checked, Refusal> {
        let (id, ephemeral) = (ping.server_id, ping.ephemeral()?);
        let cookie = self.cookies.open(now, from, id, cookie)?;
        if cookie.client_id != ping.client_id {
            return Err(CookieError::Invalid.into());
        }
        match self.used.look(now, id, &ephemeral) {
            Seen::Repeated => return Ok(Checked::Repeated { server_id: id }),
            Seen::Used => return Err(Refusal::Replayed),
            Seen::Full => return Err(Refusal::Full),
            Seen::Never => {}
        }
        match self.tries.look(now, id, &ephemeral) {
            Try::UnderWay => return Ok(Checked::UnderWay),
            Try::Void => return Err(Refusal::Void),
            Try::Fresh if afford(Effort::Cookie { crowded: self.used.is_crowded() }) => {}
            Try::Fresh => return Err(Refusal::Full),
        }
        let until = cookie.made + COOKIE_LIFE;
        self.tries.begin(id, &ephemeral, until);
        let pass = PingProof::Cookie { until };
        Ok(Checked::Agree(Box::new(self.agreement(from, ping, ephemeral, cookie.prologue, pass, rng))))
    }

    /// Checks a PING with a valid ticket. Returns `None` if the ticket was tried too often.
    fn check_ticket(
        &mut self,
        now: Time,
        from: SocketAddr,
        ping: &PingPacket<'_>,
        claim: TicketClaim,
        rng: &mut impl CryptoRng,
        afford: &mut dyn FnMut(Effort) -> bool,
    ) -> Result<Option<Checked>, Refusal> {
        if claim.server_id != ping.server_id {
            return Err(Malformed("PING: not the ticket's id").into());
        }
        if claim.repeated {
            return Ok(Some(Checked::Repeated { server_id: claim.server_id }));
        }
        let ephemeral = ping.ephemeral()?;
        match self.tries.look(now, claim.server_id, &ephemeral) {
            Try::UnderWay => return Ok(Some(Checked::UnderWay)),
            Try::Fresh if afford(Effort::Try(claim.server_id)) => {}
            Try::Fresh | Try::Void => return Ok(None),
        }
        if !afford(Effort::Ticket(claim.server_id)) {
            return Err(Refusal::Full);
        }
        self.tries.begin(claim.server_id, &ephemeral, now + COOKIE_LIFE);
        let (prologue, pass) = (ticket_prologue(ping.head), PingProof::Ticket(claim));
        let agreement = self.agreement(from, ping, ephemeral, prologue, pass, rng);
        Ok(Some(Checked::Agree(Box::new(agreement))))
    }

    fn agreement(
        &self,
        from: SocketAddr,
        ping: &PingPacket<'_>,
        ephemeral: [u8; 32],
        prologue: [u8; 32],
        pass: PingProof,
        rng: &mut impl CryptoRng,
    ) -> Agreement {
        Agreement {
            identity: self.identity.clone(),
            pattern: Arc::clone(&self.pattern),
            aes_in_hardware: self.aes_in_hardware,
            token: self.reset.token(ping.server_id),
            ours: Secret::random(rng),
            asked: PingAsked {
                from,
                packet: [ping.head, ping.noise].concat(),
                head: ping.head.len(),
                server_id: ping.server_id,
                client_id: ping.client_id,
                ephemeral,
                pass,
            },
            prologue,
        }
    }

    /// Gives up the key agreements of a PING because there is no capacity for them. The PING may arrive again.
    pub fn abandon(&mut self, agreement: &Agreement) {
        self.tries.release(agreement.asked.server_id, &agreement.asked.ephemeral);
    }

    /// Decides about a PING after its key agreements. `out` is appended to only if the result is [`Ping::Answered`].
    pub fn conclude(
        &mut self,
        now: Time,
        agreed: Agreed,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<Ping, Refusal> {
        let Agreed { asked, opened } = agreed;
        let (id, ephemeral) = (asked.server_id, asked.ephemeral);
        match (&asked.pass, opened) {
            (PingProof::Cookie { .. }, Err(refusal)) => {
                self.tries.fail(id, &ephemeral);
                Err(refusal)
            }
            (PingProof::Ticket(_), Err(refusal)) => {
                // A limit per second bounds how often one ticket may fail.
                self.tries.settle(id);
                Err(refusal)
            }
            (PingProof::Cookie { until }, Ok(accepted)) => {
                self.tries.settle(id);
                // Another PING with this cookie, or many with other cookies, may have been opened in the meantime.
                match self.used.look(now, id, &ephemeral) {
                    Seen::Never => self.used.mark(id, ephemeral, *until),
                    Seen::Repeated => return Ok(Ping::Repeated { server_id: id }),
                    Seen::Used => return Err(Refusal::Replayed),
                    Seen::Full => return Err(Refusal::Full),
                }
                Ok(Ping::New(accepted))
            }
            (PingProof::Ticket(claim), Ok(accepted)) => {
                self.tries.settle(id);
                match self.tickets.redeem(now, claim, ephemeral, &accepted.client_key) {
                    Ok(Seen::Never) => Ok(Ping::New(accepted)),
                    Ok(_) => Ok(Ping::Repeated { server_id: id }),
                    Err(error) => {
                        let asked_by = asked.by_ticket();
                        self.decline(now, asked.from, &asked_by, error, afford, out).map(Ping::Answered)
                    }
                }
            }
        }
    }

    /// Declines and voids a ticket that others try as well. Its owner, who may be among them, should begin with a
    /// cookie and not wait until they stop. The owner then repeats its early data, so no copy of its first PING may
    /// be accepted afterwards.
    fn withdraw(
        &mut self,
        now: Time,
        from: SocketAddr,
        asked: &Asked<'_>,
        claim: &TicketClaim,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<TicketError, Refusal> {
        let declined = self.decline(now, from, asked, TicketError::Tried, afford, out)?;
        self.tickets.withdraw(claim);
        Ok(declined)
    }

    /// Answers a PING whose ticket is not accepted with a SYN-ACK, as if the PING were a SYN.
    fn decline(
        &mut self,
        now: Time,
        from: SocketAddr,
        asked: &Asked<'_>,
        error: TicketError,
        afford: &mut dyn FnMut(Effort) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<TicketError, Refusal> {
        if !afford(Effort::SynAck) {
            return Err(Refusal::Full);
        }
        self.invite(now, from, asked, out);
        Ok(error)
    }
}
