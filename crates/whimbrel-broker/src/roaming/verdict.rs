//! The decision about a message.

/// Whether a subscription gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wanted,
    /// It does not match, or its lifetime has ended.
    Unwanted,
    /// The subscription's own policy passes over it.
    Superseded,
}
