//! Noise (revision 34) by `snow`, on AWS-LC's X25519 and ChaCha20-Poly1305. This gives several times as many
//! handshakes a second as snow's own cryptography, and prepares the static key once, not for each handshake.
//!
//! All randomness is passed in: 32 bytes for the one ephemeral key of a handshake.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::crypto::{Identity, PublicKey, Secret, StaticKey, public_of};

/// The length of message 1 without its payload: ephemeral key, sealed static key, tag.
pub(super) const MESSAGE_1_OVERHEAD: usize = 32 + 32 + 16 + 16;
/// The length of message 2 without its payload: ephemeral key, tag.
pub(super) const MESSAGE_2_OVERHEAD: usize = 32 + 16;

/// The Noise pattern, with or without a pre-shared key, parsed once.
#[derive(Clone)]
pub(super) struct Pattern {
    params: NoiseParams,
    psk: Option<Secret>,
}

impl Pattern {
    pub(super) fn new(psk: Option<Secret>) -> Self {
        let name = match psk {
            None => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
            Some(_) => "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s",
        };
        Self { params: name.parse().expect("a name that snow knows"), psk }
    }

    pub(super) const fn has_psk(&self) -> bool {
        self.psk.is_some()
    }

    /// Builds the client's side. `ephemeral` is 32 random bytes used nowhere else.
    pub(super) fn initiator(
        &self,
        identity: &Identity,
        server: &PublicKey,
        prologue: &[u8; 32],
        ephemeral: [u8; 32],
    ) -> Result<Noise, Error> {
        let builder = self.builder(identity, prologue, ephemeral)?.remote_public_key(server.as_bytes())?;
        self.begin(builder.build_initiator()?)
    }

    /// Builds the server's side. `ephemeral` is 32 random bytes used nowhere else.
    pub(super) fn responder(
        &self,
        identity: &Identity,
        prologue: &[u8; 32],
        ephemeral: [u8; 32],
    ) -> Result<Noise, Error> {
        self.begin(self.builder(identity, prologue, ephemeral)?.build_responder()?)
    }

    fn begin(&self, state: HandshakeState) -> Result<Noise, Error> {
        let mut noise = Noise(Box::new(state));
        if let Some(psk) = &self.psk {
            noise.set_psk(PSK_PLACE.into(), psk.bytes())?;
        }
        Ok(noise)
    }

    fn builder<'a>(
        &'a self,
        identity: &'a Identity,
        prologue: &'a [u8; 32],
        ephemeral: [u8; 32],
    ) -> Result<Builder<'a>, Error> {
        let ephemeral = Zeroizing::new(ephemeral);
        let resolver = Resolver { identity: Arc::clone(identity.key()), ephemeral };
        Builder::with_resolver(self.params.clone(), Box::new(resolver))
            .local_private_key(identity.secret())?
            .prologue(prologue)
    }
}

/// The place of the pre-shared key in `psk2`.
const PSK_PLACE: u8 = 2;

/// A handshake in progress. Snow does not wipe its copy of the pre-shared key, so this does when it is dropped. It lies
/// in a box and gets the key there, since each move of the state would leave a copy behind.
pub(super) struct Noise(Box<HandshakeState>);

impl Deref for Noise {
    type Target = HandshakeState;

    fn deref(&self) -> &HandshakeState {
        &self.0
    }
}

impl DerefMut for Noise {
    fn deref_mut(&mut self) -> &mut HandshakeState {
        &mut self.0
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.0.set_psk(PSK_PLACE.into(), &[0; 32]).ok();
        // Without a reader the compiler could leave the write out.
        std::hint::black_box(&self.0);
    }
}

/// The two secrets that a handshake ends with: of the client's packets, then of the server's. No copy remains.
pub(super) fn split(noise: &mut HandshakeState) -> (Secret, Secret) {
    let (mut client, mut server) = noise.dangerously_get_raw_split();
    let secrets = (Secret::copied(&client), Secret::copied(&server));
    client.zeroize();
    server.zeroize();
    secrets
}

