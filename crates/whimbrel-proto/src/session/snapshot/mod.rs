//! Saving a session as bytes and restoring it. [`Session::restore`] takes what [`Session::snapshot`] writes, in another
//! process or on another host.
//!
//! Each part of the session writes itself, in a file of its own beside this one. Data in flight is written as lost. A
//! session that was away does not know what arrived and sends it again, and the peer recognises it by its number.
//! Everything acknowledged to the peer is saved, so nothing is lost. Nothing that the peer acknowledged is saved, so
//! little is sent twice.

pub(super) mod codec;
mod fields;
mod send_items;

use std::time::Duration;

use bytes::Bytes;
use codec::{In, OLDEST_VERSION, Out, SNAPSHOT_VERSION, SnapshotError};

use crate::Time;
use crate::session::state::Session;

/// The first bytes of every snapshot.
const MAGIC: [u8; 4] = *b"WSES";

impl Session {
    /// Returns everything that exactly-once delivery depends on, as bytes. The session should first be told that all
    /// packets in flight are lost.
    pub fn snapshot(&mut self, now: Time) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(SNAPSHOT_VERSION);
        self.save(&mut Out::new(&mut bytes, now));
        bytes
    }

    /// Restores a session from the bytes that [`Session::snapshot`] returned `suspended_for` ago by the wall clock. Lifetimes
    /// have run on meanwhile. Events start over, so unread messages are announced once more.
    ///
    /// # Errors
    /// Returns a [`SnapshotError`]. A session is never restored in part.
    pub fn restore(now: Time, suspended_for: Duration, bytes: Bytes) -> Result<Self, SnapshotError> {
        let head = bytes.get(..5).ok_or(SnapshotError::NotOne)?;
        if head[..4] != MAGIC {
            return Err(SnapshotError::NotOne);
        }
        let version = head[4];
        if !(OLDEST_VERSION..=SNAPSHOT_VERSION).contains(&version) {
            return Err(SnapshotError::Version { found: version });
        }
        let mut input = In::new(bytes.slice(5..), version, now, suspended_for);
        let mut session = Self::load(&mut input)?;
        if !input.is_over() {
            return Err(codec::BROKEN);
        }
        session.wake_up(now);
        Ok(session)
    }
}
