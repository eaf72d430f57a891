//! Which copies are sent on purpose, and where they go.

/// What of a packet goes a second time on another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Everything.
    All,
    /// Urgent messages, and those that could not be sent again in time.
    Pressing,
}

/// Where copies of what could not be sent again in time go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// One, on another path.
    Elsewhere,
    /// So many, in packets that follow.
    Following(u8),
}

/// Messages that will go more than once, and what their copies may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressed {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Of the bytes, those of urgent messages, which nobody was asked to afford.
    pub(crate) exempt: u64,
}
