//! The compression of a TCP flow, from the wish for it to the stream that is compressed.

use std::sync::Arc;

use super::means::CompressionMeans;
use super::record::FlowRecord;
use crate::compress::{Dictionary, Method, Share};
use crate::flow::Channel;
use crate::flow::compressed::{Compressed, Paused};
use crate::protocol::{Agreement, Compression};

/// The compression that a flow is to have, with the memory for it.
#[derive(Debug)]
pub(super) struct Wish {
    method: Method,
    dictionary: Option<Dictionary>,
    share: Share,
}

impl Wish {
    /// Grants as much of the wish as this end can. `None`: there are too many contexts.
    pub(super) fn new(asked: Compression, means: &CompressionMeans) -> Option<Self> {
        let (dictionary, share) = means.take(asked.method, asked.dictionary)?;
        Some(Self { method: asked.method, dictionary, share })
    }

    /// Returns the far end's answer if it can have this much of the wish.
    pub(super) fn agreement(&self, asked: Compression) -> Agreement {
        match asked.dictionary {
            Some(_) if self.dictionary.is_none() => Agreement::WithoutDictionary,
            _ => Agreement::Compressed,
        }
    }

    /// Narrows the wish to what the far end has agreed to.
    pub(super) fn agreed(self, agreement: Agreement) -> Option<Self> {
        match agreement {
            Agreement::Plain => None,
            Agreement::Compressed => Some(self),
            Agreement::WithoutDictionary => Some(Self { dictionary: None, ..self }),
        }
    }

    /// The compression of a flow that goes on here. `None`: its dictionary is not there any more, or there are too many
    /// contexts.
    pub(super) fn again(paused: &Paused, means: &CompressionMeans) -> Option<Self> {
        let (dictionary, share) = means.take_all(paused.method, paused.dictionary)?;
        Some(Self { method: paused.method, dictionary, share })
    }

    /// Goes on with what was paused.
    pub(super) fn resume<C: Channel>(self, channel: C, paused: Paused, record: &FlowRecord) -> Compressed<C> {
        let Self { method, dictionary, share } = self;
        let compressed = Compressed::resume(channel, paused, dictionary, Some(share));
        record.compressed(method, Arc::clone(compressed.link()));
        compressed
    }

    /// Compresses what goes over this channel. `plain` bytes of the peer come in front.
    pub(super) fn around<C: Channel>(self, channel: C, plain: u32, record: &FlowRecord) -> Compressed<C> {
        let Self { method, dictionary, share } = self;
        let compressed = Compressed::new(channel, method, dictionary, plain as usize, Some(share));
        record.compressed(method, Arc::clone(compressed.link()));
        compressed
    }
}
