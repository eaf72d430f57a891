//! Which path data goes on first, where more than figures decide: what this end or the peer asked for, and the rule of the web agent.

use std::time::Duration;

use crate::{PathId, Time};

/// How the primary path is chosen while nobody asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PrimaryRule {
    /// The shortest round trip, lengthened by what is lost, with hysteresis.
    #[default]
    LossAndRtt,
    /// The path on which most arrives: once more came by another than by the primary within half a second, that becomes the primary, and
    /// the peer is told by SET_PRIMARY (Lee, Atiquzzaman, "SCTP based Framework for Mobile Web Agent", 2005, section 2.2.2). Until then, and while it
    /// does not work, as `LossAndRtt`.
    MostReceived,
}

/// Over how long received bytes are compared.
pub(in crate::connection) const SPAN: Duration = Duration::from_millis(500);
/// So many bytes in a span, at least, are data and no probes.
pub(in crate::connection) const LEAST_BYTES: u64 = 4096;
/// More is more by an eighth: paths that are alike should not take turns.
pub(in crate::connection) const MARGIN_EIGHTHS: u64 = 9;

/// Why the primary path cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetPrimaryError {
    /// It was closed, or never opened.
    #[error("there is no such path: `stats` lists those there are")]
    NoPath,
    /// The connection is ending.
    #[error("the connection is closing")]
    Closing,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::connection) struct Choice {
    /// Asked for last, by this end or the peer. One that does not work waits until it does.
    pub(in crate::connection) path: Option<PathId>,
    /// It was the peer, which does not know what this end would spare.
    pub(in crate::connection) by_peer: bool,
    /// Above all sequence numbers of both ends' wishes so far: what comes late changes nothing.
    pub(in crate::connection) next: u64,
    pub(in crate::connection) span_began: Time,
}

impl Choice {
    pub(in crate::connection) fn wish(&mut self, path: PathId, by_peer: bool) {
        self.path = Some(path);
        self.by_peer = by_peer;
    }
}
