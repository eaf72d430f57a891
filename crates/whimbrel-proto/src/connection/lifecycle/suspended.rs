//! A suspended session as bytes: everything that another process needs to go on with it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use zeroize::Zeroizing;

use crate::crypto::{Claim, PublicKey, Secret};
use crate::session::{Session, SnapshotError};
use crate::wire::{Reader, Writer};
use crate::{StreamId, Time};

/// The version of the format that is written, and the only one that is read.
pub const SUSPENDED_VERSION: u8 = 2;
const MAGIC: [u8; 4] = *b"WMOC";
const CHECK_LEN: usize = 32;
/// An upper limit for the length of everything before the application's data.
const LONGEST_HEAD: usize = 256;

/// A session that is attached to no connection, and the right to attach it once. As secret as a private key: whoever
/// has both it and the identity goes on as its owner.
#[derive(Clone)]
pub struct Suspended {
    pub(crate) claim: Claim,
    /// The identity that suspended it.
    pub own_key: PublicKey,
    /// The peer's key.
    pub peer_key: PublicKey,
    /// The peer's address at that time.
    pub remote: SocketAddr,
    /// When it was suspended: the wall-clock time since the epoch.
    pub at: Duration,
    /// How long the peer waits. `None`: the peer was out of reach and did not say.
    pub peer_waits: Option<Duration>,
    /// The other key that may resume it, named in SUSPEND.
    pub heir: Option<PublicKey>,
    /// The application's own data, kept with the session.
    pub app_data: Bytes,
    pub(crate) snapshot: Bytes,
}

impl std::fmt::Debug for Suspended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { peer_key, remote, peer_waits, snapshot, .. } = self;
        write!(
            f,
            "Suspended {{ {peer_key} at {remote}, the peer waits {peer_waits:?}, {} bytes }}",
            snapshot.len()
        )
    }
}

impl Suspended {
    /// Returns versioned bytes with a checksum. Wipe them once they are written: they hold the session's secret.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Allocated at its full length: a buffer that grows leaves copies behind, and the secret is near its beginning.
        let mut bytes =
            Vec::with_capacity(LONGEST_HEAD + self.app_data.len() + self.snapshot.len() + CHECK_LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(SUSPENDED_VERSION);
        let mut out = Writer::new(&mut bytes, usize::MAX);
        out.bytes(&self.claim.session);
        out.u64(self.claim.epoch);
        out.bytes(self.claim.secret().bytes());
        out.bytes(self.own_key.as_bytes());
        out.bytes(self.peer_key.as_bytes());
        out.bytes(self.heir.as_ref().map_or(&[0; 32], |heir| heir.as_bytes()));
        match self.remote.ip() {
            IpAddr::V4(ip) => {
                out.u8(4);
                out.bytes(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.u8(6);
                out.bytes(&ip.octets());
            }
        }
        out.bytes(&self.remote.port().to_be_bytes());
        out.u64(self.at.as_millis() as u64);
        out.u64(self.peer_waits.map_or(u64::MAX, |peer_waits| peer_waits.as_millis() as u64));
        out.varint(self.app_data.len() as u64);
        out.bytes(&self.app_data);
        out.bytes(&self.snapshot);
        debug_assert!(bytes.len() + CHECK_LEN <= bytes.capacity(), "it has grown");
        let check = digest(&SHA256, &bytes);
        bytes.extend_from_slice(check.as_ref());
        bytes
    }

    /// Reads what [`Suspended::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`SnapshotError`] if the bytes are not a valid session. The session in them is restored as a trial, so that
    /// resuming cannot fail because of it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let head = bytes.get(..5).ok_or(SnapshotError::NotOne)?;
        if head[..4] != MAGIC {
            return Err(SnapshotError::NotOne);
        }
        if head[4] != SUSPENDED_VERSION {
            return Err(SnapshotError::Version { found: head[4] });
        }
        let end = bytes.len().checked_sub(CHECK_LEN).ok_or(SnapshotError::Truncated)?;
        let (body, check) = bytes.split_at(end);
        if digest(&SHA256, body).as_ref() != check {
            return Err(SnapshotError::Corrupt("its checksum does not fit: it is cut short or was changed"));
        }
        // Wiped when dropped: the secret precedes the messages, which stay in memory for as long as this is kept.
        let body = Zeroizing::new(body[5..].to_vec());
        let suspended = Self::read(Bytes::from_owner(body))?;
        suspended.restore(Time::ZERO, suspended.at)?;
        Ok(suspended)
    }

    fn read(body: Bytes) -> Result<Self, SnapshotError> {
        let key =
            |bytes: [u8; 32]| PublicKey::new(bytes).map_err(|_| SnapshotError::Corrupt("a key that is none"));
        let mut reader = Reader::new(body);
        let (session, epoch, secret) = (reader.array()?, reader.u64()?, Secret::new(reader.array()?));
        let (own_key, peer_key) = (key(reader.array()?)?, key(reader.array()?)?);
        let heir: [u8; 32] = reader.array()?;
        let heir = if heir == [0; 32] { None } else { Some(key(heir)?) };
        let ip = match reader.u8()? {
            4 => IpAddr::from(reader.array::<4>()?),
            6 => IpAddr::from(reader.array::<16>()?),
            _ => return Err(SnapshotError::Corrupt("an address of no family")),
        };
        let remote = SocketAddr::new(ip, u16::from_be_bytes(reader.array()?));
        let at = Duration::from_millis(reader.u64()?);
        let peer_waits = Some(reader.u64()?).filter(|ms| *ms != u64::MAX).map(Duration::from_millis);
        let app_data_len = reader.varint()?;
        let app_data = reader.bytes(app_data_len)?;
        if epoch > u64::MAX / 2 {
            return Err(SnapshotError::Corrupt("an epoch that no session reaches"));
        }
        let claim = Claim::new(session, epoch, secret);
        let snapshot = reader.rest();
        Ok(Self { claim, own_key, peer_key, remote, at, peer_waits, heir, app_data, snapshot })
    }

    /// Restores the session as it is at `now`, which is `wall` since the epoch by the wall clock.
    pub(crate) fn restore(&self, now: Time, wall: Duration) -> Result<Session, SnapshotError> {
        Session::restore(now, wall.saturating_sub(self.at), self.snapshot.clone())
    }

    /// Puts messages that were already fetched from the session back before all others. Changes nothing if that fails.
    ///
    /// # Errors
    /// [`SnapshotError`] if the session cannot be read.
    pub fn put_back(
        &mut self,
        messages: impl DoubleEndedIterator<Item = crate::session::Message>,
    ) -> Result<(), SnapshotError> {
        let mut session = self.restore(Time::ZERO, self.at)?;
        session.unread(messages);
        self.snapshot = Bytes::from_owner(Zeroizing::new(session.snapshot(Time::ZERO)));
        Ok(())
    }

    /// Returns the open byte streams.
    ///
    /// # Errors
    /// [`SnapshotError`] if the session cannot be read.
    pub fn byte_streams(&self) -> Result<Vec<StreamId>, SnapshotError> {
        Ok(self.restore(Time::ZERO, self.at)?.byte_streams())
    }
}
