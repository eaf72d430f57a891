//! Stateless reset (docs/protocol.md section 1.3): how a restarted peer tells that it knows a connection no more.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use super::Identity;
use crate::ConnectionId;

/// Sixteen bytes at the end of a packet that only who issued the connection id can know.
#[derive(Clone, Copy)]
pub struct ResetToken([u8; 16]);

impl ResetToken {
    /// Length on the wire, bytes.
    pub const LEN: usize = 16;

    /// From the wire.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// As on the wire.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Does `packet` end with this token? Takes the same time whatever the answer.
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

/// Makes the tokens of ids issued here. Derived from the static key, so that it survives a restart.
pub struct ResetKey(Key);

impl ResetKey {
    /// The key of an identity.
    pub fn new(identity: &Identity) -> Self {
        Self(Key::new(HMAC_SHA256, identity.derive("reset").bytes()))
    }

    /// The token of `id`: HMAC-SHA256 truncated to 16 bytes.
    pub fn token(&self, id: ConnectionId) -> ResetToken {
        let tag = sign(&self.0, &id.to_bytes());
        let mut token = [0; 16];
        token.copy_from_slice(&tag.as_ref()[..16]);
        ResetToken(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_process_makes_the_same_tokens_and_another_identity_does_not() {
        let token = |secret, id| ResetKey::new(&Identity::from_secret([secret; 32])).token(ConnectionId(id));
        assert_eq!(token(1, 5), token(1, 5));
        assert_ne!(token(1, 5), token(1, 6));
        assert_ne!(token(1, 5), token(2, 5));
        let packet = [[9; 30].as_slice(), token(1, 5).as_bytes()].concat();
        assert!(token(1, 5).ends(&packet));
        assert!(!token(1, 5).ends(&packet[1..packet.len() - 1]));
        assert!(!token(1, 5).ends(&[1]));
    }
}
