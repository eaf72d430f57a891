//! Why no keying material can be exported.

use crate::crypto::MOST_EXPORTED;

/// Why no keying material can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The handshake is not over, so the peer may be anybody.
    #[error(
        "the peer is not authenticated yet: the client must wait until the connection is established, the server for the first message"
    )]
    NotProven,
    /// HKDF gives no more at once.
    #[error(
        "at most {MOST_EXPORTED} bytes can be exported at once: export less, or export several times with different labels"
    )]
    TooLong,
}
