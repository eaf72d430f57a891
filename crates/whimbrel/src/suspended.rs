//! A suspended session as bytes, plain or sealed.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use whimbrel_proto::Suspended;
use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::SnapshotError;
use zeroize::Zeroizing;

use crate::identity::random_bytes;

/// A session that was suspended: all messages not acknowledged or not read, the state that keeps order and detects
/// duplicates, credit, settings and counters. [`Endpoint::resume`](crate::Endpoint::resume) continues it, once.
///
/// Anyone who has these bytes and the identity key they were made with can continue the session in the owner's place,
/// and can read what was not delivered. Protect them like the key, or seal them.
#[derive(Clone, Debug)]
pub struct SuspendedMocket(pub(crate) Suspended);

/// An error from opening sealed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The bytes are not sealed, were sealed by another version, or were sealed the other way (by passphrase or by
    /// key).
    #[error(
        "these bytes are not a sealed session of this version: pass the bytes that `seal` returned, to the version that sealed them"
    )]
    NotSealed,
    /// The passphrase or key is wrong, or the bytes were changed.
    #[error(
        "cannot open the sealed session: use the passphrase or key it was sealed with, and an unmodified copy"
    )]
    DoesNotOpen,
    /// The sealed content is no session.
    #[error(transparent)]
    State(#[from] SnapshotError),
    /// There is not enough memory to derive the key from the passphrase.
    #[error(
        "cannot derive a key from the passphrase: it takes 64 MiB of memory, so free some, or seal with a key"
    )]
    Derivation,
}

const MAGIC: [u8; 5] = *b"WSEA\x01";
const BY_PASSPHRASE: u8 = 1;
const BY_KEY: u8 = 2;
const SALT_LEN: usize = 16;
/// Magic bytes, kind of key, salt, and nonce.
const HEAD_LEN: usize = MAGIC.len() + 1 + SALT_LEN + 12;
/// Argon2id with the parameters that RFC 9106 section 4 recommends if memory is scarce: 64 MiB, three passes, four
/// lanes.
const MEMORY_KIB: u32 = 65_536;
const PASSES: u32 = 3;
const LANES: u32 = 4;

