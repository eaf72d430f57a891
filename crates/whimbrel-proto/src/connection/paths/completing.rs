//! Opening the paths that are missing.

use std::net::{IpAddr, SocketAddr};

use super::pairing;
use super::path::Path;
use super::path_state::PathState;
use crate::connection::state::Connection;
use crate::expected::Expected;
use crate::{Side, Time};

impl Connection {
    /// Opens paths on the address pairs that are worth one.
    pub(super) fn open_missing(&mut self, now: Time) {
        if self.side == Side::Server || !self.peer.confirmed || self.ending.is_detached() {
            return;
        }
        let main = self.paths[self.paths.main()].remote();
        if self.supply.addresses.ours().next().is_none() {
            return;
        }
        self.supply.addresses.on_answered(main);
        for (local, remote) in self.missing_pairs() {
            if !self.supply.may_ask(now, remote) {
                continue;
            }
            if self.open_path(now, Some(local), remote).is_err() {
                break;
            }
            self.supply.on_asked(remote);
        }
        if self.activity.unreachable_since.is_some() {
            self.open_refused(now);
        }
    }

    /// Returns the address pairs that should have a path and have none.
    pub(super) fn missing_pairs(&self) -> Vec<(IpAddr, SocketAddr)> {
        let locals: Vec<IpAddr> = self.supply.addresses.ours().map(|ours| ours.address.ip()).collect();
        let wanted = self.paths.iter().filter(|path| !path.leaving.is_wanted());
        let mut remotes: Vec<SocketAddr> = wanted.map(|path| path.remote()).collect();
        remotes.extend(self.supply.addresses.theirs());
        remotes.sort_unstable();
        remotes.dedup();
        // A closed path does not come back, although the peer may not know of the closing yet. Its addresses may come
        // back.
        let there = self.paths.iter().filter(|path| path.lifecycle.state() != PathState::Closed);
        let mut taken: Vec<_> = there.map(|path| (path.local(), path.remote())).collect();
        taken.extend(self.supply.waiting());
        pairing::missing(&locals, &remotes, &taken)
    }

    /// Opens paths again on the pairs that the application closed, while no path works.
    pub(in crate::connection) fn open_refused(&mut self, now: Time) {
        if self.side == Side::Server || !self.peer.confirmed || self.ending.is_detached() {
            return;
        }
        let refused: Vec<_> = self.supply.refused().collect();
        for (local, remote) in refused {
            let is_there = |path: &Path| {
                path.local() == local
                    && path.remote() == remote
                    && path.lifecycle.state() != PathState::Closed
            };
            if self.paths.iter().any(is_there) || local.is_some_and(|local| !self.supply.addresses.has(local))
            {
                continue;
            }
            let Ok(id) = self.open_path(now, local, remote) else { break };
            if let Some(at) = self.paths.by_id(id).expected("a path that was just opened") {
                self.paths[at].leaving.on_chosen();
            }
        }
    }
}
