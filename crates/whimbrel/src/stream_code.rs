//! The code with which one direction of a byte stream is reset or stopped.

use std::fmt;

/// The reason why one direction of a byte stream was reset or stopped, as a number chosen by the application. It must
/// be below 2^62: of a larger number only the lower 62 bits are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamCode(pub u64);

impl StreamCode {
    /// The code of a stream that was dropped.
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
