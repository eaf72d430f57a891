//! Identities: static X25519 keys (RFC 7748), and public keys in the form that people pass around.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use rand::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

use super::kdf::Secret;

/// A static key pair. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<StaticKey>);

pub(crate) struct StaticKey {
    pub(crate) private: PrivateKey,
    pub(crate) secret: Secret,
    pub(crate) public: PublicKey,
}

impl Identity {
    /// Creates an identity from 32 secret bytes, as kept in a key file. Wipe your copy: the identity wipes its own
    /// when dropped.
    pub fn from_secret(mut secret: [u8; 32]) -> Self {
        let private = PrivateKey::from_private_key(&X25519, &secret).expect("any 32 bytes are an X25519 key");
        let public = PublicKey(public_of(&private));
        let kept = Secret::copied(&secret);
        secret.zeroize();
        Self(Arc::new(StaticKey { private, secret: kept, public }))
    }

    /// Generates a new identity.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(secret.as_mut_slice());
        Self::from_secret(*secret)
    }

    /// Returns the 32 secret bytes, for a key file.
    pub fn secret(&self) -> &[u8; 32] {
        self.0.secret.bytes()
    }

    /// Returns the public key by which others know this identity.
    pub fn public(&self) -> PublicKey {
        self.0.public
    }

    /// Derives a secret of this identity for one purpose. It is the same after a restart.
    pub(crate) fn derive(&self, label: &str) -> Secret {
        self.0.secret.derive(label)
    }

    pub(crate) fn key(&self) -> &Arc<StaticKey> {
        &self.0
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public())
    }
}

/// The public half as 32 bytes.
pub(crate) fn public_of(private: &PrivateKey) -> [u8; 32] {
    let public = private.compute_public_key().expect("an X25519 key has a public half");
    let mut bytes = [0; 32];
    bytes.copy_from_slice(public.as_ref());
    bytes
}

/// A static public key for key agreements. It is written as 43 characters of base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key's length on the wire, in bytes.
    pub const LEN: usize = 32;

    /// Creates a key from its bytes. Points of low order (the all-zero key among them) are refused: agreements with
    /// them give everyone the same secret (RFC 7748 section 6.1). Non-canonical encodings are refused, because they
    /// would be second names of a key.
    pub fn new(bytes: [u8; 32]) -> Result<Self, InvalidKey> {
        if !is_canonical(&bytes) {
            return Err(InvalidKey::NotCanonical);
        }
        // A clamped private key is a multiple of 8, so exactly the points of low order lead to zero, which the
        // agreement refuses.
        let any = PrivateKey::from_private_key(&X25519, &[1; 32]).expect("any 32 bytes are an X25519 key");
        agree(&any, UnparsedPublicKey::new(&X25519, &bytes[..]), InvalidKey::LowOrder, |_| Ok(Self(bytes)))
    }

    /// Takes the key of a peer that has just proven that it holds the private half. An agreement succeeded, so the
    /// point is not of low order.
    pub(crate) fn proven(bytes: [u8; 32]) -> Result<Self, InvalidKey> {
        if is_canonical(&bytes) { Ok(Self(bytes)) } else { Err(InvalidKey::NotCanonical) }
    }

    /// Returns the key's 32 bytes, as on the wire.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Returns whether the value is below 2^255 - 19 with the top bit clear.
fn is_canonical(bytes: &[u8; 32]) -> bool {
    let [low, middle @ .., high] = bytes;
    *high < 0x7f || *high == 0x7f && (*low < 0xed || middle.iter().any(|byte| *byte != 0xff))
}

/// Why something is not a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The text is not 43 characters of base64url.
    #[error("a key is 43 characters of A to Z, a to z, 0 to 9, - and _")]
    Text,
    /// The key is a point of low order, with which all agreements give the same secret.
    #[error("the key is a weak one that gives no secrecy")]
    LowOrder,
    /// The bytes are a second, non-canonical encoding of a key.
    #[error("the key is not written in its one canonical form")]
    NotCanonical,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.chunks(3) {
            let mut bits = [0; 4];
            bits[1..=chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes(bits);
            for place in 0..=chunk.len() {
                let digit = bits >> (18 - 6 * place) & 0x3f;
                fmt::Write::write_char(f, char::from(ALPHABET[digit as usize]))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        if text.len() != 43 {
            return Err(InvalidKey::Text);
        }
        let mut bytes = [0; 32];
        let (mut bits, mut held, mut at) = (0u32, 0, 0);
        for byte in text.bytes() {
            let digit = ALPHABET.iter().position(|letter| *letter == byte).ok_or(InvalidKey::Text)?;
            bits = bits << 6 | digit as u32;
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes[at] = (bits >> held) as u8;
                at += 1;
                bits &= (1 << held) - 1;
            }
        }
        // 43 digits hold 258 bits. The last two must be zero, or one key would have four spellings.
        if bits != 0 {
            return Err(InvalidKey::Text);
        }
        Self::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn public_key_of_rfc_7748_section_6_1() {
        let secret = *b"\x77\x07\x6d\x0a\x73\x18\xa5\x7d\x3c\x16\xc1\x72\x51\xb2\x66\x45\xdf\x4c\x2f\x87\xeb\xc0\x99\x2a\xb1\x77\xfb\xa5\x1d\xb9\x2c\x2a";
        let identity = Identity::from_secret(secret);
        assert_eq!(identity.public().to_string(), "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo");
        assert_eq!(format!("{identity:?}"), "Identity(hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo)");
    }

    #[test]
    fn keys_without_secrecy_are_refused() {
        let mut point = [0; 32];
        assert_eq!(PublicKey::new(point), Err(InvalidKey::LowOrder));
        point[0] = 1;
        assert_eq!(PublicKey::new(point), Err(InvalidKey::LowOrder));
        point[31] = 0x80;
        assert_eq!(PublicKey::new(point), Err(InvalidKey::NotCanonical));
        let mut minus_one = [0xff; 32];
        (minus_one[0], minus_one[31]) = (0xec, 0x7f);
        assert_eq!(PublicKey::new(minus_one), Err(InvalidKey::LowOrder));
        minus_one[0] = 0xed;
        assert_eq!(PublicKey::new(minus_one), Err(InvalidKey::NotCanonical));
        let order_8 = *b"\xe0\xeb\x7a\x7c\x3b\x41\xb8\xae\x16\x56\xe3\xfa\xf1\x9f\xc4\x6a\xda\x09\x8d\xeb\x9c\x32\xb1\xfd\x86\x62\x05\x16\x5f\x49\xb8\x00";
        assert_eq!(PublicKey::new(order_8), Err(InvalidKey::LowOrder));
        assert_eq!("A".repeat(43).parse::<PublicKey>(), Err(InvalidKey::LowOrder));
    }

    #[test]
    fn text_round_trips_and_has_one_spelling() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
        for _ in 0..64 {
            let key = Identity::generate(&mut rng).public();
            let text = key.to_string();
            assert_eq!(text.len(), 43);
            assert_eq!(text.parse(), Ok(key));
            let last = ALPHABET
                .iter()
                .position(|letter| char::from(*letter) == text.chars().last().unwrap())
                .unwrap();
            let other = format!("{}{}", &text[..42], char::from(ALPHABET[last + 1]));
            assert_eq!(other.parse::<PublicKey>(), Err(InvalidKey::Text));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,50}") {
            let key: Result<PublicKey, _> = text.parse();
            prop_assert!(key.is_err() || text.len() == 43);
        }
    }
}
