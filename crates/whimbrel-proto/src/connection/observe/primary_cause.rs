//! Why another path became the primary, in words for people.

/// The reason for a change of the primary path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum PrimaryCause {
    Wished,
    WishedByPeer,
    /// The former primary is suspect or down.
    Failed,
    /// The former primary was closed, or is about to be.
    Left,
    /// An earlier primary has worked again for long enough.
    Returned,
    /// Cost, reserve, round trip and losses are in favour of another.
    Better,
}

impl PrimaryCause {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Wished => "this end asked for it",
            Self::WishedByPeer => "the peer asked for it",
            Self::Failed => "the former primary does not work",
            Self::Left => "the former primary is closed or being left",
            Self::Returned => "the earlier primary works again",
            Self::Better => "its cost, round trip or losses are lower",
        }
    }
}
