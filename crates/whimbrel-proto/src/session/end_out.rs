//! How far our direction of a message stream is on its way.

/// How far our direction of a message stream is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EndOut {
    #[default]
    Open,
    /// No more is taken; END goes once all that was has its outcome.
    Wanted,
    /// END waits to be sent, or for its acknowledgement.
    Told,
    /// The peer knows.
    Known,
}
