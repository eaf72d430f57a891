//! Records of the blocks that packets carried.

use crate::PathId;
use crate::connection::control::control_queue::ControlBlock;
use crate::session::Carried;

/// Something that a packet carried, kept until the packet's fate is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SentBlock {
    Session(Carried),
    ControlBlock(ControlBlock),
    /// A SACK that reported up to this number. Once it is acknowledged, what is below need not be repeated.
    Sack(u64),
    /// A SACK of another path, with the number it reported up to.
    SackOf(PathId, u64),
    MtuProbe(u16),
    /// The answer to a challenge.
    Answer,
}
