//! Why a connection ends, and whose fault it is.

use crate::wire::Malformed;

/// Error causes carried by the ERROR block inside RST. 1 to 10 are MMSP's (thesis Table 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum Cause {
    /// The application closed the connection; its own code is sent beside it.
    Application = 0,
    /// DATA for a stream that cannot exist.
    WrongStream = 1,
    /// An address of a family that the peer cannot use.
    UnresolvedAddress = 2,
    /// An unknown block below 128.
    UnrecognizedBlock = 3,
    /// A field outside its domain, or a malformed block.
    InvalidField = 4,
    /// A mandatory field or parameter is missing.
    MissingField = 5,
    /// A field that must be understood is not.
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
    /// A message longer than the receiver accepts.
    MessageTooLarge = 13,
    /// A message contradicts earlier information about it.
    Inconsistent = 14,
    /// An acknowledgement of something never sent.
    AckOfUnsent = 15,
    /// The peer exceeded a limit on what it may make grow.
    LimitExceeded = 16,
    /// The AEAD's limit of forgeries or of packets under one key is reached.
    AeadLimit = 17,
    /// The ends have no version in common.
    Version = 18,
    /// The application protocol is not served here.
    Protocol = 19,
    /// The key is not on the allow list, or the listener refused.
    Refused = 20,
    /// The endpoint shuts down.
    Shutdown = 21,
    /// An internal error of the sender.
    Internal = 22,
}

impl Cause {
    /// All causes in the order of their numbers, from 0.
    const ALL: [Self; 23] = [
        Self::Application,
        Self::WrongStream,
        Self::UnresolvedAddress,
        Self::UnrecognizedBlock,
        Self::InvalidField,
        Self::MissingField,
        Self::UnrecognizedField,
        Self::NoData,
        Self::NoInfo,
        Self::StaleInfo,
        Self::Unrecognized,
        Self::Credit,
        Self::StreamLimit,
        Self::MessageTooLarge,
        Self::Inconsistent,
        Self::AckOfUnsent,
        Self::LimitExceeded,
        Self::AeadLimit,
        Self::Version,
        Self::Protocol,
        Self::Refused,
        Self::Shutdown,
        Self::Internal,
    ];

    /// Returns the cause with this number on the wire; an unknown number is [`Cause::Unrecognized`].
    pub fn from_code(code: u64) -> Self {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code).copied()).unwrap_or(Self::Unrecognized)
    }
}

/// The peer violated the protocol; the connection closes with this cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the protocol: {what} ({cause:?})")]
pub struct PeerMisbehaved {
    /// The cause sent to the peer.
    pub cause: Cause,
    /// A description for people.
    pub what: &'static str,
}

impl PeerMisbehaved {
    /// Creates the error.
    pub const fn new(cause: Cause, what: &'static str) -> Self {
        Self { cause, what }
    }
}

impl From<Malformed> for PeerMisbehaved {
    fn from(malformed: Malformed) -> Self {
        Self { cause: Cause::InvalidField, what: malformed.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOL: &str = include_str!("../../../docs/protocol.md");

    #[test]
    fn the_specification_has_every_cause() {
        let table =
            PROTOCOL.split_once("| cause | name | meaning | origin |\n").expect("a table of causes").1;
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
        let rows: Vec<Vec<&str>> =
            rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
        assert_eq!(rows.len(), Cause::ALL.len());
        for (number, (row, cause)) in rows.iter().zip(Cause::ALL).enumerate() {
            assert_eq!(row[..2], [number.to_string(), format!("{cause:?}")]);
            assert!(row.len() == 4 && row[2..].iter().all(|cell| !cell.is_empty()), "{cause:?}: say more");
            assert_eq!((Cause::from_code(number as u64), cause as u64), (cause, number as u64));
            assert_eq!(row[3].starts_with("MMSP Table 3.3"), (1..=10).contains(&number), "{cause:?}");
        }
        assert_eq!(Cause::from_code(Cause::ALL.len() as u64), Cause::Unrecognized);
    }
}
