//! Records of the blocks that packets carried.

use crate::PathId;
use crate::connection::control::control_queue::ControlBlock;
use crate::session::Carried;

/// What a packet carried, to be told its fate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SentBlock {
    Session(Carried),
    ControlBlock(ControlBlock),
    /// A SACK that reported up to this number: once seen, what is below need not be repeated.
    Sack(u64),
    /// One of another path.
    SackOf(PathId, u64),
    MtuProbe(u16),
    /// The answer to a challenge.
    Answer,
}
