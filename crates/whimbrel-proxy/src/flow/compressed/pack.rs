//! One direction of a compressed flow, at its sender: bytes of a program become pieces.

use bytes::Bytes;

use super::judge::Judge;
use super::piece::{Kind, LONGEST, header};
use crate::compress::{Algorithm, Dictionary, Encoder, Method};

/// The most bytes of a program that are compressed into one piece.
const MOST: usize = 32 * 1024;
/// The same for Zstandard, whose contexts then touch less memory.
const MOST_ZSTD: usize = 4 * 1024;

/// The sender's side of a direction.
#[derive(Debug)]
pub(super) struct Packer {
    method: Method,
    dictionary: Option<Dictionary>,
    /// The context, while compressing is of use.
    encoder: Option<Encoder>,
    judge: Judge,
}

impl Packer {
    pub(super) fn new(method: Method, dictionary: Option<Dictionary>) -> Self {
        Self { method, dictionary, encoder: None, judge: Judge::New }
    }

    pub(super) fn method(&self) -> Method {
        self.method
    }

    pub(super) fn dictionary(&self) -> Option<&Dictionary> {
        self.dictionary.as_ref()
    }

    /// Makes pieces of bytes from the front. Returns how many bytes, and the pieces' bytes. The receiver can make all of
    /// the former from the latter.
    pub(super) fn pack(&mut self, bytes: &Bytes) -> (usize, Vec<Bytes>) {
        if self.judge.tries(bytes) {
            let most = if self.method.algorithm() == Algorithm::Zstd { MOST_ZSTD } else { MOST };
            let next = &bytes[..bytes.len().min(most)];
            if let Some(piece) = self.compress(next) {
                return (next.len(), vec![piece]);
            }
            self.judge.on_failed();
        }
        let next = bytes.slice(..bytes.len().min(LONGEST));
        let kind = if self.encoder.take().is_some() { Kind::Last } else { Kind::Plain };
        self.judge.on_passed(next.len());
        (next.len(), vec![header(kind, next.len()).into(), next])
    }

    /// Ends the context: the next one is new. Returns a piece that says so.
    pub(super) fn end_context(&mut self) -> Bytes {
        self.encoder = None;
        header(Kind::Last, 0).into()
    }

    /// Returns a piece, if a context can be used.
    fn compress(&mut self, next: &[u8]) -> Option<Bytes> {
        let is_fresh = self.encoder.is_none();
        if is_fresh {
            self.encoder = Some(Encoder::new(self.method, self.dictionary.as_ref()).ok()?);
        }
        let mut body = Vec::new();
        self.encoder.as_mut()?.encode(next, &mut body).ok()?;
        if body.len() > LONGEST {
            return None;
        }
        let mut piece = header(if is_fresh { Kind::Fresh } else { Kind::Packed }, body.len());
        self.judge.on_packed(next.len(), body.len() + piece.len());
        piece.extend_from_slice(&body);
        Some(piece.into())
    }
}
