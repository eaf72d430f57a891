//! A compressed flow that is taken apart.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::unpack::Position;
use crate::compress::{DictionaryId, Method};

/// The state that another process needs to go on with a compressed flow. Both of its contexts start over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub(crate) method: Method,
    pub(crate) dictionary: Option<DictionaryId>,
    /// Where the receiver is.
    pub(super) position: Position,
    /// Whether the direction to the peer has ended.
    pub(super) is_finished: bool,
    /// The bytes on the link so far: to the peer, and from it.
    pub(super) link: (u64, u64),
    /// The bytes that were read and are not decompressed. They travel by themselves.
    #[serde(skip)]
    pub input: Bytes,
    /// Pieces that are not written yet. They travel by themselves.
    #[serde(skip)]
    pub pieces: Bytes,
}
