//! Connection ids for paths that may be opened later. Both ends hold some in advance, so that a path can be opened when
//! the previous one is already gone. No observer can tell from the ids that both paths are one connection.

use crate::crypto::ResetToken;
use crate::wire::{Reader, Writer, block, varint_len};
use crate::{Cause, ConnectionId, PathId, PeerMisbehaved};

/// The number of future paths for which ids are held.
pub(in crate::connection) const AHEAD: usize = 2;

/// How the peer is addressed on a path, and the token by which it would report that it lost the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Theirs {
    pub(in crate::connection) id: ConnectionId,
    pub(in crate::connection) token: ResetToken,
}

/// How the peer is to address us on a path that may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Ours {
    path: PathId,
    /// The number of the notice that tells the peer.
    pub(in crate::connection) told: u32,
    pub(in crate::connection) id: ConnectionId,
}

/// No ids are issued or accepted for a path this far above the lowest that is still to be opened. Otherwise a peer
/// could give ids without end.
const FARTHEST: u32 = 64;

/// The ids of future paths. The client opens all paths, so their ids are even, and a path id is never used again. Paths
/// may be opened in any order, since the first packets of two may overtake each other.
#[derive(Debug)]
pub(in crate::connection) struct SpareIds {
    ours: Vec<Ours>,
    theirs: Vec<(PathId, Theirs)>,
    /// The next path to issue an id for.
    next: u32,
    /// The ids requested from the endpoint and not yet issued.
    asked: usize,
    /// Every path below this was opened or given up.
    first: u32,
    /// The paths above it that were opened or given up.
    over: Vec<u32>,
}

impl Default for SpareIds {
    fn default() -> Self {
        Self { ours: Vec::new(), theirs: Vec::new(), next: 2, asked: 0, first: 2, over: Vec::new() }
    }
}

impl SpareIds {
    /// Returns how many more ids the endpoint should issue, and counts them as requested.
    pub(in crate::connection) fn ask(&mut self) -> usize {
        let wanted = AHEAD.saturating_sub(self.ours.len() + self.asked);
        let wanted = if self.next - self.first < 2 * FARTHEST { wanted } else { 0 };
        self.asked += wanted;
        wanted
    }

    /// Frees memory that is kept for growth.
    pub(in crate::connection) fn trim(&mut self) {
        self.ours.shrink_to_fit();
        self.theirs.shrink_to_fit();
        self.over.shrink_to_fit();
    }

    /// Takes an id that the endpoint issued, for the next path. `tell` queues the notice that tells the peer, and
    /// returns its number.
    pub(in crate::connection) fn issue(&mut self, id: ConnectionId, tell: impl FnOnce(PathId) -> u32) {
        let path = PathId(self.next);
        self.next += 2;
        self.asked = self.asked.saturating_sub(1);
        self.ours.push(Ours { path, told: tell(path), id });
    }

    /// Takes an id from the peer. Returns whether it is new.
    ///
    /// # Errors
    /// The client cannot open that path, or it is too far above the lowest path that is still to be opened.
    pub(in crate::connection) fn take(
        &mut self,
        path: PathId,
        theirs: Theirs,
    ) -> Result<bool, PeerMisbehaved> {
        if path.0 == 0 || !path.0.is_multiple_of(2) {
            return Err(PeerMisbehaved::new(Cause::InvalidField, "NEW_CID of a path that cannot be"));
        }
        if self.is_over(path) || self.knows(path) {
            // Sent again, or too late.
            return Ok(false);
        }
        if path.0 - self.first >= 2 * FARTHEST {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "NEW_CID far ahead"));
        }
        self.theirs.push((path, theirs));
        Ok(true)
    }

    /// Returns whether the peer gave its id for this path.
    pub(in crate::connection) fn knows(&self, path: PathId) -> bool {
        self.theirs.iter().any(|(known, _)| *known == path)
    }

    /// Returns whether the path was opened here, or given up by the client before any of its packets came.
    pub(in crate::connection) fn is_over(&self, path: PathId) -> bool {
        path.0 < self.first || self.over.contains(&path.0)
    }

    /// Returns the path that a packet addressed to `id` would open.
    pub(in crate::connection) fn expected(&self, id: ConnectionId) -> Option<PathId> {
        self.ours.iter().find(|ours| ours.id == id).map(|ours| ours.path)
    }

    /// Returns the first path for which both ends have given ids.
    pub(in crate::connection) fn ready(&self) -> Option<PathId> {
        self.ours.iter().map(|ours| ours.path).filter(|path| self.knows(*path)).min()
    }

    /// Takes both ends' ids of a path that is being opened. None: the peer has not given its id yet.
    pub(in crate::connection) fn open(&mut self, path: PathId) -> Option<(Ours, Theirs)> {
        let theirs = self.theirs.iter().find(|(id, _)| *id == path)?.1;
        self.give_up(path).map(|ours| (ours, theirs))
    }

    /// Takes our id of a path that will not be opened later: it is being opened now, or was given up.
    pub(in crate::connection) fn give_up(&mut self, path: PathId) -> Option<Ours> {
        let at = self.ours.iter().position(|ours| ours.path == path)?;
        self.theirs.retain(|(id, _)| *id != path);
        self.over.push(path.0);
        while let Some(at) = self.over.iter().position(|over| *over == self.first) {
            self.over.swap_remove(at);
            self.first += 2;
        }
        Some(self.ours.remove(at))
    }
}

