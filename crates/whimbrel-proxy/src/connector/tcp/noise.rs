//! The handshake of a link over TCP, and its sealed records: Noise IK (revision 34) by the keys that are the identities of
//! both ends, with the pre-shared key if there is one.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use snow::{Builder, HandshakeState, StatelessTransportState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use whimbrel::{Identity, PublicKey, Secret};

use crate::protocol::PROTOCOL;

/// The prologue to which the handshake is bound, so that no other use of the keys fits it.
const PROLOGUE: &[u8] = b"whimbrel tcp connector 1";
/// The most bytes that a record seals. A reader waits for a whole record, so it is short.
pub(super) const RECORD: usize = 4 * 1024;
/// The bytes that sealing adds.
const TAG: usize = 16;
/// The longest message of the handshake.
const LONGEST: usize = 256;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A stranger, or somebody with another key.
    #[error("the other end has not proven its key")]
    Noise(#[from] snow::Error),
    #[error("the other end is not allowed to connect")]
    NotAdmitted,
    #[error("the other end speaks another protocol")]
    OtherProtocol,
}

/// The keys that this end proves, and asks for.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) identity: Identity,
    pub(crate) psk: Option<Secret>,
}

/// Seals what is sent.
#[derive(Debug)]
pub(super) struct Sealer {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

/// Opens what is received.
#[derive(Debug)]
pub(super) struct Opener {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

impl Keys {
    fn begin(&self, peer: Option<&PublicKey>) -> Result<HandshakeState, snow::Error> {
        // With the pre-shared key in the first message, who lacks it is refused by that.
        let name = match self.psk {
            None => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
            Some(_) => "Noise_IKpsk1_25519_ChaChaPoly_BLAKE2s",
        };
        let builder = Builder::new(name.parse()?).local_private_key(self.identity.secret())?;
        let mut builder = builder.prologue(PROLOGUE)?;
        if let Some(psk) = &self.psk {
            builder = builder.psk(1, psk.bytes())?;
        }
        match peer {
            Some(peer) => builder.remote_public_key(peer.as_bytes())?.build_initiator(),
            None => builder.build_responder(),
        }
    }

    /// Shakes hands with a peer that was connected to.
    pub(super) async fn dial(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        peer: &PublicKey,
    ) -> Result<(Sealer, Opener), HandshakeError> {
        let mut state = self.begin(Some(peer))?;
        write(stream, &mut state, PROTOCOL.as_bytes()).await?;
        read(stream, &mut state).await?;
        split(state)
    }

