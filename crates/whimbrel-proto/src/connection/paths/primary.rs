//! The choice of the primary path beyond figures: by request of this end or the peer, and by the rule of the web agent.

use std::time::Duration;

use crate::{PathId, Time};

/// How the primary path is chosen while neither end asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PrimaryRule {
    /// The path with the shortest round trip, lengthened by its losses, with hysteresis.
    #[default]
    LossAndRtt,
    /// The path on which most data arrives (Lee, Atiquzzaman, "SCTP based Framework for Mobile Web Agent", 2005,
    /// section 2.2.2). Another path becomes the primary if within half a second it brings at least 4096 bytes, and an
    /// eighth more than the primary. The peer is then told by SET_PRIMARY. Until then, and while that path does not
    /// work, as `LossAndRtt`.
    MostReceived,
}

/// The span over which received bytes are compared.
pub(in crate::connection) const SPAN: Duration = Duration::from_millis(500);
/// The fewest bytes in a span that count as data and not as probes.
pub(in crate::connection) const LEAST_BYTES: u64 = 4096;
/// How many eighths of the primary's bytes another path must exceed: one eighth more, so that similar paths do not take
/// turns.
pub(in crate::connection) const MARGIN_EIGHTHS: u64 = 9;

/// Why the primary path cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetPrimaryError {
    /// The path was closed, or never opened.
    #[error("there is no such path: `stats` lists the current ones")]
    NoPath,
    /// The connection is ending.
    #[error("the connection is closing")]
    Closing,
}

/// The latest wish for a primary path, and the span of the rule.
#[derive(Debug, Default)]
pub(in crate::connection) struct Choice {
    /// The path that was asked for last, by this end or the peer. One that does not work waits until it does.
    pub(in crate::connection) path: Option<PathId>,
    /// Whether the peer asked for it. The peer does not know the costs at this end.
    pub(in crate::connection) by_peer: bool,
    /// A number above all sequence numbers of both ends' wishes so far. A wish that comes late changes nothing.
    pub(in crate::connection) next: u64,
    pub(in crate::connection) span_began: Time,
}

impl Choice {
    pub(in crate::connection) fn wish(&mut self, path: PathId, by_peer: bool) {
        self.path = Some(path);
        self.by_peer = by_peer;
    }
}
