//! Tickets, which let a returning client send PING without a SYN first (docs/protocol.md section 2).
//!
//! A ticket is `server's id (8) · sealed: good until (8), client's key (32), rate (8), round trip (8) · tag (16)`, 80
//! bytes. The id is the server's id for the next connection. PING is addressed to it and so reaches the core that
//! issued the ticket. It is also the nonce and the entry in the register of used tickets.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, UnboundKey};
use rand::CryptoRng;
use zeroize::Zeroizing;

use super::cookie::nonce;
use super::identity::PublicKey;
use super::register::{Register, Seen};
use crate::debug_only::debug_only;
use crate::time::nanos;
use crate::{ConnectionId, Time};

const PLAIN_LEN: usize = 8 + 32 + 8 + 8;

/// The measurements of a path that are remembered for a quick start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMemory {
    /// The rate that it carried, in bytes a second.
    pub rate: u64,
    /// The path's smallest round trip.
    pub rtt: Duration,
}

/// Why a ticket is not accepted. The client is then asked to begin with a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The ticket was issued by another process, or it is damaged.
    #[error("the ticket is not ours")]
    Invalid,
    /// The ticket has expired.
    #[error("the ticket has expired")]
    Stale,
    /// The ticket was issued to another key.
    #[error("the ticket is somebody else's")]
    NotYours,
    /// The owner's key was revoked after the ticket was issued.
    #[error("the ticket was revoked")]
    Revoked,
    /// The ticket was used before; it is good for one connection.
    #[error("the ticket was used before")]
    Used,
    /// Too many messages that came with the ticket were not from its owner.
    #[error("the ticket was tried too often")]
    Tried,
    /// There is no room to remember that the ticket is used.
    #[error("too many tickets were used lately")]
    Full,
}

/// The contents of a ticket, before its bearer has proven to be its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketClaim {
    pub(crate) server_id: ConnectionId,
    pub(crate) repeated: bool,
    pub(crate) memory: PathMemory,
    until: Time,
    owner: [u8; 32],
}

/// Issues and redeems tickets. Each core has its own, with a key that no other process has.
pub struct TicketJar {
    key: LessSafeKey,
    used: Register,
    life: Duration,
    /// Tickets issued until then are void, because a ticket was declined then for want of room. Its bearer connected
    /// without it, so a copy of its PING must not be accepted once there is room again. Tickets issued later cannot
    /// have been declined.
    void_until: Option<Time>,
    /// Times until which the tickets of single owners are void, because their keys were revoked. An entry is
    /// forgotten when the last of the owner's tickets has expired.
    void_of: BTreeMap<PublicKey, Time>,
}

debug_only!(TicketJar { life });

impl TicketJar {
    /// The length of a ticket, in bytes.
    pub const TICKET_LEN: usize = 8 + PLAIN_LEN + 16;

    /// Creates a jar whose tickets live for `life` and that remembers at most `bound` used ones, about 100 bytes
    /// each. While it is full, no ticket is redeemed, and tickets issued before then stay void.
    pub fn new(life: Duration, bound: usize, rng: &mut impl CryptoRng) -> Self {
        let mut key = Zeroizing::new([0; 16]);
        rng.fill_bytes(key.as_mut_slice());
        let key = LessSafeKey::new(
            UnboundKey::new(&AES_128_GCM, key.as_slice()).expect("the key has the cipher's length"),
        );
        Self { key, used: Register::new(bound), life, void_until: None, void_of: BTreeMap::new() }
    }

    /// The id to which PING with this ticket is addressed.
    pub(crate) fn server_id(ticket: &[u8]) -> Option<ConnectionId> {
        ticket.first_chunk().copied().map(ConnectionId::from_bytes)
    }

    /// How long a ticket is valid.
    pub const fn life(&self) -> Duration {
        self.life
    }

    /// Returns the register of used tickets.
    pub const fn used(&self) -> &Register {
        &self.used
    }

