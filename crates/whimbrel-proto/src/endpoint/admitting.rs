//! Whether an endpoint has room for a connection.

use std::net::SocketAddr;

use super::handle::Handle;
use super::state::Endpoint;
use super::told::Limit;
use crate::Time;
use crate::endpoint::places::{Full, Place};

impl Endpoint {
    /// Returns whether one more connection may come from `place`, and counts a refusal.
    pub(super) fn has_room(&mut self, now: Time, place: Place, from: SocketAddr) -> bool {
        let Some((_, listen)) = &self.acceptor else { return false };
        let full = self.places.full(place, listen);
        match full {
            Some(Full::Key) => {
                self.stats.key_full += 1;
                self.told.on_limit(now, Limit::Key, Some(from));
            }
            Some(Full::Network) => {
                self.stats.network_full += 1;
                self.told.on_limit(now, Limit::Network, Some(from));
            }
            None => {}
        }
        full.is_none()
    }

    pub(super) fn take_place(&mut self, handle: Handle, place: Place) {
        if let Some(ids) = self.connections.get_mut(&handle) {
            ids.place = place;
            self.places.take(place);
        }
    }
}
