//! Numbers that mean different things, each of its own type.

use crate::Service;

/// A stream's place in the table of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StreamSlot(pub(super) u32);

impl StreamSlot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A lane's place among the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneSlot(pub(super) u32);

impl LaneSlot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tag's place among the tags in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TagSlot(pub(super) u32);

impl TagSlot {
    /// The slot of a message without a tag.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which order domain of a stream: its services, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Domain(pub(super) u8);

impl Domain {
    /// The domains that messages have.
    pub(super) const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];
    /// The one order that both sequenced services of a cross-sequenced stream share.
    pub(super) const CROSS: Self = Self(0);
    /// Stands for a whole stream, not one of its domains.
    pub(super) const WHOLE: Self = Self(u8::MAX);

    /// The domain of a service, where each service has an order of its own.
    pub(super) fn of(service: Service) -> Self {
        // There are four.
        Self(service.index() as u8)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}