    /// Voids all tickets issued to `owner` so far.
    pub(crate) fn void_of(&mut self, now: Time, owner: &PublicKey) {
        let life = self.life;
        self.void_of.retain(|_, void| *void + life >= now);
        self.void_of.insert(*owner, now);
    }

    /// Voids all tickets issued so far.
    pub(crate) fn void(&mut self, now: Time) {
        self.void_until = Some(now);
    }

    fn is_void_of(&self, owner: &PublicKey, until: Time) -> bool {
        self.void_of.get(owner).is_some_and(|void| until <= *void + self.life)
    }

    /// Issues a ticket for `owner`. `server_id` is fresh from this core's [`super::CidGenerator`] and used for
    /// nothing else.
    pub fn issue(
        &self,
        now: Time,
        server_id: ConnectionId,
        owner: &PublicKey,
        memory: PathMemory,
    ) -> [u8; Self::TICKET_LEN] {
        let mut ticket = [0; Self::TICKET_LEN];
        let (id, sealed) = ticket.split_at_mut(8);
        let (plain, tag) = sealed.split_at_mut(PLAIN_LEN);
        id.copy_from_slice(&server_id.to_bytes());
        plain[..8].copy_from_slice(&(now + self.life).as_nanos().to_be_bytes());
        plain[8..40].copy_from_slice(owner.as_bytes());
        plain[40..48].copy_from_slice(&memory.rate.to_be_bytes());
        plain[48..].copy_from_slice(&nanos(memory.rtt).to_be_bytes());
        let made = self.key.seal_in_place_separate_tag(nonce(server_id), Aad::empty(), plain);
        tag.copy_from_slice(made.expect("a ticket is short").as_ref());
        ticket
    }

    /// Reads a ticket that came with a message of this Noise ephemeral, without using it up.
    pub(crate) fn look(
        &mut self,
        now: Time,
        ticket: &[u8],
        ephemeral: &[u8; 32],
    ) -> Result<TicketClaim, TicketError> {
        let mut ticket: [u8; Self::TICKET_LEN] = ticket.try_into().map_err(|_| TicketError::Invalid)?;
        let (id, sealed) = ticket.split_first_chunk_mut::<8>().ok_or(TicketError::Invalid)?;
        let server_id = ConnectionId::from_bytes(*id);
        let opened = self.key.open_in_place(nonce(server_id), Aad::empty(), sealed);
        let plain: &[u8] = opened.map_err(|_| TicketError::Invalid)?;
        let (until, rest) = plain.split_first_chunk().ok_or(TicketError::Invalid)?;
        let (owner, rest) = rest.split_first_chunk().ok_or(TicketError::Invalid)?;
        let (rate, rest) = rest.split_first_chunk().ok_or(TicketError::Invalid)?;
        let rtt = rest.first_chunk().ok_or(TicketError::Invalid)?;
        let until = Time::from_nanos(u64::from_be_bytes(*until));
        if now > until {
            return Err(TicketError::Stale);
        }
        let repeated = self.seen(now, server_id, ephemeral, until)? == Seen::Repeated;
        let memory = PathMemory {
            rate: u64::from_be_bytes(*rate),
            rtt: Duration::from_nanos(u64::from_be_bytes(*rtt)),
        };
        Ok(TicketClaim { server_id, repeated, memory, until, owner: *owner })
    }

    /// Uses up a ticket once its bearer has proven to hold the key `bearer`. Another PING may have used it since
    /// [`Self::look`]; returns [`Seen::Repeated`] if that was the same message.
    pub(crate) fn redeem(
        &mut self,
        now: Time,
        claim: &TicketClaim,
        ephemeral: [u8; 32],
        bearer: &PublicKey,
    ) -> Result<Seen, TicketError> {
        if claim.owner != *bearer.as_bytes() {
            return Err(TicketError::NotYours);
        }
        // Checked again here: the key may have been revoked while its proof was checked.
        if self.is_void_of(bearer, claim.until) {
            return Err(TicketError::Revoked);
        }
        match self.seen(now, claim.server_id, &ephemeral, claim.until)? {
            Seen::Never => self.used.mark(claim.server_id, ephemeral, claim.until),
            seen => return Ok(seen),
        }
        Ok(Seen::Never)
    }

