//! Copies that are sent on purpose: what they contain, and where they go.

/// The part of a packet that is sent a second time on another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Everything.
    All,
    /// Urgent messages, and those that could not be retransmitted in time.
    Pressing,
}

/// How copies of messages are sent that could not be retransmitted in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// One copy, on another path.
    Elsewhere,
    /// This many copies, in packets that follow.
    Following(u8),
}

/// Messages that will be sent more than once, and the cost of their copies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressed {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The part of `bytes` that belongs to urgent messages. It does not count against a budget.
    pub(crate) exempt: u64,
}
