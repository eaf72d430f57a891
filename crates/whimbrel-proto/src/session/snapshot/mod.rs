//! A session as bytes, and back: what [`Session::snapshot`] writes [`Session::restore`] takes, in another process or on another host.
//!
//! Each part of the session writes itself, in a file of its own beside this one. What is in flight is written as lost: a session that
//! was away does not know what arrived, sends it again, and the peer knows it by its number. Nothing that was acknowledged to the peer is
//! left out, so nothing is lost; nothing that the peer acknowledged is kept, so little goes twice.

pub(super) mod codec;
mod fields;
mod send_items;

use std::time::Duration;

use bytes::Bytes;
use codec::{In, OLDEST_VERSION, Out, SNAPSHOT_VERSION, SnapshotError};

use crate::Time;
use crate::session::state::Session;

/// What every snapshot begins with.
const MAGIC: [u8; 4] = *b"WSES";

impl Session {
    /// All that exactly-once rests on, as bytes. The session is best told first that all it has in flight is lost.
    pub fn snapshot(&mut self, now: Time) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(SNAPSHOT_VERSION);
        self.save(&mut Out::new(&mut bytes, now));
        bytes
    }

    /// The session that [`Session::snapshot`] made bytes of, `away` ago by the wall clock: lifetimes have run on meanwhile. Its news
    /// begins anew: what is unread is announced once more.
    ///
    /// # Errors
    /// [`SnapshotError`]; there is no half of a session.
    pub fn restore(now: Time, away: Duration, bytes: Bytes) -> Result<Self, SnapshotError> {
        let head = bytes.get(..5).ok_or(SnapshotError::NotOne)?;
        if head[..4] != MAGIC {
            return Err(SnapshotError::NotOne);
        }
        let version = head[4];
        if !(OLDEST_VERSION..=SNAPSHOT_VERSION).contains(&version) {
            return Err(SnapshotError::Version { found: version });
        }
        let mut input = In::new(bytes.slice(5..), version, now, away);
        let mut session = Self::load(&mut input)?;
        if !input.is_over() {
            return Err(codec::BROKEN);
        }
        session.wake_up(now);
        Ok(session)
    }
}
