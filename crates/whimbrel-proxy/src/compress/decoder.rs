//! A context that undoes what an [`Encoder`](super::Encoder) did. What comes in is a peer's, so each call makes no more
//! bytes than it has room for, and windows are no larger than an encoder's.

use flate2::{Decompress, FlushDecompress, Status};
use liblzma::stream::{Action, Stream};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::dictionary::Dictionary;
use super::encoder::{Failed, WINDOW_LOG, xz_filters};
use super::malformed::MalformedCompression;
use super::method::{Algorithm, Method};

/// A context that undoes compression.
pub struct Decoder(DecoderContext);

enum DecoderContext {
    Zlib(Decompress),
    Xz(Stream),
    Zstd(DCtx<'static>),
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// Creates a new context, for an encoder with the same method and dictionary.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(method: Method, dictionary: Option<&Dictionary>) -> Result<Self, Failed> {
        Ok(Self(match method.algorithm() {
            Algorithm::Zlib => DecoderContext::Zlib(Decompress::new(false)),
            Algorithm::Xz => {
                DecoderContext::Xz(Stream::new_raw_decoder(&xz_filters(method.level())?).map_err(|_| Failed)?)
            }
            Algorithm::Zstd => {
                let mut context = DCtx::try_create().ok_or(Failed)?;
                context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(|_| Failed)?;
                if let Some(dictionary) = dictionary {
                    context.ref_ddict(dictionary.for_decoding().ok_or(Failed)?).map_err(|_| Failed)?;
                }
                DecoderContext::Zstd(context)
            }
        }))
    }

    /// Takes from the front of `bytes` and fills `room` from its front. Returns how many bytes it took and made. If `room`
    /// is not full afterwards, there is nothing more to be made of `bytes`, which were all taken.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub fn decode(&mut self, bytes: &[u8], room: &mut [u8]) -> Result<(usize, usize), MalformedCompression> {
        let (mut taken, mut made) = (0, 0);
        loop {
            let (took, gave) = self.step(&bytes[taken..], &mut room[made..])?;
            (taken, made) = (taken + took, made + gave);
            if made == room.len() || taken == bytes.len() {
                return Ok((taken, made));
            }
            if took == 0 && gave == 0 {
                return Err(MalformedCompression);
            }
        }
    }

    /// Begins anew, as with a new context.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn restart(&mut self, method: Method) -> Result<(), Failed> {
        match &mut self.0 {
            DecoderContext::Zlib(context) => context.reset(false),
            DecoderContext::Xz(_) => *self = Self::new(method, None)?,
            DecoderContext::Zstd(context) => {
                context.reset(ResetDirective::SessionOnly).map_err(|_| Failed)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, bytes: &[u8], room: &mut [u8]) -> Result<(usize, usize), MalformedCompression> {
        match &mut self.0 {
            DecoderContext::Zlib(context) => {
                let before = (context.total_in(), context.total_out());
                let status = context
                    .decompress(bytes, room, FlushDecompress::None)
                    .map_err(|_| MalformedCompression)?;
                // An encoder flushes and never ends.
                if status == Status::StreamEnd {
                    return Err(MalformedCompression);
                }
                Ok(((context.total_in() - before.0) as usize, (context.total_out() - before.1) as usize))
            }
            DecoderContext::Xz(context) => {
                let before = (context.total_in(), context.total_out());
                let status = context.process(bytes, room, Action::Run).map_err(|_| MalformedCompression)?;
                if status == liblzma::stream::Status::StreamEnd {
                    return Err(MalformedCompression);
                }
                Ok(((context.total_in() - before.0) as usize, (context.total_out() - before.1) as usize))
            }
            DecoderContext::Zstd(context) => {
                let mut input = InBuffer::around(bytes);
                let mut output = OutBuffer::around(room);
                context.decompress_stream(&mut output, &mut input).map_err(|_| MalformedCompression)?;
                Ok((input.pos, output.pos()))
            }
        }
    }
}
