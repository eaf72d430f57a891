//! The state of a peer.

/// The state of a peer, as far as this end knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It is being dialled, or waited for.
    Absent,
    /// A session is there.
    Connected,
    /// The last attempt failed so.
    Failed(String),
}
