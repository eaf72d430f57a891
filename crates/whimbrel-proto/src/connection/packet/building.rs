//! Buffers for the packet that is being built or opened, kept for the next one.

use super::sent_block::SentBlock;
use crate::session::Carried;
use crate::wire::sack::Sack;

/// The state of the packet that is being built or opened.
#[derive(Default)]
pub(in crate::connection) struct Building {
    /// Whether the data being sent again is not known to be lost.
    pub(in crate::connection) doubling: bool,
    /// Whether the packet retransmits lost data.
    pub(in crate::connection) resending: bool,
    pub(in crate::connection) sack: Option<Box<Sack>>,
    pub(in crate::connection) carried: Vec<Carried>,
    pub(in crate::connection) items: Vec<SentBlock>,
}
