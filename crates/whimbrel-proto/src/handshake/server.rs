//! The server's end: answers strangers without remembering them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::CryptoRng;

use super::agreement::{Accepted, Agreed, Agreement, PingAsked, Proof};
use super::clear::{NOBODY, Pass, PingPacket, SYN_LEN, Syn, SynAckHead, VERSION, prologue, ticket_prologue};
use super::noise::Pattern;
use crate::crypto::{
    COOKIE_LIFE, CidGenerator, Cookie, CookieError, CookieJar, Identity, PathMemory, PublicKey, Register,
    ResetKey, Secret, Seen, TicketClaim, TicketError, TicketJar, Tries, Try,
};
use crate::wire::Malformed;
use crate::{ConnectionId, Time};

/// How a server answers.
#[derive(Clone)]
pub struct AcceptorConfig {
    /// Tell strangers that ask the static key, so that they can trust it on first use. Default: no.
    pub show_key: bool,
    /// A pre-shared key (Noise `psk2`) that every client must have; turns early data off. Default: none.
    pub psk: Option<Secret>,
    /// The processor has AES instructions. Default: no.
    pub aes_in_hardware: bool,
    /// Used cookies remembered, 100 bytes each; with more handshakes than this in [`COOKIE_LIFE`] PINGs are refused, strangers' with three
    /// quarters of it. Default: 65,536.
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
    /// Too many PINGs with the cookie failed.
    #[error("too many messages with this cookie failed")]
    Void,
    /// The same PING is being opened.
    #[error("the same message is being opened")]
    UnderWay,
    /// The answer could not be made.
    #[error("the answer could not be sealed")]
    Unsealable,
}

/// What a PING is about to cost, for whoever limits it. What went before cost an AEAD operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Diffie-Hellmans, for somebody who is where the PING came from: a cookie came back.
    Cookie {
        /// Most of what can be remembered of used cookies is: the rest had better be left to who is known.
        crowded: bool,
    },
    /// One message more with this ticket is looked at. Nothing yet; but many come from who has a copy of it and not its key.
    Try(ConnectionId),
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

/// What a PING needs after all that is cheap was looked at.
pub enum Checked {
    /// Its key agreements, which any thread can make; then [`Acceptor::conclude`].
    Agree(Box<Agreement>),
    /// They are being made.
    UnderWay,
    /// As [`Ping::Repeated`].
    Repeated {
        /// The connection.
        server_id: ConnectionId,
    },
    /// As [`Ping::Answered`].
    Answered(TicketError),
}

/// What a SYN-ACK answers.
pub(super) struct Asked<'a> {
    pub(super) packet: &'a [u8],
    pub(super) client_id: ConnectionId,
    pub(super) show_key: bool,
    pub(super) by_ticket: bool,
}

fn asked_by_ticket<'a>(packet: &'a [u8], ping: &PingPacket<'_>) -> Asked<'a> {
    Asked { packet, client_id: ping.client_id, show_key: false, by_ticket: true }
}

/// The door of one core: SYN in, SYN-ACK out; PING in, a client out.
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

impl Acceptor {
    /// For the core that `ids` is for; `reset` makes the tokens of the ids.
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

    /// Issues this core's connection ids, of clients too.
    pub const fn ids(&mut self) -> &mut CidGenerator {
        &mut self.ids
    }

    /// Makes the reset tokens of this core's ids.
    pub const fn reset_key(&self) -> &ResetKey {
        &self.reset
    }

    /// Tokens are made by another key from now on.
    pub(crate) fn set_reset_key(&mut self, reset: ResetKey) {
        self.reset = reset;
    }

    /// Tickets that this client was issued so far do not count any more.
    pub(crate) fn void_tickets_of(&mut self, now: Time, client_key: &PublicKey) {
        self.tickets.void_of(now, client_key);
    }

    /// Tickets that anybody was issued so far do not count any more.
    pub(crate) fn void_tickets(&mut self, now: Time) {
        self.tickets.void(now);
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

    /// Takes a PING: [`Acceptor::check_ping`], [`Agreement::run`] and [`Acceptor::conclude`] in one.
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

    /// Looks at all of a PING that costs no key agreement. Something is appended to `out` only if the answer is [`Checked::Answered`].
    ///
    /// This costs an AEAD; what follows costs two Diffie-Hellmans, and [`Accepted::finish`] three. `afford` is asked before what
    /// costs more is done: not what anybody can send from any address.
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
            // The answer may be a SYN-ACK, which is not to be longer.
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
        let pass = Proof::Cookie { until };
        Ok(Checked::Agree(Box::new(self.agreement(from, ping, ephemeral, cookie.prologue, pass, rng))))
    }

    /// None: it was tried too often.
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
        let (prologue, pass) = (ticket_prologue(ping.head), Proof::Ticket(claim));
        let agreement = self.agreement(from, ping, ephemeral, prologue, pass, rng);
        Ok(Some(Checked::Agree(Box::new(agreement))))
    }

    fn agreement(
        &self,
        from: SocketAddr,
        ping: &PingPacket<'_>,
        ephemeral: [u8; 32],
        prologue: [u8; 32],
        pass: Proof,
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

    /// The key agreements of a PING are not made after all: nobody has the time. It may come again.
    pub fn abandon(&mut self, agreement: &Agreement) {
        self.tries.release(agreement.asked.server_id, &agreement.asked.ephemeral);
    }

    /// What the key agreements of a PING lead to. Something is appended to `out` only if the answer is [`Ping::Answered`].
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
            (Proof::Cookie { .. }, Err(refusal)) => {
                self.tries.fail(id, &ephemeral);
                Err(refusal)
            }
            (Proof::Ticket(_), Err(refusal)) => {
                // How often one ticket may fail is limited by the second.
                self.tries.settle(id);
                Err(refusal)
            }
            (Proof::Cookie { until }, Ok(accepted)) => {
                self.tries.settle(id);
                // Another PING with this cookie, or too many with others, may have opened meanwhile.
                match self.used.look(now, id, &ephemeral) {
                    Seen::Never => self.used.mark(id, ephemeral, *until),
                    Seen::Repeated => return Ok(Ping::Repeated { server_id: id }),
                    Seen::Used => return Err(Refusal::Replayed),
                    Seen::Full => return Err(Refusal::Full),
                }
                Ok(Ping::New(accepted))
            }
            (Proof::Ticket(claim), Ok(accepted)) => {
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

    /// Others try this ticket. Its owner, who may be among them, had better begin with a cookie than wait until they stop; and what it said
    /// early comes once more then, so that no copy of its first PING may count afterwards.
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

    /// A ticket that does not count: SYN-ACK, as if PING were a SYN.
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
