//! The decision which path carries what, over all paths.

use super::changeover::Changeover;
use super::coupling::Coupling;
use super::primary::Choice;

/// The state behind that decision.
#[derive(Default)]
pub(in crate::connection) struct Steering {
    pub(in crate::connection) choice: Choice,
    pub(in crate::connection) changeover: Changeover,
    pub(in crate::connection) coupling: Coupling,
}
