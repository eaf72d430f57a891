//! Keys of sealed packets, each for one direction and generation (docs/protocol.md sections 1.1 and 2).
//!
//! This is the hot path: nothing here allocates once a key exists.

use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::aead::Aead;
use super::kdf::Secret;
use crate::debug_only::debug_only;
use crate::wire::packet::{SAMPLE_LEN, TAG_LEN};
use crate::{ConnectionId, PathId};

/// The 12 bytes that the path id and packet number are combined with.
#[derive(Clone, Copy)]
struct Iv([u8; 12]);

impl Iv {
    fn new(secret: &Secret) -> Self {
        let mut iv = [0; 12];
        secret.expand("iv", &[], &mut iv);
        Self(iv)
    }

    /// Returns IV xor (path id, 32 bits, ‖ packet number, 64 bits).
    #[inline]
    fn nonce(&self, path: PathId, number: u64) -> Nonce {
        let [a, b, c, d, rest @ ..] = self.0;
        let head = u32::from_be_bytes([a, b, c, d]) ^ path.0;
        let tail = u64::from_be_bytes(rest) ^ number;
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&head.to_be_bytes());
        nonce[4..].copy_from_slice(&tail.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

fn packet_key(aead: Aead, secret: &Secret) -> LessSafeKey {
    let mut key = Zeroizing::new([0; 32]);
    let key = &mut key[..aead.key_len()];
    secret.expand("key", &[], key);
    LessSafeKey::new(UnboundKey::new(aead.algorithm(), key).expect("the key has the cipher's length"))
}

/// Seals outgoing packets.
pub struct SealKey {
    key: LessSafeKey,
    iv: Iv,
}

debug_only!(SealKey {});

impl SealKey {
    /// Derives the key from `secret` by labels `key` and `iv`.
    pub fn new(aead: Aead, secret: &Secret) -> Self {
        Self { key: packet_key(aead, secret), iv: Iv::new(secret) }
    }

    /// Encrypts `buf` in place and returns the tag that follows it. `aad` is the unmasked header. The caller must
    /// never repeat a `number` on a `path` under one key.
    #[inline]
    pub fn seal(&self, path: PathId, number: u64, aad: &[u8], buf: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = self.iv.nonce(path, number);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(aad), buf)
            .expect("a packet is below 64 GiB");
        let mut bytes = [0; TAG_LEN];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }
}

/// Opens incoming packets.
pub struct OpenKey {
    key: LessSafeKey,
    iv: Iv,
}

debug_only!(OpenKey {});

impl OpenKey {
    /// Derives the key from `secret` by labels `key` and `iv`.
    pub fn new(aead: Aead, secret: &Secret) -> Self {
        Self { key: packet_key(aead, secret), iv: Iv::new(secret) }
    }

    /// Decrypts in place what [`SealKey::seal`] made, with the tag at the end, and returns the length of the
    /// plaintext at the front. Returns `None` if it was forged, damaged or sealed under another key; the buffer then
    /// holds garbage.
    #[inline]
    pub fn open(
        &self,
        path: PathId,
        number: u64,
        aad: &[u8],
        ciphertext_and_tag: &mut [u8],
    ) -> Option<usize> {
        let nonce = self.iv.nonce(path, number);
        let plaintext = self.key.open_in_place(nonce, Aad::from(aad), ciphertext_and_tag).ok()?;
        Some(plaintext.len())
    }
}

/// Masks flags and packet numbers (RFC 9001 section 5.4). It stays the same over all generations of a direction.
pub struct HeaderKey(HeaderProtectionKey);

debug_only!(HeaderKey {});

impl HeaderKey {
    /// Derives the key from `secret` by label `hp`.
    pub fn new(aead: Aead, secret: &Secret) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..aead.key_len()];
        secret.expand("hp", &[], key);
        let key = HeaderProtectionKey::new(aead.header_algorithm(), key);
        Self(key.expect("the key has the cipher's length"))
    }

    /// Returns the mask for `sample`. Its first byte is for the flags
    /// ([`PROTECTED_BITS`](crate::wire::packet::PROTECTED_BITS)), the rest for the packet number.
    #[inline]
    pub fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 5] {
        self.0.new_mask(sample).expect("a sample has the right length by its type")
    }
}

/// Returns a key log line by which a dissector can open packets to `id`: `WHIMBREL_TRAFFIC <id> <aead> <key> <iv>
/// <hp>`, all but the AEAD's number in hexadecimal.
///
/// An id names a path, so the path is already mixed into the line's IV, and the nonce is IV xor packet number.
/// `generation` is the secret of the key that seals. `first` is the secret of generation 0, from which header keys
/// are derived.
pub fn key_log_line(
    id: ConnectionId,
    path: PathId,
    aead: Aead,
    generation: &Secret,
    first: &Secret,
) -> String {
    let (mut key, mut hp) = ([0; 32], [0; 32]);
    let (key, hp) = (&mut key[..aead.key_len()], &mut hp[..aead.key_len()]);
    generation.expand("key", &[], key);
    first.expand("hp", &[], hp);
    let iv = Iv::new(generation).nonce(path, 0);
    format!("WHIMBREL_TRAFFIC {id:?} {} {} {} {}", aead.code(), hex(key), hex(iv.as_ref()), hex(hp))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(aead: Aead) -> (SealKey, OpenKey) {
        let secret = Secret::new([7; 32]);
        (SealKey::new(aead, &secret), OpenKey::new(aead, &secret))
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens(
            path: u32, number in 0u64..1 << 62, head: [u8; 11], mut body in prop::collection::vec(any::<u8>(), 0..64),
            chacha: bool,
        ) {
            let (seal, open) = pair(if chacha { Aead::ChaCha20Poly1305 } else { Aead::Aes128Gcm });
            let plain = body.clone();
            let tag = seal.seal(PathId(path), number, &head, &mut body);
            body.extend_from_slice(&tag);
            let length = open.open(PathId(path), number, &head, &mut body);
            prop_assert_eq!(length, Some(plain.len()));
            prop_assert_eq!(&body[..plain.len()], &plain[..]);
        }
    }

    #[test]
    fn path_number_head_and_every_byte_are_authenticated() {
        for aead in [Aead::Aes128Gcm, Aead::ChaCha20Poly1305] {
            let (seal, open) = pair(aead);
            let mut body = b"payload".to_vec();
            let tag = seal.seal(PathId(2), 9, b"head", &mut body);
            body.extend_from_slice(&tag);
            assert_eq!(open.open(PathId(3), 9, b"head", &mut body.clone()), None);
            assert_eq!(open.open(PathId(2), 8, b"head", &mut body.clone()), None);
            assert_eq!(open.open(PathId(2), 9, b"heap", &mut body.clone()), None);
            assert_eq!(open.open(PathId(2), 9, b"head", &mut []), None);
            for at in 0..body.len() {
                let mut copy = body.clone();
                copy[at] ^= 0x80;
                assert_eq!(open.open(PathId(2), 9, b"head", &mut copy), None);
            }
            assert_eq!(open.open(PathId(2), 9, b"head", &mut body), Some(7));
        }
    }
}