struct Resolver {
    identity: Arc<StaticKey>,
    ephemeral: Zeroizing<[u8; 32]>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Once(Some(self.ephemeral.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        let key = Key::Static(Arc::clone(&self.identity));
        (*choice == DHChoice::Curve25519)
            .then(|| Box::new(X25519Dh { own: Arc::clone(&self.identity), key }) as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        (*choice == CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly(None)) as _)
    }
}

/// Gives its bytes once: a second ephemeral key from them would equal the first.
struct Once(Option<Zeroizing<[u8; 32]>>);

impl Random for Once {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Error> {
        let bytes = self.0.take().filter(|bytes| bytes.len() == out.len()).ok_or(Error::Rng)?;
        out.copy_from_slice(bytes.as_slice());
        Ok(())
    }
}

/// snow makes two of these for a handshake: it calls `set` with the static key on one, and `generate` on the other.
struct X25519Dh {
    own: Arc<StaticKey>,
    key: Key,
}

enum Key {
    Static(Arc<StaticKey>),
    Ephemeral { private: PrivateKey, public: [u8; 32] },
}

impl Dh for X25519Dh {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    /// Only one private key is ever set, and it is already prepared.
    fn set(&mut self, private: &[u8]) {
        debug_assert!(private == self.own.secret.bytes(), "somebody else's key");
        self.key = Key::Static(Arc::clone(&self.own));
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rng.try_fill_bytes(secret.as_mut_slice())?;
        let private = PrivateKey::from_private_key(&X25519, secret.as_slice()).map_err(|_| Error::Dh)?;
        let public = public_of(&private);
        self.key = Key::Ephemeral { private, public };
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        match &self.key {
            Key::Static(key) => key.public.as_bytes(),
            Key::Ephemeral { public, .. } => public,
        }
    }

    /// Used only by snow's key generation, which is not called.
    fn privkey(&self) -> &[u8] {
        &[]
    }

    /// Fails on points of low order: AWS-LC refuses an all-zero result.
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let private = match &self.key {
            Key::Static(key) => &key.private,
            Key::Ephemeral { private, .. } => private,
        };
        let public = public.get(..32).ok_or(Error::Dh)?;
        agree(private, UnparsedPublicKey::new(&X25519, public), Error::Dh, |shared| {
            out.get_mut(..shared.len()).ok_or(Error::Dh)?.copy_from_slice(shared);
            Ok(())
        })
    }
}

struct ChaChaPoly(Option<LessSafeKey>);

impl ChaChaPoly {
    fn key(&self) -> &LessSafeKey {
        self.0.as_ref().expect("snow sets the key before it uses it")
    }
}

/// The nonce: four zero bytes, then the counter, little-endian (Noise section 12.3).
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; 32]) {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the cipher's length");
        self.0 = Some(LessSafeKey::new(key));
    }

    fn encrypt(&self, counter: u64, head: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (body, tag) = out.split_at_mut(plaintext.len());
        body.copy_from_slice(plaintext);
        let made = self.key().seal_in_place_separate_tag(nonce(counter), Aad::from(head), body);
        tag[..16].copy_from_slice(made.expect("a message is short").as_ref());
        plaintext.len() + 16
    }

    fn decrypt(&self, counter: u64, head: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (body, tag) = ciphertext.split_last_chunk::<16>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..body.len()).ok_or(Error::Decrypt)?;
        self.key()
            .open_separate_gather(nonce(counter), Aad::from(head), body, tag, out)
            .map_err(|_| Error::Decrypt)?;
        Ok(out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// snow's own cryptography, except for its random numbers.
    struct Snows;

    impl CryptoResolver for Snows {
        fn resolve_rng(&self) -> Option<Box<dyn Random>> {
            Some(Box::new(Once(Some(Zeroizing::new([5; 32])))))
        }

        fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
            DefaultResolver.resolve_dh(choice)
        }

        fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
            DefaultResolver.resolve_hash(choice)
        }

        fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
            DefaultResolver.resolve_cipher(choice)
        }
    }

    /// The other end uses snow's own cryptography.
    #[test]
    fn agrees_with_snow_and_the_raw_split_matches() {
        let (client, server) = (Identity::from_secret([1; 32]), Identity::from_secret([2; 32]));
        for psk in [None, Some([7; 32])] {
            let pattern = Pattern::new(psk.map(Secret::new));
            let mut ours = pattern.initiator(&client, &server.public(), &[3; 32], [4; 32]).unwrap();
            let builder = Builder::with_resolver(pattern.params.clone(), Box::new(Snows))
                .local_private_key(server.secret())
                .and_then(|builder| builder.prologue(&[3; 32]))
                .unwrap();
            let builder = match &psk {
                Some(psk) => builder.psk(2, psk).unwrap(),
                None => builder,
            };
            let mut theirs = builder.build_responder().unwrap();
            let (mut message, mut payload) = ([0; 200], [0; 200]);
            let length = ours.write_message(b"one", &mut message).unwrap();
            assert_eq!(length, MESSAGE_1_OVERHEAD + 3);
            assert_eq!(theirs.read_message(&message[..length], &mut payload), Ok(3));
            let length = theirs.write_message(b"four", &mut message).unwrap();
            assert_eq!(length, MESSAGE_2_OVERHEAD + 4);
            assert_eq!(ours.read_message(&message[..length], &mut payload), Ok(4));
            assert_eq!(ours.dangerously_get_raw_split(), theirs.dangerously_get_raw_split());
            assert_eq!(ours.get_handshake_hash(), theirs.get_handshake_hash());
        }
    }
}
