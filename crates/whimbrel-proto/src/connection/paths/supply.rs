//! Everything that new paths are made of: both ends' addresses, ids, and the attempts that are allowed.

use std::net::{IpAddr, SocketAddr};

use super::addresses::Addresses;
use super::attempts::Attempts;
use super::ids::SpareIds;
use super::path_quota::PathQuota;
use super::retired::Retired;
use super::validation::Challenges;
use crate::{ConnectionId, PathId, Time};

/// The supply for new paths.
pub(in crate::connection) struct Supply {
    pub(in crate::connection) addresses: Addresses,
    pub(in crate::connection) ids: SpareIds,
    retired: Retired,
    quota: PathQuota,
    attempts: Attempts,
    challenges: Challenges,
}

impl Supply {
    pub(in crate::connection) fn new(challenges: Challenges) -> Self {
        Self {
            addresses: Addresses::default(),
            ids: SpareIds::default(),
            retired: Retired::default(),
            quota: PathQuota::default(),
            attempts: Attempts::default(),
            challenges,
        }
    }

    /// Draws a number that nobody can guess.
    pub(in crate::connection) fn challenge(&mut self) -> u64 {
        self.challenges.draw()
    }
}

/// Addresses that may be anybody's.
impl Supply {
    /// Returns whether a path to an address that has never answered may be opened now. If not, it is remembered as wanted.
    pub(in crate::connection) fn may_ask_strangers(&mut self, now: Time) -> bool {
        self.quota.may_open(now)
    }

    /// Returns whether a path to this address may be opened now. If not, it is remembered as wanted.
    pub(in crate::connection) fn may_ask(&mut self, now: Time, remote: SocketAddr) -> bool {
        self.addresses.has_answered(remote) || self.quota.may_open(now)
    }

    /// Counts a path that was opened to this address.
    pub(in crate::connection) fn on_asked(&mut self, remote: SocketAddr) {
        if !self.addresses.has_answered(remote) {
            self.quota.on_opened();
        }
    }
}

/// Pairs of addresses that were tried.
impl Supply {
    /// Records that an attempt on this pair was not answered.
    pub(in crate::connection) fn on_failed(&mut self, now: Time, local: Option<IpAddr>, remote: SocketAddr) {
        self.attempts.on_failed(now, local, remote);
    }

    /// Forgets failures on this pair, because a path on it works.
    pub(in crate::connection) fn on_path_up(&mut self, local: Option<IpAddr>, remote: SocketAddr) {
        self.attempts.on_answered(local, remote);
    }

    /// Records that the application wants no path on this pair. None is opened until the networks change.
    pub(in crate::connection) fn refuse(&mut self, local: Option<IpAddr>, remote: SocketAddr) {
        self.attempts.refuse(local, remote);
    }

    /// Returns the pairs on which the application wants no path.
    pub(in crate::connection) fn refused(&self) -> impl Iterator<Item = (Option<IpAddr>, SocketAddr)> {
        self.attempts.refused()
    }

    /// Returns whether the pair must not be tried yet.
    pub(in crate::connection) fn is_waiting(&self, local: Option<IpAddr>, remote: SocketAddr) -> bool {
        self.attempts.is_waiting(local, remote)
    }

    /// Returns the pairs that must not be tried yet.
    pub(in crate::connection) fn waiting(&self) -> impl Iterator<Item = (Option<IpAddr>, SocketAddr)> {
        self.attempts.waiting()
    }

    /// Forgets refusals and failures from addresses that are gone, because the networks changed.
    pub(in crate::connection) fn on_networks_changed(&mut self) {
        self.attempts.keep(|ip| self.addresses.has(ip));
    }

    /// Forgets refusals and failures, because a link came up and any pair may work now.
    pub(in crate::connection) fn on_link_up(&mut self) {
        self.attempts.clear();
    }

    /// Returns when the next path may be opened that could not be before.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        Time::earliest([self.attempts.timeout(), self.quota.timeout()])
    }

    /// Returns whether paths may be opened now that could not be before.
    pub(in crate::connection) fn handle_timeout(&mut self, now: Time) -> bool {
        self.attempts.handle_timeout(now) | self.quota.handle_timeout(now)
    }
}

/// Ids that are no longer used.
impl Supply {
    /// Keeps the id of a path that has ended until `until`, for packets that may still come to it.
    pub(in crate::connection) fn retire(&mut self, id: ConnectionId, until: Time) {
        self.retired.retire(id, until);
    }

    /// Gives up the id of a path that the peer closed before anything of it came. Returns whether there was one.
    pub(in crate::connection) fn give_up(&mut self, path: PathId, until: Time) -> bool {
        let unused = self.ids.give_up(path);
        if let Some(unused) = &unused {
            self.retired.retire(unused.id, until);
        }
        unused.is_some()
    }

    pub(in crate::connection) fn is_retired(&self, id: ConnectionId) -> bool {
        self.retired.contains(id)
    }

    /// Returns how many ids are not free yet.
    pub(in crate::connection) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Returns when the next id is free.
    pub(in crate::connection) fn free_at(&self) -> Option<Time> {
        self.retired.timeout()
    }

    /// Removes and returns the ids to which no packet can come any more.
    pub(in crate::connection) fn take_free(&mut self, now: Time) -> impl Iterator<Item = ConnectionId> {
        self.retired.take_over(now)
    }
}
