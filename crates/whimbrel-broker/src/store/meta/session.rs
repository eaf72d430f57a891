//! Sessions of MQTT clients, as they are kept on disk.

use whimbrel_pubsub::message::{Publication, PublisherId};

use super::outbound::Outbound;
use crate::store::format::{Cursor, Put};

/// The longest name of a session, bytes.
pub(super) const LONGEST_NAME: usize = 2_048;

/// A session of an MQTT client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// For how long it is kept after its client left, seconds.
    pub expiry_s: u32,
    /// When it ends, milliseconds since 1970. `None`: its client is connected.
    pub ends_ms: Option<u64>,
    /// The state that the gateway keeps of it, in a form that only the gateway knows.
    pub state: Vec<u8>,
}

/// A session as it was found at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSession {
    /// Its name.
    pub name: Vec<u8>,
    /// The session.
    pub session: Session,
    /// The packet identifiers of messages at QoS 2 that came and were not released, and the names under which they were published.
    pub received: Vec<(u16, Publication)>,
    /// The packet identifiers of messages at QoS 2 to the client that it did not complete.
    pub outbound: Vec<(u16, Outbound)>,
}

impl Session {
    /// The time at which it ends; `u64::MAX` while its client is connected.
    pub(super) fn ends(&self) -> u64 {
        self.ends_ms.unwrap_or(u64::MAX)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.state.len());
        out.put_u32(self.expiry_s);
        out.put_u64(self.ends());
        out.extend_from_slice(&self.state);
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let (expiry_s, ends) = (cursor.u32()?, cursor.u64()?);
        let ends_ms = (ends != u64::MAX).then_some(ends);
        Some(Self { expiry_s, ends_ms, state: cursor.0.to_vec() })
    }
}

pub(super) fn encode_publication(publication: Publication) -> Vec<u8> {
    let PublisherId(publisher) = publication.publisher;
    let mut out = Vec::with_capacity(24);
    out.put_u64((publisher >> 64) as u64);
    out.put_u64(publisher as u64);
    out.put_u64(publication.number);
    out
}

pub(super) fn parse_publication(bytes: &[u8]) -> Option<Publication> {
    let mut cursor = Cursor(bytes);
    let publisher = PublisherId(u128::from(cursor.u64()?) << 64 | u128::from(cursor.u64()?));
    let publication = Publication { publisher, number: cursor.u64()? };
    cursor.is_empty().then_some(publication)
}
