//! The state that the flows of a session share: caps, and the capabilities of the peer.

use std::sync::{Mutex, PoisonError};

use super::caps::Caps;
use crate::protocol::Capabilities;

/// The state that the flows of a session share.
#[derive(Debug, Default)]
pub(crate) struct Bond {
    pub(super) caps: Caps,
    peer: Mutex<Capabilities>,
}

impl Bond {
    /// Returns what the peer understands, as far as it has said.
    pub(crate) fn peer(&self) -> Capabilities {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer has said what it understands.
    pub(crate) fn on_capabilities(&self, all: Capabilities) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }
}