    /// Shakes hands with somebody who has connected. Who cannot prove a key that is `admitted` gets no answer. The link
    /// stands when the first record was opened: a first message can be repeated by anybody who has seen it.
    pub(super) async fn accept(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        admitted: impl Fn(&PublicKey) -> bool,
    ) -> Result<(PublicKey, Sealer, Opener), HandshakeError> {
        let mut state = self.begin(None)?;
        let protocol = read(stream, &mut state).await?;
        let key = state.get_remote_static().and_then(|key| PublicKey::new(key.try_into().ok()?).ok());
        let key = key.filter(admitted).ok_or(HandshakeError::NotAdmitted)?;
        if protocol != PROTOCOL.as_bytes() {
            return Err(HandshakeError::OtherProtocol);
        }
        write(stream, &mut state, &[]).await?;
        let (sealer, opener) = split(state)?;
        Ok((key, sealer, opener))
    }
}

fn split(state: HandshakeState) -> Result<(Sealer, Opener), HandshakeError> {
    let keys = Arc::new(state.into_stateless_transport_mode()?);
    Ok((Sealer { keys: Arc::clone(&keys), next: 0 }, Opener { keys, next: 0 }))
}

async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    state: &mut HandshakeState,
    payload: &[u8],
) -> Result<(), HandshakeError> {
    let mut message = [0; 2 + LONGEST];
    let length = state.write_message(payload, &mut message[2..])?;
    message[..2].copy_from_slice(&(length as u16).to_be_bytes());
    Ok(stream.write_all(&message[..2 + length]).await?)
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    state: &mut HandshakeState,
) -> Result<Vec<u8>, HandshakeError> {
    let mut message = [0; LONGEST];
    let length = usize::from(stream.read_u16().await?);
    let message = message.get_mut(..length).ok_or(HandshakeError::OtherProtocol)?;
    stream.read_exact(message).await?;
    let mut payload = vec![0; LONGEST];
    let length = state.read_message(message, &mut payload)?;
    payload.truncate(length);
    Ok(payload)
}

impl Sealer {
    /// Appends records that seal these bytes.
    pub(super) fn seal(&mut self, bytes: &[u8], into: &mut BytesMut) -> Result<(), snow::Error> {
        for record in bytes.chunks(RECORD) {
            let length = record.len() + TAG;
            into.extend_from_slice(&(length as u16).to_be_bytes());
            let at = into.len();
            into.resize(at + length, 0);
            self.keys.write_message(self.next, record, &mut into[at..])?;
            self.next += 1;
        }
        Ok(())
    }
}

impl Opener {
    /// Opens the whole records that stand in front, and takes them away. Their bytes are appended to `into`.
    pub(super) fn open(&mut self, records: &mut BytesMut, into: &mut BytesMut) -> Result<(), snow::Error> {
        use bytes::Buf;

        while let Some((length, rest)) = records.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if !(TAG + 1..=TAG + RECORD).contains(&length) {
                return Err(snow::Error::Decrypt);
            }
            let Some(sealed) = rest.get(..length) else { break };
            let at = into.len();
            into.resize(at + length - TAG, 0);
            self.keys.read_message(self.next, sealed, &mut into[at..])?;
            self.next += 1;
            records.advance(2 + length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use whimbrel::new_identity;

    use super::*;

    fn keys(psk: Option<u8>) -> Keys {
        Keys { identity: new_identity(), psk: psk.map(|byte| Secret::new([byte; 32])) }
    }

    /// Shakes hands, with the key that the dialler expects.
    async fn shake(
        near: &Keys,
        far: &Keys,
        expected: PublicKey,
        admitted: PublicKey,
    ) -> (Result<(Sealer, Opener), HandshakeError>, Result<(PublicKey, Sealer, Opener), HandshakeError>) {
        let (mut one, mut other) = tokio::io::duplex(1_000);
        let near = async {
            let shaken = near.dial(&mut one, &expected).await;
            drop(one);
            shaken
        };
        let far = async {
            let shaken = far.accept(&mut other, |key| *key == admitted).await;
            drop(other);
            shaken
        };
        tokio::join!(near, far)
    }

    #[tokio::test]
    async fn both_ends_prove_their_keys_and_seal_what_follows() {
        for psk in [None, Some(7)] {
            let (near, far) = (keys(psk), keys(psk));
            let (one, other) = shake(&near, &far, far.identity.public(), near.identity.public()).await;
            let ((mut sealer, _), (key, _, mut opener)) = (one.unwrap(), other.unwrap());
            assert_eq!(key, near.identity.public());
            let (mut sealed, mut opened) = (BytesMut::new(), BytesMut::new());
            let said: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
            sealer.seal(&said, &mut sealed).unwrap();
            assert!(!sealed.windows(16).any(|bytes| bytes == &said[..16]));
            // They may come in any pieces.
            let mut come = BytesMut::new();
            for piece in sealed.chunks(777) {
                come.extend_from_slice(piece);
                opener.open(&mut come, &mut opened).unwrap();
            }
            assert!(opened == said && come.is_empty());
            // One that comes again, or was altered, is refused.
            assert!(opener.open(&mut sealed.clone(), &mut opened).is_err());
        }
    }

    #[tokio::test]
    async fn strangers_and_impostors_get_no_link() {
        let (near, far, other) = (keys(None), keys(None), keys(None));
        let (dialled, accepted) = shake(&near, &far, other.identity.public(), near.identity.public()).await;
        assert!(matches!(accepted, Err(HandshakeError::Noise(_))), "it meant somebody else");
        assert!(matches!(dialled, Err(HandshakeError::Io(_))), "and got no answer");
        let (dialled, accepted) = shake(&near, &far, far.identity.public(), other.identity.public()).await;
        assert!(matches!(
            (dialled, accepted),
            (Err(HandshakeError::Io(_)), Err(HandshakeError::NotAdmitted))
        ));
        for (one, two) in [(Some(7), None), (None, Some(7)), (Some(7), Some(8))] {
            let (near, far) = (keys(one), keys(two));
            let (dialled, accepted) = shake(&near, &far, far.identity.public(), near.identity.public()).await;
            assert!(dialled.is_err() && accepted.is_err(), "pre-shared keys {one:?} and {two:?}");
        }
    }
}
