//! Key derivation: HKDF-Expand with SHA-256 (RFC 5869 section 2.3), with labels `whimbrel ` ‖ name.

use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use rand::CryptoRng;
use zeroize::Zeroize;

/// Bytes of keying material exported at once, at most (RFC 5869 section 2.3).
pub const MOST_EXPORTED: usize = 255 * 32;

/// 32 secret bytes: a pre-shared key, or what other keys are derived from. Never printed, and wiped when they are let
/// go. They lie in a box, since each move would leave a copy behind.
#[cfg_attr(test, derive(PartialEq, Eq))]
pub struct Secret(Box<[u8; 32]>);

impl Secret {
    /// Takes 32 bytes that are already uniformly random (a Noise split key, an early secret). Wipe your copy.
    pub fn new(mut bytes: [u8; 32]) -> Self {
        let secret = Self::copied(&bytes);
        bytes.zeroize();
        secret
    }

    /// Copies 32 secret bytes.
    pub fn copied(bytes: &[u8; 32]) -> Self {
        let mut secret = Self::empty();
        secret.0.copy_from_slice(bytes);
        secret
    }

    /// Zeros, to be filled in place.
    fn empty() -> Self {
        Self(Box::new([0; 32]))
    }

    /// Generates a random secret.
    pub fn random(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Self::empty();
        rng.fill_bytes(secret.0.as_mut_slice());
        secret
    }

    /// The secret of the next generation of packet keys (docs/protocol.md section 2, label `ku`).
    pub(crate) fn next(&self) -> Self {
        self.derive("ku")
    }

    /// Derives another secret, distinguished by `label`.
    pub(crate) fn derive(&self, label: &str) -> Self {
        self.derive_with(label, &[])
    }

    /// Derives another secret, distinguished by `label` and `context`.
    pub(crate) fn derive_with(&self, label: &str, context: &[u8]) -> Self {
        // The result is filled in place, where it will be wiped.
        let mut derived = Self::empty();
        self.expand(label, context, derived.0.as_mut_slice());
        derived
    }

    /// Fills `out` (at most 64 bytes) from this secret, `label` and `context`.
    pub(crate) fn expand(&self, label: &str, context: &[u8], out: &mut [u8]) {
        debug_assert!(out.len() <= 64, "no key is longer");
        let info = [b"whimbrel ".as_slice(), label.as_bytes(), context];
        Prk::new_less_safe(HKDF_SHA256, self.0.as_slice())
            .expand(&info, OutputLength(out.len()))
            .and_then(|okm| okm.fill(out))
            .expect("lengths far below HKDF's limit of 8,160 bytes");
    }

    /// Fills `out`, which may be as long as HKDF allows ([`MOST_EXPORTED`]). False: it is longer.
    pub(crate) fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        let length = (label.len() as u64).to_be_bytes();
        let info = [b"whimbrel export ".as_slice(), &length, label, context];
        Prk::new_less_safe(HKDF_SHA256, self.0.as_slice())
            .expand(&info, OutputLength(out.len()))
            .and_then(|okm| okm.fill(out))
            .is_ok()
    }

    /// Returns the bytes, for a file. Wipe every copy.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Clone for Secret {
    fn clone(&self) -> Self {
        Self::copied(&self.0)
    }
}

impl From<Box<[u8; 32]>> for Secret {
    fn from(bytes: Box<[u8; 32]>) -> Self {
        Self(bytes)
    }
}

impl From<[u8; 32]> for Secret {
    fn from(bytes: [u8; 32]) -> Self {
        Self::new(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

struct OutputLength(usize);

impl KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_go_without_a_word() {
        assert!(std::mem::needs_drop::<Secret>(), "nobody wipes it");
    }
}
