//! The opening of a byte stream that the peer opened. It precedes the stream's other bytes and is available when the
//! stream is accepted.

use bytes::Bytes;

use crate::wire::Reader;
use crate::{Cause, PeerMisbehaved};

/// The longest opening, bytes.
pub const MAX_OPENING: usize = 1024;

const TOO_LONG: PeerMisbehaved =
    PeerMisbehaved::new(Cause::InvalidField, "a byte stream's opening is longer than 1,024 bytes");

/// The state of a byte stream's opening on the receiving side.
#[derive(Debug, Default)]
pub(in crate::session) enum StreamOpening {
    /// No block of the stream has told yet whether it has an opening.
    #[default]
    Unknown,
    /// The stream has no opening, or the application has taken it.
    None,
    /// The stream has an opening, and part of it is missing.
    Awaited,
    /// The opening is complete.
    Here(Box<Bytes>),
}

impl StreamOpening {
    /// Returns whether the application may hear of the stream: it has no opening, or the opening is complete.
    pub(in crate::session) fn is_settled(&self) -> bool {
        matches!(self, Self::None | Self::Here(_))
    }

    /// Returns whether there is an opening of which a part is missing.
    pub(in crate::session) fn is_awaited(&self) -> bool {
        matches!(self, Self::Awaited)
    }

    /// Returns the memory it takes, bytes.
    pub(in crate::session) fn memory(&self) -> u64 {
        match self {
            Self::Here(bytes) => (size_of::<Bytes>() + bytes.len()) as u64,
            _ => 0,
        }
    }

    /// Returns the opening once, for the application.
    pub(in crate::session) fn take(&mut self) -> Option<Bytes> {
        match std::mem::replace(self, Self::None) {
            Self::Here(bytes) => Some(*bytes),
            before => {
                *self = before;
                None
            }
        }
    }

    /// Returns where the opening lies in `begun`, the first bytes of the stream. None: it is not complete.
    pub(in crate::session) fn find(begun: &Bytes) -> Result<Option<std::ops::Range<usize>>, PeerMisbehaved> {
        let mut reader = Reader::new(begun.clone());
        let Ok(length) = reader.varint() else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_OPENING).ok_or(TOO_LONG)?;
        let from = begun.len() - reader.remaining();
        Ok((reader.remaining() >= length).then_some(from..from + length))
    }
}
