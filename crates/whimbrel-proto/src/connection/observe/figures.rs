//! What is counted of a connection beside its paths.

use super::quality::Watch;
use super::stats::{Dropped, Totals};
use crate::connection::packet::copies::DeadlineStats;

/// See the module.
#[derive(Default)]
pub(in crate::connection) struct Figures {
    /// What was counted on paths that are no more, those of earlier connections of the session among them.
    pub(in crate::connection) past: Option<Box<Totals>>,
    /// Of the deadline rule, once it had something to do.
    pub(in crate::connection) deadlines: Option<Box<DeadlineStats>>,
    pub(in crate::connection) watch: Option<Box<Watch>>,
    pub(in crate::connection) dropped: Dropped,
}
