//! A context that compresses: one for the whole of a flow's direction.

use flate2::{Compress, Compression, FlushCompress, Status};
use liblzma::stream::{Action, Filters, LzmaOptions, Status as XzStatus, Stream};
use zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::dictionary::Dictionary;
use super::method::{Algorithm, Method};

/// The logarithm of the window of Zstandard: 8 KiB. Two contexts then take 108 KiB instead of 1 MiB. Small records shrink
/// as much, and 256 KiB of them at once to 9 % instead of 8.
pub(super) const WINDOW_LOG: u32 = 13;
/// The logarithm of the size of its tables, which suits that window.
const TABLE_LOG: u32 = 11;
/// The window of LZMA2.
const XZ_WINDOW: u32 = 64 * 1024;
/// The least room for compressed bytes.
const LEAST_ROOM: usize = 256;

/// A context that compresses.
pub struct Encoder(EncoderContext);

enum EncoderContext {
    Zlib(Compress),
    Xz(Stream),
    Zstd(CCtx<'static>),
}

/// A library could not do what it always can, such as for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a compression context cannot be used")]
pub struct Failed;

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    /// Creates a new context. Only Zstandard uses the dictionary.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(method: Method, dictionary: Option<&Dictionary>) -> Result<Self, Failed> {
        Ok(Self(match method.algorithm() {
            Algorithm::Zlib => {
                EncoderContext::Zlib(Compress::new(Compression::new(method.level().into()), false))
            }
            Algorithm::Xz => {
                EncoderContext::Xz(Stream::new_raw_encoder(&xz_filters(method.level())?).map_err(|_| Failed)?)
            }
            Algorithm::Zstd => EncoderContext::Zstd(zstd(method.level(), dictionary)?),
        }))
    }

    /// Begins anew, as with a new context.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn restart(&mut self, method: Method) -> Result<(), Failed> {
        match &mut self.0 {
            EncoderContext::Zlib(context) => context.reset(),
            EncoderContext::Xz(_) => *self = Self::new(method, None)?,
            EncoderContext::Zstd(context) => {
                context.reset(ResetDirective::SessionOnly).map_err(|_| Failed)?;
            }
        }
        Ok(())
    }

    /// Appends the bytes, compressed, so that a decoder can make all of them from what was appended so far.
    ///
    /// # Errors
    /// The context cannot be used any more.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        match &mut self.0 {
            EncoderContext::Zlib(context) => encode_zlib(context, bytes, out),
            EncoderContext::Xz(context) => encode_xz(context, bytes, out),
            EncoderContext::Zstd(context) => encode_zstd(context, bytes, out),
        }
    }
}

/// The filters of LZMA2 at this level, for both ends.
pub(super) fn xz_filters(level: u8) -> Result<Filters, Failed> {
    let mut options = LzmaOptions::new_preset(level.into()).map_err(|_| Failed)?;
    options.dict_size(XZ_WINDOW);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    Ok(filters)
}

fn zstd(level: u8, dictionary: Option<&Dictionary>) -> Result<CCtx<'static>, Failed> {
    let mut context = CCtx::try_create().ok_or(Failed)?;
    for parameter in [
        CParameter::CompressionLevel(level.into()),
        CParameter::WindowLog(WINDOW_LOG),
        CParameter::HashLog(TABLE_LOG),
        CParameter::ChainLog(TABLE_LOG),
        // Both ends have compared the dictionary, and the transport has checksums.
        CParameter::DictIdFlag(false),
        CParameter::ChecksumFlag(false),
        CParameter::ContentSizeFlag(false),
    ] {
        context.set_parameter(parameter).map_err(|_| Failed)?;
    }
    if let Some(dictionary) = dictionary {
        // Prepared once for all, it would come with tables of a usual size.
        context.load_dictionary(dictionary.bytes()).map_err(|_| Failed)?;
    }
    Ok(context)
}

fn encode_zlib(context: &mut Compress, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
    out.reserve(bytes.len() / 4 + LEAST_ROOM);
    loop {
        let before = context.total_in();
        let status = context.compress_vec(bytes, out, FlushCompress::Sync).map_err(|_| Failed)?;
        bytes = bytes.get((context.total_in() - before) as usize..).ok_or(Failed)?;
        // Room that is left means that everything came out.
        if bytes.is_empty() && out.len() < out.capacity() {
            return Ok(());
        }
        if status == Status::StreamEnd {
            return Err(Failed);
        }
        out.reserve(bytes.len() / 4 + LEAST_ROOM);
    }
}

fn encode_xz(context: &mut Stream, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
    loop {
        out.reserve(bytes.len() / 4 + LEAST_ROOM);
        let before = context.total_in();
        let status = context.process_vec(bytes, out, Action::SyncFlush).map_err(|_| Failed)?;
        bytes = bytes.get((context.total_in() - before) as usize..).ok_or(Failed)?;
        if status == XzStatus::StreamEnd {
            return if bytes.is_empty() { Ok(()) } else { Err(Failed) };
        }
    }
}

fn encode_zstd(context: &mut CCtx<'static>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
    let mut input = InBuffer::around(bytes);
    loop {
        out.reserve(bytes.len() / 4 + LEAST_ROOM);
        let at = out.len();
        let mut output = OutBuffer::around_pos(out, at);
        let left = context.compress_stream2(&mut output, &mut input, ZSTD_e_flush).map_err(|_| Failed)?;
        if left == 0 && input.pos == bytes.len() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::train;
    use super::*;

    #[test]
    fn regression_the_copy_of_a_dictionary_is_counted() {
        let noise = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let record = |at: u64| {
            let words: Vec<_> = (0..30).map(|word| format!("{:x}", noise(at % 100 * 30 + word))).collect();
            words.join(" ").into_bytes()
        };
        let examples: Vec<_> = (0..8_000).map(record).collect();
        for size in [16 << 10, Dictionary::LARGEST] {
            let dictionary = Dictionary::new(&train(&examples, size).unwrap()).unwrap();
            let mut context = zstd(3, Some(&dictionary)).unwrap();
            encode_zstd(&mut context, &record(1), &mut Vec::new()).unwrap();
            let counted = "zstd:3".parse::<Method>().unwrap().memory(dictionary.bytes().len());
            let takes = context.sizeof();
            assert!(
                takes > dictionary.bytes().len() && takes <= counted,
                "{takes} bytes, and {counted} are counted"
            );
        }
    }
}