impl SuspendedMocket {
    /// Returns the session as bytes, with a version and a checksum. They are not sealed: wipe them from memory once
    /// they are written.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// Reads what [`SuspendedMocket::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are no suspended session, are of another version, cut short, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Suspended::from_bytes(bytes).map(Self)
    }

    /// Returns the session sealed under a passphrase: Argon2id (64 MiB, three passes) derives the key for
    /// ChaCha20-Poly1305. Takes about 100 ms.
    ///
    /// # Errors
    /// [`SealError::Derivation`]: there is not enough memory.
    pub fn seal(&self, passphrase: &str) -> Result<Vec<u8>, SealError> {
        let salt = head_of_random();
        let key = derive(passphrase, &salt)?;
        Ok(self.seal_as(BY_PASSPHRASE, salt, &key))
    }

    /// Returns the session sealed under a random key of 32 bytes, with ChaCha20-Poly1305.
    pub fn seal_with_key(&self, key: &[u8; 32]) -> Vec<u8> {
        self.seal_as(BY_KEY, head_of_random(), key)
    }

    /// Opens what [`SuspendedMocket::seal`] wrote.
    ///
    /// # Errors
    /// [`SealError`]: the bytes do not open, hold no session, or there is not enough memory.
    pub fn open(sealed: &[u8], passphrase: &str) -> Result<Self, SealError> {
        let salt = salt_of(sealed, BY_PASSPHRASE)?;
        let key = derive(passphrase, &salt)?;
        Self::open_as(sealed, &key)
    }

    /// Opens what [`SuspendedMocket::seal_with_key`] wrote.
    ///
    /// # Errors
    /// [`SealError`]: the bytes do not open, or hold no session.
    pub fn open_with_key(sealed: &[u8], key: &[u8; 32]) -> Result<Self, SealError> {
        salt_of(sealed, BY_KEY)?;
        Self::open_as(sealed, key)
    }

    /// Returns the public key of the session's peer.
    pub fn peer_key(&self) -> PublicKey {
        self.0.peer_key
    }

    /// Returns the peer's last known address.
    pub fn peer_addr(&self) -> std::net::SocketAddr {
        self.0.remote
    }

    /// Returns for how long the peer waits for the session, counted from the suspension. None: the peer was
    /// unreachable and did not say. It learns of the suspension when the session is resumed, unless it has given up
    /// by then.
    pub fn peer_waits(&self) -> Option<std::time::Duration> {
        self.0.peer_waits
    }

    /// Returns the data that [`SuspendedMocket::set_app_data`] stored. Empty if there is none.
    pub fn app_data(&self) -> &[u8] {
        &self.0.app_data
    }

    /// Stores data of the application's own with the session, for the process that resumes it. The data is part of
    /// the bytes and is sealed with them. The peer does not see it. Its length is limited only by the storage for
    /// the state. Default: empty.
    pub fn set_app_data(&mut self, data: impl Into<Bytes>) {
        self.0.app_data = data.into();
    }

    fn seal_as(&self, how: u8, salt: [u8; SALT_LEN], key: &[u8; 32]) -> Vec<u8> {
        let mut sealed = MAGIC.to_vec();
        sealed.push(how);
        sealed.extend_from_slice(&salt);
        let nonce: [u8; 12] = head_of_random();
        sealed.extend_from_slice(&nonce);
        let mut body = Zeroizing::new(self.to_bytes());
        #[allow(clippy::expect_used, reason = "fails for 256 GiB and more")]
        let tag = cipher(key)
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(&sealed[..HEAD_LEN]),
                body.as_mut_slice(),
            )
            .expect("a session fits");
        sealed.extend_from_slice(&body);
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    fn open_as(sealed: &[u8], key: &[u8; 32]) -> Result<Self, SealError> {
        let (head, body) = sealed.split_at_checked(HEAD_LEN).ok_or(SealError::NotSealed)?;
        let nonce: [u8; 12] = head.last_chunk().copied().ok_or(SealError::NotSealed)?;
        let mut body = Zeroizing::new(body.to_vec());
        let plain = cipher(key)
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(head), &mut body)
            .map_err(|_| SealError::DoesNotOpen)?;
        Ok(Self::from_bytes(plain)?)
    }
}

fn head_of_random<const N: usize>() -> [u8; N] {
    let mut head = [0; N];
    head.copy_from_slice(&random_bytes()[..N]);
    head
}

fn salt_of(sealed: &[u8], how: u8) -> Result<[u8; SALT_LEN], SealError> {
    let rest = sealed.strip_prefix(&MAGIC).and_then(|rest| rest.strip_prefix(&[how]));
    rest.and_then(|rest| rest.first_chunk()).copied().ok_or(SealError::NotSealed)
}

fn derive(passphrase: &str, salt: &[u8; SALT_LEN]) -> Result<Zeroizing<[u8; 32]>, SealError> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(32)).map_err(|_| SealError::Derivation)?;
    let mut key = Zeroizing::new([0; 32]);
    let mut blocks = Vec::new();
    blocks.try_reserve_exact(params.block_count()).map_err(|_| SealError::Derivation)?;
    blocks.resize(params.block_count(), Block::default());
    // The key can be derived from these blocks, so they are wiped, too.
    let mut blocks = Zeroizing::new(blocks);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(
            passphrase.as_bytes(),
            salt,
            key.as_mut_slice(),
            blocks.as_mut_slice(),
        )
        .map_err(|_| SealError::Derivation)?;
    Ok(key)
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    #[allow(clippy::expect_used, reason = "the length is the cipher's")]
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of 32 bytes");
    LessSafeKey::new(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_passphrase_gives_the_key_that_other_versions_derived() {
        // Computed by the reference implementation (argon2-cffi): states sealed by another version have to open.
        let expected = "577f1ff37e9a3e52c97d39f8e83891c1b73b0e87ffe0429cee8ede2fb005fe44";
        let salt = std::array::from_fn(|at| at as u8);
        let key = derive("correct horse", &salt).unwrap();
        let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, expected);
    }
}
