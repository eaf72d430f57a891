//! The state of this end's direction of a message stream.

/// The state of this end's direction of a message stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EndOut {
    #[default]
    Open,
    /// No more messages are taken. END is sent once all that were taken have their outcomes.
    Wanted,
    /// END waits to be sent or acknowledged.
    Told,
    /// The peer has acknowledged END.
    Known,
}
