//! The choice of the message to overwrite in a full partition.

mod lrp;
mod overwriting;
mod pwp;
mod ran;

pub use lrp::Lrp;
pub use overwriting::{Facts, Policy, Room};
pub use pwp::Pwp;
pub use ran::Ran;

#[cfg(test)]
use super::places::SlotId;

#[cfg(test)]
pub(super) fn facts(slot: u32, order: u64, index: u8) -> Facts {
    Facts { slot: SlotId(slot), order, index, bytes: 10 }
}

#[cfg(test)]
pub(super) fn room(messages: u64) -> Room {
    Room { messages, bytes: u64::MAX }
}
