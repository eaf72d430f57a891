//! The codecs for datagrams of a session: few, and shared by all its contexts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::compress::{DatagramCodec, DictionaryId, MalformedCompression, Method, Share};
use crate::protocol::Compression;
use crate::relay::means::CompressionMeans;

/// The most codecs of a session. Datagrams that would need another are not compressed.
const MOST_CODECS: usize = 8;

type CodecKey = (Method, Option<DictionaryId>);

/// The codecs of a session.
#[derive(Debug)]
pub(crate) struct Codecs {
    means: CompressionMeans,
    all: Mutex<HashMap<CodecKey, (DatagramCodec, Share)>>,
}

impl Codecs {
    pub(crate) fn new(means: CompressionMeans) -> Self {
        Self { means, all: Mutex::default() }
    }

    /// Returns whether this compression can be had here: the method is known, the dictionary is there, and there are not
    /// too many contexts.
    pub(super) fn has(&self, wanted: Compression) -> bool {
        self.with(wanted, |_| ()).is_some()
    }

    fn with<T>(&self, wanted: Compression, work: impl FnOnce(&mut DatagramCodec) -> T) -> Option<T> {
        let key = (wanted.method, wanted.dictionary);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&key) {
            if all.len() >= MOST_CODECS {
                return None;
            }
            all.insert(key, self.make(key)?);
        }
        all.get_mut(&key).map(|(codec, _)| work(codec))
    }

    fn make(&self, (method, id): CodecKey) -> Option<(DatagramCodec, Share)> {
        let (dictionary, share) = self.means.take_all(method, id)?;
        Some((DatagramCodec::new(method, dictionary.as_ref()).ok()?, share))
    }

    /// Returns a payload, compressed, if it shrinks and this can be had here.
    pub(super) fn pack(&self, by: Compression, payload: &[u8]) -> Option<Bytes> {
        self.with(by, |codec| codec.pack(payload))?
    }

    /// Undoes that.
    pub(super) fn unpack(
        &self,
        by: Compression,
        packed: &[u8],
        most: usize,
    ) -> Result<Bytes, MalformedCompression> {
        self.with(by, |codec| codec.unpack(packed, most)).ok_or(MalformedCompression)?
    }
}