/// Writes NEW_CID.
pub(in crate::connection) fn write_new_cid(path: PathId, id: ConnectionId, token: &ResetToken) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + varint_len(u64::from(path.0)) + ConnectionId::LEN + ResetToken::LEN);
    let mut writer = Writer::new(&mut out, usize::MAX);
    writer.u8(block::NEW_CID);
    writer.varint(u64::from(path.0));
    writer.bytes(&id.to_bytes());
    writer.bytes(token.as_bytes());
    out
}

/// Reads NEW_CID: the path, and the peer's id and reset token for it.
pub(in crate::connection) fn read_new_cid(reader: &mut Reader) -> Result<(PathId, Theirs), PeerMisbehaved> {
    let path = read_path(reader)?;
    let id = ConnectionId::from_bytes(reader.array()?);
    let token = ResetToken::new(reader.array()?);
    Ok((path, Theirs { id, token }))
}

/// Reads a path's id.
pub(in crate::connection) fn read_path(reader: &mut Reader) -> Result<PathId, PeerMisbehaved> {
    let path = reader.varint()?;
    u32::try_from(path)
        .map(PathId)
        .map_err(|_| PeerMisbehaved::new(Cause::InvalidField, "path id beyond 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ConnectionId {
        ConnectionId(number)
    }

    fn ours(path: u32, number: u64) -> Ours {
        Ours { path: PathId(path), told: path, id: id(number) }
    }

    /// Issues an id, and returns the path that it is for.
    fn issue(spare: &mut SpareIds, number: u64) -> PathId {
        spare.issue(id(number), |path| path.0);
        spare.expected(id(number)).unwrap()
    }

    fn theirs(number: u64) -> Theirs {
        Theirs { id: id(number), token: ResetToken::new([number as u8; 16]) }
    }

    #[test]
    fn a_path_opens_when_both_ends_gave_an_id() {
        let mut spare = SpareIds::default();
        assert_eq!(spare.ask(), AHEAD);
        assert_eq!(spare.ask(), 0, "asked already");
        assert_eq!(issue(&mut spare, 10), PathId(2));
        assert_eq!(issue(&mut spare, 11), PathId(4));
        assert_eq!(spare.ready(), None);
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(true));
        assert_eq!(spare.ready(), Some(PathId(2)));
        assert_eq!(spare.expected(id(10)), Some(PathId(2)));
        assert_eq!(spare.open(PathId(2)), Some((ours(2, 10), theirs(20))));
        assert_eq!(spare.open(PathId(2)), None, "once");
        assert_eq!(spare.ask(), 1, "another one ahead");
        assert_eq!(issue(&mut spare, 12), PathId(6));
    }

    #[test]
    fn paths_are_opened_in_any_order_and_once() {
        let mut spare = SpareIds::default();
        spare.ask();
        issue(&mut spare, 10);
        issue(&mut spare, 11);
        assert_eq!(spare.take(PathId(4), theirs(21)), Ok(true));
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(true));
        assert_eq!(spare.ready(), Some(PathId(2)));
        assert_eq!(spare.open(PathId(4)), Some((ours(4, 11), theirs(21))));
        assert_eq!(spare.take(PathId(4), theirs(22)), Ok(false), "never reused");
        assert!(spare.is_over(PathId(4)) && !spare.is_over(PathId(2)));
        assert_eq!(spare.expected(id(10)), Some(PathId(2)), "the one before may still come");
        assert_eq!(spare.give_up(PathId(2)), Some(ours(2, 10)));
        assert_eq!((spare.expected(id(10)), spare.ready()), (None, None));
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(false));
        assert_eq!((spare.first, spare.over.len()), (6, 0), "nothing is kept of paths that were");
        assert_eq!(spare.ask(), AHEAD);
        assert_eq!(issue(&mut spare, 12), PathId(6));
    }

    #[test]
    fn a_peer_cannot_make_it_grow_or_reuse_a_path() {
        let mut spare = SpareIds::default();
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(true));
        assert_eq!(spare.take(PathId(2), theirs(21)), Ok(false), "a repeated one changes nothing");
        assert!(spare.take(PathId(3), theirs(22)).is_err());
        assert!(spare.take(PathId(0), theirs(22)).is_err());
        assert!(spare.take(PathId(600), theirs(22)).is_err());
        assert!((4..1000u32).step_by(2).any(|path| spare.take(PathId(path), theirs(path.into())).is_err()));
        assert!(spare.theirs.len() <= FARTHEST as usize);
        // A path that is never opened limits how many later ones are remembered.
        for path in (4..1000u32).step_by(2) {
            spare.ours.push(ours(path, path.into()));
            spare.open(PathId(path));
        }
        assert!(spare.over.len() <= FARTHEST as usize);
    }
}
