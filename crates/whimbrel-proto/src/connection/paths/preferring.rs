//! Choosing the primary path.

use super::ids::read_path;
use super::path_set::At;
use super::primary::{LEAST_BYTES, MARGIN_EIGHTHS, PrimaryRule, SPAN, SetPrimaryError};
use crate::connection::state::Connection;
use crate::wire::Reader;
use crate::{Cause, PathId, PeerMisbehaved, Side, Time};

impl Connection {
    /// Makes a path the primary in both directions: the peer is asked to do the same. A path that does not work becomes
    /// the primary once it works. The latest wish of either end counts. A wish of the peer counts only if no other
    /// working path is cheaper or less in reserve.
    ///
    /// # Errors
    /// [`SetPrimaryError`] if there is no such path, or the connection is ending.
    pub fn set_primary(&mut self, now: Time, id: PathId) -> Result<(), SetPrimaryError> {
        if !self.ending.is_open() {
            return Err(SetPrimaryError::Closing);
        }
        self.paths.by_id(id).ok_or(SetPrimaryError::NoPath)?;
        self.steering.choice.wish(id, false);
        self.steering.changeover.on_wish(id);
        self.control.set_primary(id, self.steering.choice.next);
        self.steering.choice.next += 1;
        self.review(now);
        Ok(())
    }

    /// Handles SET_PRIMARY: the peer wants its data on this path.
    pub(in crate::connection) fn on_set_primary(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let (sequence, path) = read_set_primary(reader)?;
        // If two wishes cross, both ends follow the client's.
        let crosses = sequence + 1 == self.steering.choice.next
            && !self.steering.choice.by_peer
            && self.side == Side::Server;
        if sequence >= self.steering.choice.next || crosses {
            self.steering.choice.next = sequence + 1;
            self.steering.choice.wish(path, true);
            if self.paths.by_id(path).is_some() {
                self.steering.changeover.on_wish(path);
            }
            self.review(now);
        }
        Ok(())
    }

    /// Returns the path that was asked for last, if it works and may be used.
    pub(in crate::connection) fn wished(&self) -> Option<At> {
        let at = self.paths.by_id(self.steering.choice.path?).filter(|at| self.is_at_hand(*at))?;
        let least = || self.paths.all().filter(|other| self.is_at_hand(*other)).map(|at| self.rank(at)).min();
        (!self.steering.choice.by_peer || Some(self.rank(at)) == least()).then_some(at)
    }

    /// Applies [`PrimaryRule::MostReceived`] after a packet arrived: compares how much came by each path.
    pub(in crate::connection) fn compare_received(&mut self, now: Time) {
        if self.config.primary_rule != PrimaryRule::MostReceived
            || self.paths.len() == 1
            || now.since(self.steering.choice.span_began) < SPAN
        {
            return;
        }
        let main = self.primary();
        let began = std::mem::replace(&mut self.steering.choice.span_began, now);
        let got: Vec<(At, u64)> =
            self.paths.all().map(|at| (at, self.paths[at].traffic.take_eliciting())).collect();
        if self.steering.changeover.stood_in(began) {
            // A path that was held has brought less for that alone.
            return;
        }
        let by_main = got.iter().find(|(at, _)| *at == main).map_or(0, |(_, bytes)| *bytes);
        let eligible = |at: At| self.is_at_hand(at) && self.rank(at) <= self.rank(main);
        let best =
            got.into_iter().filter(|(at, _)| *at != main && eligible(*at)).max_by_key(|(_, bytes)| *bytes);
        if let Some((at, bytes)) = best
            && bytes >= LEAST_BYTES
            && bytes * 8 > by_main * MARGIN_EIGHTHS
        {
            let told = self.set_primary(now, self.paths[at].id());
            debug_assert!(told.is_ok() || !self.ending.is_open(), "it is there");
        }
    }

    /// Returns the rank of a path. A standby path, or a dearer one, does not become the primary by carrying more.
    fn rank(&self, at: At) -> (bool, u32) {
        let view = self.view(at);
        (view.standby, view.cost)
    }
}

/// Reads SET_PRIMARY: the wish's sequence number and the path.
pub(in crate::connection) fn read_set_primary(reader: &mut Reader) -> Result<(u64, PathId), PeerMisbehaved> {
    let (sequence, path) = (reader.varint()?, read_path(reader)?);
    if sequence > u64::from(u32::MAX) {
        return Err(PeerMisbehaved::new(Cause::InvalidField, "SET_PRIMARY: no such sequence number"));
    }
    Ok((sequence, path))
}
