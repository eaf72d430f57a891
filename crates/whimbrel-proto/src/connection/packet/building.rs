//! The packet that is being built or taken apart: memory kept for the next.

use super::sent_block::SentBlock;
use crate::session::Carried;
use crate::wire::sack::Sack;

/// See the module.
#[derive(Default)]
pub(in crate::connection) struct Building {
    /// The data that is sent again now is not known to be lost.
    pub(in crate::connection) doubling: bool,
    /// The packet holds lost data.
    pub(in crate::connection) resending: bool,
    pub(in crate::connection) sack: Option<Box<Sack>>,
    pub(in crate::connection) carried: Vec<Carried>,
    pub(in crate::connection) items: Vec<SentBlock>,
}
