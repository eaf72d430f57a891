//! Frames that cannot be read, and requests that are refused.

use std::fmt;

use super::fields::{put_text, text};
use super::limits::LONGEST_REASON;
use crate::codec::{Malformed, Parser};
use crate::message::MessageError;

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes are no frame of this version.
    #[error("the bytes are not a frame of this version")]
    Malformed,
    /// A message in it is none.
    #[error(transparent)]
    Message(#[from] MessageError),
}

impl From<Malformed> for FrameError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Why a broker refuses something, or ends a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalCode {
    /// The request has a mistake: it will be refused again.
    Mistake,
    /// The client may not do this.
    NotPermitted,
    /// A limit is reached. It may succeed later.
    Limit,
    /// The broker cannot do it now, or not yet.
    Unavailable,
    /// The state is of another cluster.
    OtherCluster,
    /// The subscription was attached elsewhere.
    Superseded,
    /// The subscriber was too slow, and had asked to be sent away then.
    TooSlow,
    /// A code that this version does not know.
    Other(u8),
}

impl RefusalCode {
    fn number(self) -> u8 {
        match self {
            Self::Mistake => 1,
            Self::NotPermitted => 2,
            Self::Limit => 3,
            Self::Unavailable => 4,
            Self::OtherCluster => 5,
            Self::Superseded => 6,
            Self::TooSlow => 7,
            Self::Other(number) => number,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            1 => Self::Mistake,
            2 => Self::NotPermitted,
            3 => Self::Limit,
            4 => Self::Unavailable,
            5 => Self::OtherCluster,
            6 => Self::Superseded,
            7 => Self::TooSlow,
            number => Self::Other(number),
        }
    }

    /// Returns whether the same request may succeed later, at this broker or another.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Limit | Self::Unavailable | Self::Other(_))
    }
}

/// A refusal with its reason in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// For programs.
    pub code: RefusalCode,
    /// For people. At most [`LONGEST_REASON`] bytes are sent.
    pub reason: String,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(code: RefusalCode, reason: impl fmt::Display) -> Self {
        Self { code, reason: reason.to_string() }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.code.number());
        put_text(out, &self.reason[..self.reason.floor_char_boundary(LONGEST_REASON)]);
    }

    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, Malformed> {
        Ok(Self { code: RefusalCode::of(parser.byte()?), reason: text(parser, LONGEST_REASON)? })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
