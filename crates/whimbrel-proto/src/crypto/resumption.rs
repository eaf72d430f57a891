//! Proof of the right to attach a session to another connection: a secret that both ends share and that changes with
//! each use.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use super::kdf::Secret;

use crate::debug_only::debug_only;

/// A claim to a session: the session's id, how often it was attached, and its current secret. The secret is never
/// printed.
#[derive(Clone)]
pub struct Claim {
    /// The session's id.
    pub session: [u8; 16],
    /// The number of attachments so far, beyond the first.
    pub epoch: u64,
    secret: Secret,
}

debug_only!(Claim { session, epoch });

/// A claim as it is sent. Only its epoch is ever printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The session's id.
    pub session: [u8; 16],
    /// The epoch that begins with this handshake.
    pub epoch: u64,
    /// HMAC-SHA256 over handshake hash before message 1 ‖ session ‖ epoch, under a key derived from the secret.
    pub mac: [u8; 32],
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proof {{ epoch {} }}", self.epoch)
    }
}

impl Claim {
    /// Creates a claim from its parts.
    pub const fn new(session: [u8; 16], epoch: u64, secret: Secret) -> Self {
        Self { session, epoch, secret }
    }

    fn mac(&self, hash: &[u8; 32]) -> [u8; 32] {
        let key = Key::new(HMAC_SHA256, self.secret.derive("resume proof").bytes());
        let mut message = hash.to_vec();
        message.extend_from_slice(&self.session);
        message.extend_from_slice(&(self.epoch + 1).to_be_bytes());
        let mut mac = [0; 32];
        mac.copy_from_slice(sign(&key, &message).as_ref());
        mac
    }

    /// Makes the proof for the handshake with this hash before its first message.
    pub fn prove(&self, hash: &[u8; 32]) -> Proof {
        Proof { session: self.session, epoch: self.epoch + 1, mac: self.mac(hash) }
    }

    /// Returns whether `proof` was made with the same secret, in constant time.
    pub fn verify(&self, hash: &[u8; 32], proof: &Proof) -> bool {
        proof.session == self.session
            && proof.epoch == self.epoch + 1
            && verify_slices_are_equal(&self.mac(hash), &proof.mac).is_ok()
    }

    /// Returns the claim of the next epoch. It depends on `fresh`, a secret of the new connection, which a thief of the old
    /// claim does not have.
    #[must_use]
    pub fn next(&self, fresh: &Secret) -> Self {
        let secret = fresh.derive_with("ratchet", self.secret.bytes());
        Self { session: self.session, epoch: self.epoch + 1, secret }
    }

    pub(crate) const fn secret(&self) -> &Secret {
        &self.secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_handshake_one_epoch_and_one_secret() {
        let claim = Claim::new([1; 16], 4, Secret::new([2; 32]));
        let proof = claim.prove(&[3; 32]);
        assert!(claim.verify(&[3; 32], &proof));
        assert!(!claim.verify(&[4; 32], &proof));
        assert!(!Claim::new([1; 16], 5, Secret::new([2; 32])).verify(&[3; 32], &proof));
        assert!(!Claim::new([1; 16], 4, Secret::new([5; 32])).verify(&[3; 32], &proof));
        let next = claim.next(&Secret::new([6; 32]));
        assert_eq!(next.epoch, 5);
        assert!(!next.verify(&[3; 32], &Proof { epoch: 6, ..proof }));
    }
}
