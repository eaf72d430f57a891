//! The opening of a byte stream that the peer opened: it comes before the bytes, and is there when the stream is accepted.

use bytes::Bytes;

use crate::wire::Reader;
use crate::{Cause, PeerMisbehaved};

/// The longest opening, bytes.
pub const MAX_OPENING: usize = 1024;

const TOO_LONG: PeerMisbehaved =
    PeerMisbehaved::new(Cause::InvalidField, "a byte stream's opening is longer than 1,024 bytes");

/// The opening of one byte stream, as it comes.
#[derive(Debug, Default)]
pub(in crate::session) enum Opening {
    /// No block of the stream has said whether it has one.
    #[default]
    Unknown,
    /// It has none, or the application has it.
    None,
    /// It has one, and not all of it has come.
    Awaited,
    /// All of it has come.
    Here(Box<Bytes>),
}

impl Opening {
    /// The application may hear of the stream: it is known whether it has an opening, and that is there.
    pub(in crate::session) fn is_settled(&self) -> bool {
        matches!(self, Self::None | Self::Here(_))
    }

    /// There is one, and a part of it is missing.
    pub(in crate::session) fn is_awaited(&self) -> bool {
        matches!(self, Self::Awaited)
    }

    /// The memory it takes, bytes.
    pub(in crate::session) fn memory(&self) -> u64 {
        match self {
            Self::Here(bytes) => (size_of::<Bytes>() + bytes.len()) as u64,
            _ => 0,
        }
    }

    /// For the application, once.
    pub(in crate::session) fn take(&mut self) -> Option<Bytes> {
        match std::mem::replace(self, Self::None) {
            Self::Here(bytes) => Some(*bytes),
            before => {
                *self = before;
                None
            }
        }
    }

    /// Where the opening lies in `begun`, with which the stream begins. None: not all of it is there.
    pub(in crate::session) fn find(begun: &Bytes) -> Result<Option<std::ops::Range<usize>>, PeerMisbehaved> {
        let mut reader = Reader::new(begun.clone());
        let Ok(length) = reader.varint() else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_OPENING).ok_or(TOO_LONG)?;
        let from = begun.len() - reader.remaining();
        Ok((reader.remaining() >= length).then_some(from..from + length))
    }
}
