//! Where things are: numbers of slots and of logs, which are used again.

/// A slot. It is used again for another message once its own has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(super) u32);

/// The place of a log among those of a channel. It is used again for another origin once its own is forgotten: [`Channel::forgotten`]
/// then grows.
///
/// [`Channel::forgotten`]: super::Channel::forgotten
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub(super) u32);

impl LogIndex {
    /// The index as a place in an array.
    pub fn place(self) -> usize {
        self.0 as usize
    }
}