    /// Voids a ticket that was read but not used.
    pub(crate) fn withdraw(&mut self, claim: &TicketClaim) {
        self.used.withdraw(claim.server_id, claim.until);
    }

    /// Returns [`Seen::Never`] or [`Seen::Repeated`], or an error if the ticket is not to be used.
    fn seen(
        &mut self,
        now: Time,
        id: ConnectionId,
        ephemeral: &[u8; 32],
        until: Time,
    ) -> Result<Seen, TicketError> {
        match self.used.look(now, id, ephemeral) {
            Seen::Repeated => Ok(Seen::Repeated),
            Seen::Used => Err(TicketError::Used),
            Seen::Never if self.void_until.is_none_or(|void| until > void + self.life) => Ok(Seen::Never),
            Seen::Never => Err(TicketError::Full),
            Seen::Full => {
                self.void_until = Some(now);
                Err(TicketError::Full)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_ticket_is_good_once_for_its_owner_in_its_time() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(6);
        let mut jar = TicketJar::new(Duration::from_secs(60), 1, &mut rng);
        let (owner, other) = (PublicKey::proven([5; 32]).unwrap(), PublicKey::proven([6; 32]).unwrap());
        let memory = PathMemory { rate: 500_000, rtt: Duration::from_millis(40) };
        let now = Time::ZERO + Duration::from_secs(9);
        let ticket = jar.issue(now, ConnectionId(3), &owner, memory);
        let claim = jar.look(now, &ticket, &[1; 32]).unwrap();
        assert_eq!((claim.server_id, claim.repeated, claim.memory), (ConnectionId(3), false, memory));
        assert_eq!(jar.redeem(now, &claim, [1; 32], &other), Err(TicketError::NotYours));
        assert_eq!(jar.redeem(now, &claim, [1; 32], &owner), Ok(Seen::Never));
        assert_eq!(jar.redeem(now, &claim, [1; 32], &owner), Ok(Seen::Repeated));
        assert_eq!(jar.redeem(now, &claim, [2; 32], &owner), Err(TicketError::Used));
        assert!(jar.look(now, &ticket, &[1; 32]).unwrap().repeated);
        assert_eq!(jar.look(now, &ticket, &[2; 32]), Err(TicketError::Used));
        let second = jar.issue(now, ConnectionId(4), &owner, memory);
        assert_eq!(jar.look(now, &second, &[3; 32]), Err(TicketError::Full));
        assert_eq!(jar.look(now + Duration::from_secs(61), &second, &[3; 32]), Err(TicketError::Stale));
        for at in 0..ticket.len() {
            let mut copy = second;
            copy[at] ^= 1;
            assert_eq!(jar.look(now, &copy, &[3; 32]), Err(TicketError::Invalid));
        }
        let third = jar.issue(now + Duration::from_secs(70), ConnectionId(5), &owner, memory);
        let later = now + Duration::from_secs(80);
        jar.void_of(later, &other);
        let claim = jar.look(later, &third, &[4; 32]).unwrap();
        jar.void_of(later, &owner);
        assert_eq!(jar.redeem(later, &claim, [4; 32], &owner), Err(TicketError::Revoked));
        let fourth = jar.issue(later + Duration::from_nanos(1), ConnectionId(6), &owner, memory);
        let claim = jar.look(later + Duration::from_nanos(1), &fourth, &[4; 32]).unwrap();
        let redeemed = jar.redeem(later, &claim, [4; 32], &owner);
        assert_eq!(redeemed, Ok(Seen::Never), "it is the key's again");
        let mut restarted = TicketJar::new(Duration::from_secs(60), 1, &mut rng);
        assert_eq!(restarted.look(now, &second, &[3; 32]), Err(TicketError::Invalid));
    }
}
