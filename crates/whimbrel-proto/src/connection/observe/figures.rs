//! Counts of a connection that belong to no single path.

use super::quality::Watch;
use super::stats::{Dropped, Totals};
use crate::connection::packet::copies::DeadlineStats;

/// Counts that belong to no single path, and the watched thresholds.
#[derive(Default)]
pub(in crate::connection) struct Figures {
    /// Counts of paths that are gone, including those of earlier connections of the session.
    pub(in crate::connection) past: Option<Box<Totals>>,
    /// Counts of the deadline rule, once it has done something.
    pub(in crate::connection) deadlines: Option<Box<DeadlineStats>>,
    pub(in crate::connection) watch: Option<Box<Watch>>,
    pub(in crate::connection) dropped: Dropped,
}
