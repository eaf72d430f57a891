//! The number with which a direction of a byte stream is given up.

use std::fmt;

/// Why a direction of a byte stream was given up, in the application's own numbers: below 2^62, larger ones are cut to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamCode(pub u64);

impl StreamCode {
    /// Of a stream that was dropped.
    pub const DROPPED: Self = Self(0);
}

impl From<u64> for StreamCode {
    fn from(code: u64) -> Self {
        Self(code)
    }
}

impl fmt::Display for StreamCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
