//! Which path carries what, seen over all of them.

use super::changeover::Changeover;
use super::coupling::Coupling;
use super::primary::Choice;

/// See the module.
#[derive(Default)]
pub(in crate::connection) struct Steering {
    pub(in crate::connection) choice: Choice,
    pub(in crate::connection) changeover: Changeover,
    pub(in crate::connection) coupling: Coupling,
}
