//! Connection ids ahead of the paths they are for: both ends hold some for the paths that may come next, so that a path can be
//! opened when the one before is gone already, and nobody on the way can tell that both are one connection.

use crate::crypto::ResetToken;
use crate::wire::{Reader, Writer, block, varint_len};
use crate::{Cause, ConnectionId, PathId, PeerMisbehaved};

/// Paths that ids are there for before they are opened.
pub(super) const AHEAD: usize = 2;

/// How the peer is addressed on a path, and how it would say that it lost the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theirs {
    pub(super) id: ConnectionId,
    pub(super) token: ResetToken,
}

/// See the module. All paths are opened by the client, so their ids are even; an id of a path is never used again.
#[derive(Debug)]
pub(super) struct SpareIds {
    ours: Vec<(PathId, ConnectionId)>,
    theirs: Vec<(PathId, Theirs)>,
    /// The next path to issue an id for.
    next: u32,
    /// Asked of the endpoint and not yet given.
    asked: usize,
    /// The highest path that was opened: ids of lower ones are of no use any more.
    opened: u32,
}

impl Default for SpareIds {
    fn default() -> Self {
        Self { ours: Vec::new(), theirs: Vec::new(), next: 2, asked: 0, opened: 0 }
    }
}

impl SpareIds {
    /// How many more the endpoint should issue; they are asked for with this call.
    pub(super) fn ask(&mut self) -> usize {
        let wanted = AHEAD.saturating_sub(self.ours.len() + self.asked);
        self.asked += wanted;
        wanted
    }

    /// Gives back memory kept for growth.
    pub(super) fn trim(&mut self) {
        self.ours.shrink_to_fit();
        self.theirs.shrink_to_fit();
    }

    /// The endpoint issued one: it is for this path.
    pub(super) fn issue(&mut self, id: ConnectionId) -> PathId {
        let path = PathId(self.next);
        self.next += 2;
        self.asked = self.asked.saturating_sub(1);
        self.ours.push((path, id));
        path
    }

    /// The peer gave one.
    ///
    /// # Errors
    /// It is of a path the client could not open, of one that has been, or of one too many.
    pub(super) fn take(&mut self, path: PathId, theirs: Theirs) -> Result<bool, PeerMisbehaved> {
        if path.0 == 0 || path.0 % 2 != 0 {
            return Err(PeerMisbehaved::new(Cause::InvalidField, "NEW_CID of a path that cannot be"));
        }
        if path.0 <= self.opened || self.theirs.iter().any(|(known, _)| *known == path) {
            // Sent again, or too late: a higher one was opened meanwhile.
            return Ok(false);
        }
        if path.0 > self.opened + 4 * AHEAD as u32 {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "NEW_CID far ahead"));
        }
        self.theirs.push((path, theirs));
        Ok(true)
    }

    /// A path that has been, or was passed over.
    pub(super) fn is_over(&self, path: PathId) -> bool {
        path.0 <= self.opened
    }

    /// The path that packets addressed to `id` would open.
    pub(super) fn expected(&self, id: ConnectionId) -> Option<PathId> {
        self.ours.iter().find(|(_, ours)| *ours == id).map(|(path, _)| *path)
    }

    /// The first path that both ends have ids for.
    pub(super) fn ready(&self) -> Option<PathId> {
        self.ours
            .iter()
            .map(|(path, _)| *path)
            .find(|path| self.theirs.iter().any(|(other, _)| other == path))
    }

    /// Takes the ids of a path that is opened, ours and theirs. Those of ours for lower paths, which will not be opened any more, go to
    /// `unused`.
    pub(super) fn open(
        &mut self,
        path: PathId,
        mut unused: impl FnMut(ConnectionId),
    ) -> Option<(ConnectionId, Theirs)> {
        let ours = self.ours.iter().find(|(id, _)| *id == path)?.1;
        let theirs = self.theirs.iter().find(|(id, _)| *id == path)?.1;
        self.ours.retain(|(id, spare)| {
            if *id < path {
                unused(*spare);
            }
            *id > path
        });
        self.theirs.retain(|(id, _)| *id > path);
        self.opened = path.0;
        self.next = self.next.max(path.0 + 2);
        Some((ours, theirs))
    }
}

/// Writes NEW_CID.
pub(super) fn write_new_cid(path: PathId, id: ConnectionId, token: &ResetToken) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + varint_len(u64::from(path.0)) + ConnectionId::LEN + ResetToken::LEN);
    let mut writer = Writer::new(&mut out, usize::MAX);
    writer.u8(block::NEW_CID);
    writer.varint(u64::from(path.0));
    writer.bytes(&id.to_bytes());
    writer.bytes(token.as_bytes());
    out
}

/// What NEW_CID says.
pub(super) fn read_new_cid(reader: &mut Reader) -> Result<(PathId, Theirs), PeerMisbehaved> {
    let path = read_path(reader)?;
    let id = ConnectionId::from_bytes(reader.array()?);
    let token = ResetToken::new(reader.array()?);
    Ok((path, Theirs { id, token }))
}

/// A path's id.
pub(super) fn read_path(reader: &mut Reader) -> Result<PathId, PeerMisbehaved> {
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

    fn theirs(number: u64) -> Theirs {
        Theirs { id: id(number), token: ResetToken::new([number as u8; 16]) }
    }

    #[test]
    fn a_path_opens_when_both_ends_gave_an_id() {
        let mut spare = SpareIds::default();
        assert_eq!(spare.ask(), AHEAD);
        assert_eq!(spare.ask(), 0, "asked already");
        assert_eq!(spare.issue(id(10)), PathId(2));
        assert_eq!(spare.issue(id(11)), PathId(4));
        assert_eq!(spare.ready(), None);
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(true));
        assert_eq!(spare.ready(), Some(PathId(2)));
        assert_eq!(spare.expected(id(10)), Some(PathId(2)));
        assert_eq!(spare.open(PathId(2), |_| {}), Some((id(10), theirs(20))));
        assert_eq!(spare.open(PathId(2), |_| {}), None, "once");
        assert_eq!(spare.ask(), 1, "another one ahead");
        assert_eq!(spare.issue(id(12)), PathId(6));
    }

    #[test]
    fn ids_come_in_any_order_and_lower_paths_are_passed_over() {
        let mut spare = SpareIds::default();
        spare.ask();
        spare.issue(id(10));
        spare.issue(id(11));
        assert_eq!(spare.take(PathId(4), theirs(21)), Ok(true));
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(true));
        assert_eq!(spare.ready(), Some(PathId(2)));
        let mut unused = Vec::new();
        assert_eq!(spare.open(PathId(4), |id| unused.push(id)), Some((id(11), theirs(21))));
        assert_eq!(unused, [id(10)]);
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(false), "never reused");
        assert_eq!(spare.ask(), AHEAD);
        assert_eq!(spare.issue(id(12)), PathId(6));
    }

    #[test]
    fn a_peer_cannot_make_it_grow_or_reuse_a_path() {
        let mut spare = SpareIds::default();
        assert_eq!(spare.take(PathId(2), theirs(20)), Ok(true));
        assert_eq!(spare.take(PathId(2), theirs(21)), Ok(false), "a repeated one changes nothing");
        assert!(spare.take(PathId(3), theirs(22)).is_err());
        assert!(spare.take(PathId(0), theirs(22)).is_err());
        assert!(spare.take(PathId(600), theirs(22)).is_err());
        assert!((4..100u32).step_by(2).any(|path| spare.take(PathId(path), theirs(path.into())).is_err()));
    }
}
