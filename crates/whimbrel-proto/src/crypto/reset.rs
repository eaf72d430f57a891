//! Stateless reset (docs/protocol.md section 1.3): how a restarted peer says that it no longer knows a connection.
//!
//! The key of the tokens is derived from the identity and from a salt of the instance, because several processes may
//! share an identity. With the identity alone, any of them would answer a packet for a sibling's id with that
//! sibling's token. Anyone could then end the sibling's connections.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use rand::CryptoRng;

use super::identity::Identity;
use crate::ConnectionId;
use crate::debug_only::debug_only;
use crate::wire::packet::{CLEAR_BIT, MIN_SEALED};

/// The longest stateless reset in bytes: enough to look like a packet.
const LONGEST: usize = 42;

/// Sixteen bytes at the end of a packet that only the issuer of the connection id can know.
#[derive(Clone, Copy)]
pub struct ResetToken([u8; 16]);

impl ResetToken {
    /// The token's length on the wire, in bytes.
    pub const LEN: usize = 16;

    /// Creates a token from its bytes on the wire.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the token's bytes, as on the wire.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns whether `packet` ends with this token, in constant time.
    pub fn ends(&self, packet: &[u8]) -> bool {
        packet.last_chunk::<16>().is_some_and(|last| Self(*last) == *self)
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for ResetToken {}

impl std::fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetToken")
    }
}

/// Makes the tokens of ids issued here. The tokens survive a restart if the salt does.
#[derive(Clone)]
pub struct ResetKey(Key);

debug_only!(ResetKey {});

impl ResetKey {
    /// Creates the key of one instance of an identity. Instances that run at the same time must have different salts.
    pub fn new(identity: &Identity, salt: &[u8; 32]) -> Self {
        let key = identity.derive("reset").derive_with("instance", salt);
        Self(Key::new(HMAC_SHA256, key.bytes()))
    }

    /// Returns the token of `id`: HMAC-SHA256 truncated to 16 bytes.
    pub fn token(&self, id: ConnectionId) -> ResetToken {
        let tag = sign(&self.0, &id.to_bytes());
        let mut token = [0; 16];
        token.copy_from_slice(&tag.as_ref()[..16]);
        ResetToken(token)
    }

    /// Appends the answer to a packet of `asked_len` bytes for an unknown `id`. Returns `None` and appends nothing if
    /// that packet is too short. A reset is always shorter than the packet it answers, so two ends cannot keep each
    /// other busy.
    pub fn write(
        &self,
        id: ConnectionId,
        asked_len: usize,
        rng: &mut impl CryptoRng,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let length = asked_len.min(LONGEST + 1).checked_sub(1).filter(|length| *length >= MIN_SEALED)?;
        let start = out.len();
        out.resize(start + length, 0);
        let packet = &mut out[start..];
        let (random, token) = packet.split_at_mut(length - ResetToken::LEN);
        rng.fill_bytes(random);
        random[0] &= !CLEAR_BIT;
        token.copy_from_slice(self.token(id).as_bytes());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn an_instance_makes_the_same_tokens_after_a_restart_and_no_other_does() {
        let of = |secret, salt, id| {
            ResetKey::new(&Identity::from_secret([secret; 32]), &[salt; 32]).token(ConnectionId(id))
        };
        let token = |secret, id| of(secret, 7, id);
        assert_ne!(of(1, 7, 5), of(1, 8, 5), "another process of the same identity");
        assert_eq!(token(1, 5), token(1, 5));
        assert_ne!(token(1, 5), token(1, 6));
        assert_ne!(token(1, 5), token(2, 5));
        let packet = [[9; 30].as_slice(), token(1, 5).as_bytes()].concat();
        assert!(token(1, 5).ends(&packet));
        assert!(!token(1, 5).ends(&packet[1..packet.len() - 1]));
        assert!(!token(1, 5).ends(&[1]));
    }

    #[test]
    fn a_reset_is_shorter_than_what_it_answers() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(2);
        let key = ResetKey::new(&Identity::from_secret([1; 32]), &[7; 32]);
        for asked in 0..1500 {
            let mut out = Vec::new();
            let answered = key.write(ConnectionId(5), asked, &mut rng, &mut out);
            assert_eq!(answered.is_some(), asked > MIN_SEALED);
            assert_eq!(out.len(), if answered.is_some() { (asked - 1).min(LONGEST) } else { 0 });
            assert!(answered.is_none() || key.token(ConnectionId(5)).ends(&out) && out[0] & CLEAR_BIT == 0);
        }
    }
}
