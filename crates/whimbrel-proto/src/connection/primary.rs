//! Which path data goes on first, where more than figures decide: what this end or the peer asked for, and the rule of the web agent.

use std::time::Duration;

use super::ids::read_path;
use super::path::Path;
use super::{At, Connection};
use crate::wire::Reader;
use crate::{Cause, PathId, PeerMisbehaved, Side, Time};

/// How the primary path is chosen while nobody asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PrimaryRule {
    /// The shortest round trip, lengthened by what is lost, with hysteresis.
    #[default]
    LossAndRtt,
    /// The path on which most arrives: once more came by another than by the primary within half a second, that becomes the primary, and
    /// the peer is told by SET_PRIMARY (Lee, Atiquzzaman, "SCTP based Framework for Mobile Web Agent", 2005, section 2.2.2). Until then, and while it
    /// does not work, as `LossAndRtt`.
    MostReceived,
}

/// Over how long received bytes are compared.
const SPAN: Duration = Duration::from_millis(500);
/// So many bytes in a span, at least, are data and no probes.
const LEAST_BYTES: u64 = 4096;
/// More is more by an eighth: paths that are alike should not take turns.
const MARGIN_EIGHTHS: u64 = 9;

/// Why the primary path cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetPrimaryError {
    /// It was closed, or never opened.
    #[error("there is no such path: `stats` lists those there are")]
    NoPath,
    /// The connection is ending.
    #[error("the connection is closing")]
    Closing,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Asked for last, by this end or the peer. One that does not work waits until it does.
    path: Option<PathId>,
    /// It was the peer, which does not know what this end would spare.
    by_peer: bool,
    /// Above all sequence numbers of both ends' wishes so far: what comes late changes nothing.
    next: u64,
    span_began: Time,
}

impl Choice {
    fn wish(&mut self, path: PathId, by_peer: bool) {
        self.path = Some(path);
        self.by_peer = by_peer;
    }
}

impl Connection {
    /// Has data go on this path first, in both directions: the peer is asked to do the same. A path that does not work is not used for a
    /// wish, and used once it does. Of this end's wishes and the peer's the latest counts, the peer's only among paths that are no dearer and
    /// no more in reserve than others that work.
    ///
    /// # Errors
    /// There is no such path, or the connection is ending.
    pub fn set_primary(&mut self, now: Time, id: PathId) -> Result<(), SetPrimaryError> {
        if !self.ending.is_open() {
            return Err(SetPrimaryError::Closing);
        }
        self.paths.by_id(id).ok_or(SetPrimaryError::NoPath)?;
        self.choice.wish(id, false);
        self.changeover.forget();
        self.control.set_primary(id, self.choice.next);
        self.choice.next += 1;
        self.review(now);
        Ok(())
    }

    /// The peer would have its data on this path.
    pub(super) fn on_set_primary(&mut self, now: Time, reader: &mut Reader) -> Result<(), PeerMisbehaved> {
        let (sequence, path) = read_set_primary(reader)?;
        // Where two wishes cross, both ends follow the client's.
        let crosses = sequence + 1 == self.choice.next && !self.choice.by_peer && self.side == Side::Server;
        if sequence >= self.choice.next || crosses {
            self.choice.next = sequence + 1;
            self.choice.wish(path, true);
            self.changeover.forget();
            self.review(now);
        }
        Ok(())
    }

    /// What was asked for last, if it works and may be had.
    pub(super) fn wished(&self) -> Option<At> {
        let at = self.paths.by_id(self.choice.path?).filter(|at| self.is_at_hand(*at))?;
        let least = || self.paths.all().filter(|other| self.is_at_hand(*other)).map(|at| self.rank(at)).min();
        (!self.choice.by_peer || Some(self.rank(at)) == least()).then_some(at)
    }

    /// Something arrived: the rule of the web agent looks at what came by which path.
    pub(super) fn compare_received(&mut self, now: Time) {
        if self.config.primary_rule != PrimaryRule::MostReceived
            || self.paths.len() == 1
            || now.since(self.choice.span_began) < SPAN
        {
            return;
        }
        self.choice.span_began = now;
        let main = self.paths.main();
        let got: Vec<(At, u64)> = self.paths.all().map(|at| (at, self.paths[at].received_since())).collect();
        let by_main = got.iter().find(|(at, _)| *at == main).map_or(0, |(_, bytes)| *bytes);
        let eligible = |at: At| self.is_at_hand(at) && self.rank(at) <= self.rank(main);
        let best =
            got.into_iter().filter(|(at, _)| *at != main && eligible(*at)).max_by_key(|(_, bytes)| *bytes);
        if let Some((at, bytes)) = best
            && bytes >= LEAST_BYTES
            && bytes * 8 > by_main * MARGIN_EIGHTHS
        {
            let told = self.set_primary(now, self.paths[at].id);
            debug_assert!(told.is_ok() || !self.ending.is_open(), "it is there");
        }
    }

    /// A standby path, or a dearer one, is not made the primary by carrying more.
    fn rank(&self, at: At) -> (bool, u32) {
        let view = self.view(at);
        (view.standby, view.cost)
    }
}

/// What SET_PRIMARY says: the wish's number and the path.
pub(super) fn read_set_primary(reader: &mut Reader) -> Result<(u64, PathId), PeerMisbehaved> {
    let (sequence, path) = (reader.varint()?, read_path(reader)?);
    if sequence > u64::from(u32::MAX) {
        return Err(PeerMisbehaved::new(Cause::InvalidField, "SET_PRIMARY: no such sequence number"));
    }
    Ok((sequence, path))
}

impl Path {
    /// UDP payload bytes since this was last asked.
    fn received_since(&mut self) -> u64 {
        let total = self.traffic.received_bytes;
        total - std::mem::replace(&mut self.traffic.received_before, total)
    }
}
