//! Newtypes for slots and domains, so that different kinds of numbers cannot be mixed up.

use crate::Service;

/// Index of a stream in the table of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StreamSlot(pub(super) u32);

impl StreamSlot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a lane in the table of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneSlot(pub(super) u32);

impl LaneSlot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a tag in the table of tags in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TagSlot(pub(super) u32);

impl TagSlot {
    /// The slot of a message without a tag.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An order domain of a stream, numbered like the service it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Domain(pub(super) u8);

impl Domain {
    /// All domains of messages.
    pub(super) const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];
    /// The domain that both sequenced services of a cross-sequenced stream share.
    pub(super) const CROSS: Self = Self(0);
    /// Stands for the whole stream instead of one of its domains.
    pub(super) const WHOLE: Self = Self(u8::MAX);

    /// Returns the domain of a service on a stream where each service has its own order.
    pub(super) fn of(service: Service) -> Self {
        // There are four services, so the index fits.
        Self(service.index() as u8)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}
