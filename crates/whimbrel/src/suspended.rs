//! A suspended mocket as bytes, plain or sealed.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use whimbrel_proto::Suspended;
use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::SnapshotError;
use zeroize::Zeroizing;

use crate::endpoint::random_bytes;

/// A session that left its process: every message that was not acknowledged or not read, what order and duplicates are told by, credit,
/// settings and counters. [`crate::Endpoint::resume`] goes on with it, once.
///
/// Whoever has these bytes and the identity they were made with goes on as its owner, and reads what was not delivered: keep them as you
/// keep the key, or seal them.
#[derive(Clone, Debug)]
pub struct SuspendedMocket(pub(crate) Suspended);

/// Opening sealed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Not sealed, or by another version.
    #[error("these bytes are no sealed session of this version")]
    NotSealed,
    /// Another passphrase or key, or the bytes were changed.
    #[error("the sealed session does not open: the passphrase or key is another, or the bytes were changed")]
    DoesNotOpen,
    /// What was inside is no session.
    #[error(transparent)]
    State(#[from] SnapshotError),
    /// There is not enough memory for the passphrase's derivation.
    #[error("the passphrase cannot be turned into a key here: 64 MiB of memory are needed")]
    Derivation,
}

const MAGIC: [u8; 5] = *b"WSEA\x01";
const BY_PASSPHRASE: u8 = 1;
const BY_KEY: u8 = 2;
const SALT_LEN: usize = 16;
/// Magic, how, salt, nonce.
const HEAD_LEN: usize = MAGIC.len() + 1 + SALT_LEN + 12;
/// Argon2id as RFC 9106 section 4 recommends where memory is scarce: 64 MiB, three passes, four lanes.
const MEMORY_KIB: u32 = 65_536;
const PASSES: u32 = 3;
const LANES: u32 = 4;

impl SuspendedMocket {
    /// Versioned, with a checksum, and not sealed: wipe it when it is written.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// What [`SuspendedMocket::to_bytes`] wrote.
    ///
    /// # Errors
    /// Not such bytes, of another version, cut short, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Suspended::from_bytes(bytes).map(Self)
    }

    /// Sealed under a passphrase (Argon2id, 64 MiB and three passes; then ChaCha20-Poly1305). Takes some 100 ms.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn seal(&self, passphrase: &str) -> Result<Vec<u8>, SealError> {
        let salt = head_of_random();
        let key = derive(passphrase, &salt)?;
        Ok(self.seal_as(BY_PASSPHRASE, salt, &key))
    }

    /// Sealed under a random key of 32 bytes.
    pub fn seal_with_key(&self, key: &[u8; 32]) -> Vec<u8> {
        self.seal_as(BY_KEY, head_of_random(), key)
    }

    /// What [`SuspendedMocket::seal`] wrote.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn open(sealed: &[u8], passphrase: &str) -> Result<Self, SealError> {
        let salt = salt_of(sealed, BY_PASSPHRASE)?;
        let key = derive(passphrase, &salt)?;
        Self::open_as(sealed, &key)
    }

    /// What [`SuspendedMocket::seal_with_key`] wrote.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn open_with_key(sealed: &[u8], key: &[u8; 32]) -> Result<Self, SealError> {
        salt_of(sealed, BY_KEY)?;
        Self::open_as(sealed, key)
    }

    /// Whom the session is with.
    pub fn peer_key(&self) -> PublicKey {
        self.0.peer_key
    }

    /// Where the peer was.
    pub fn peer_addr(&self) -> std::net::SocketAddr {
        self.0.remote
    }

    /// For how long from suspension on the peer waits. None: it was out of reach and did not say; it finds out when the session comes
    /// back, if it has not given it up by then.
    pub fn peer_waits(&self) -> Option<std::time::Duration> {
        self.0.peer_waits
    }

    /// What [`SuspendedMocket::set_app_data`] left; empty if nothing.
    pub fn app_data(&self) -> &[u8] {
        &self.0.app_data
    }

    /// Keeps what the application itself has to remember with the session, for whoever resumes it: part of the bytes, and sealed with them.
    /// The peer does not see it. Default: nothing; it may be as long as what keeps the state has room for.
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
    // The key follows from what stands there.
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
