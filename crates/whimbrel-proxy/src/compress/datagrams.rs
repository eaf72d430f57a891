//! Compression of datagrams, each by itself.

use bytes::Bytes;

use super::decoder::Decoder;
use super::dictionary::Dictionary;
use super::encoder::{Encoder, Failed};
use super::malformed::MalformedCompression;
use super::method::{Algorithm, Method};

/// The first bytes of every frame of Zstandard (RFC 8878 section 3.1.1). They are left out on the link.
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// Compresses datagrams and undoes it.
#[derive(Debug)]
pub struct DatagramCodec {
    method: Method,
    encoder: Encoder,
    decoder: Decoder,
}

impl DatagramCodec {
    /// Creates a codec, for one with the same method and dictionary.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(method: Method, dictionary: Option<&Dictionary>) -> Result<Self, Failed> {
        let (encoder, decoder) = (Encoder::new(method, dictionary)?, Decoder::new(method, dictionary)?);
        Ok(Self { method, encoder, decoder })
    }

    /// Returns the payload, compressed, if it shrinks.
    pub fn pack(&mut self, payload: &[u8]) -> Option<Bytes> {
        self.encoder.restart(self.method).ok()?;
        let mut packed = Vec::new();
        self.encoder.encode(payload, &mut packed).ok()?;
        if self.method.algorithm() == Algorithm::Zstd {
            packed = packed.strip_prefix(&MAGIC)?.to_vec();
        }
        Some(packed).filter(|packed| packed.len() < payload.len()).map(Bytes::from)
    }

    /// Undoes [`DatagramCodec::pack`].
    ///
    /// # Errors
    /// The bytes are malformed, or make more than `most`.
    pub fn unpack(&mut self, packed: &[u8], most: usize) -> Result<Bytes, MalformedCompression> {
        self.decoder.restart(self.method).map_err(|_| MalformedCompression)?;
        let mut room = vec![0; most + 1];
        if self.method.algorithm() == Algorithm::Zstd {
            self.decoder.decode(&MAGIC, &mut room)?;
        }
        let (taken, made) = self.decoder.decode(packed, &mut room)?;
        if taken < packed.len() || made > most {
            return Err(MalformedCompression);
        }
        Ok(Bytes::copy_from_slice(&room[..made]))
    }
}
