//! Giving, taking and freeing the ids of paths.

use bytes::Bytes;

use super::ids::{read_new_cid, write_new_cid};
use crate::connection::event::EndpointEvent;
use crate::connection::state::Connection;
use crate::crypto::ResetToken;
use crate::wire::{Reader, block};
use crate::{ConnectionId, PathId, PeerMisbehaved, Time};

/// With this many notices not acknowledged yet, or ids not free yet, no ids for further paths are given. A peer that
/// opens and closes paths without end must wait until what it left behind is cleared.
const MOST_LOOSE_ENDS: usize = 32;

impl Connection {
    /// Requests ids for future paths from the endpoint.
    pub(in crate::connection) fn ask_for_ids(&mut self) {
        let backlog = self.control.notices().max(self.supply.retired());
        if self.config.max_paths > 1 && self.peer.confirmed && backlog < MOST_LOOSE_ENDS {
            for _ in 0..self.supply.ids.ask() {
                self.endpoint_events.push_back(EndpointEvent::IdWanted);
            }
        }
    }

    /// Handles an id that the endpoint issued.
    pub(in crate::connection) fn handle_id(&mut self, id: ConnectionId, token: &ResetToken) {
        let control = &mut self.control;
        self.supply.ids.issue(id, |path| control.notice(write_new_cid(path, id, token)));
    }

    pub(in crate::connection) fn on_new_cid(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let (path, theirs) = read_new_cid(reader)?;
        if self.supply.ids.take(path, theirs)? {
            self.open_missing(now);
        }
        Ok(())
    }

    /// Takes the client's id for a path from the start of that path's first packet. No other path may work to bring it.
    pub(in crate::connection) fn introduce(&mut self, path: PathId, blocks: &[u8]) {
        if self.supply.ids.knows(path) || blocks.first() != Some(&block::NEW_CID) {
            return;
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(&blocks[1..]));
        if let Ok((of, theirs)) = read_new_cid(&mut reader)
            && of == path
        {
            // An error in it is found when all blocks are handled.
            self.supply.ids.take(path, theirs).ok();
        }
    }

    /// Frees retired ids whose last packets must have arrived by now.
    pub(in crate::connection) fn free_retired(&mut self, now: Time) {
        self.endpoint_events.extend(self.supply.take_free(now).map(EndpointEvent::IdUnused));
        self.ask_for_ids();
    }
}
