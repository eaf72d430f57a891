//! The tie between a connection and its session.

use crate::crypto::{Claim, PublicKey};

/// The session that a connection carries, and the rights to resume it.
#[derive(Clone, Default)]
pub(crate) struct Attachment {
    /// The session's id, chosen by the client of the first handshake.
    pub(crate) session: Option<[u8; 16]>,
    /// The claim to the session, from the second attachment on. Before that it is derived from the keys.
    pub(crate) claim: Option<Box<Claim>>,
    /// Another key that may resume the session.
    pub(crate) heir: Option<Box<PublicKey>>,
    /// Claims that a peer may have by now: its RESUME was granted, but it may not have heard so.
    pub(crate) offered: Vec<Claim>,
}
