//! What ties a connection to its session.

use crate::crypto::{Claim, PublicKey};

/// By what a session is known when it comes back.
#[derive(Clone, Default)]
pub(crate) struct Attachment {
    /// Chosen by the client of the first handshake.
    pub(crate) session: Option<[u8; 16]>,
    /// From the second attachment on; before that it follows from the keys.
    pub(crate) claim: Option<Box<Claim>>,
    /// Another key that may resume it.
    pub(crate) heir: Option<Box<PublicKey>>,
    /// Claims that a peer may have by now: its RESUME was granted, and whether it heard so is not known.
    pub(crate) offered: Vec<Claim>,
}
