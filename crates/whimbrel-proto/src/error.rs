//! Why a connection ends, and whose fault it is.

use crate::wire::Malformed;

/// Error causes carried by ERROR inside RST. 1 to 10 are MMSP's (thesis Table 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum Cause {
    /// Closed by the application; its own code travels beside.
    Application = 0,
    /// DATA for a stream that cannot exist.
    WrongStream = 1,
    /// An address of a family the peer cannot use.
    UnresolvedAddress = 2,
    /// An unknown block below 128.
    UnrecognizedBlock = 3,
    /// A field outside its domain, or a malformed block.
    InvalidField = 4,
    /// A mandatory field or parameter is missing.
    MissingField = 5,
    /// A field that is not understood and must be.
    UnrecognizedField = 6,
    /// DATA without data.
    NoData = 7,
    /// PING without its cookie or handshake message.
    NoInfo = 8,
    /// The cookie is stale or invalid.
    StaleInfo = 9,
    /// Anything else.
    Unrecognized = 10,
    /// More data than was granted.
    Credit = 11,
    /// More streams than were granted.
    StreamLimit = 12,
    /// A message longer than the receiver takes.
    MessageTooLarge = 13,
    /// A message contradicts what was said of it before.
    Inconsistent = 14,
    /// An acknowledgement of what was never sent.
    AckOfUnsent = 15,
    /// A limit on what a peer may make grow.
    LimitExceeded = 16,
    /// The AEAD's limit of forgeries or of packets under one key.
    AeadLimit = 17,
    /// No common version.
    Version = 18,
    /// The application protocol is not served here.
    Protocol = 19,
    /// The key is not on the allow list, or the listener refused.
    Refused = 20,
    /// The endpoint shuts down.
    Shutdown = 21,
    /// Something of ours failed.
    Internal = 22,
}

impl Cause {
    /// From the wire; an unknown number is [`Cause::Unrecognized`].
    pub fn from_code(code: u64) -> Self {
        const ALL: [Cause; 23] = [
            Cause::Application,
            Cause::WrongStream,
            Cause::UnresolvedAddress,
            Cause::UnrecognizedBlock,
            Cause::InvalidField,
            Cause::MissingField,
            Cause::UnrecognizedField,
            Cause::NoData,
            Cause::NoInfo,
            Cause::StaleInfo,
            Cause::Unrecognized,
            Cause::Credit,
            Cause::StreamLimit,
            Cause::MessageTooLarge,
            Cause::Inconsistent,
            Cause::AckOfUnsent,
            Cause::LimitExceeded,
            Cause::AeadLimit,
            Cause::Version,
            Cause::Protocol,
            Cause::Refused,
            Cause::Shutdown,
            Cause::Internal,
        ];
        usize::try_from(code).ok().and_then(|code| ALL.get(code).copied()).unwrap_or(Self::Unrecognized)
    }
}

/// The peer broke the protocol; the connection closes with this cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the protocol: {what} ({cause:?})")]
pub struct PeerMisbehaved {
    /// What is sent to the peer.
    pub cause: Cause,
    /// In words.
    pub what: &'static str,
}

impl PeerMisbehaved {
    /// A fault of the peer.
    pub const fn new(cause: Cause, what: &'static str) -> Self {
        Self { cause, what }
    }
}

impl From<Malformed> for PeerMisbehaved {
    fn from(malformed: Malformed) -> Self {
        Self { cause: Cause::InvalidField, what: malformed.0 }
    }
}
