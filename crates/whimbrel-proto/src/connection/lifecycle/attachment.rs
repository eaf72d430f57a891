//! The tie between a connection and its session.

use crate::crypto::{Claim, PublicKey, Secret};

/// The most claims that are offered at a time.
const MOST_OFFERED: usize = 4;

/// The session that a connection carries, and the rights to resume it.
#[derive(Clone, Default)]
pub(crate) struct Attachment {
    /// The session's id, chosen by the client of the first handshake.
    session: Option<[u8; 16]>,
    /// The claim to the session, from the second attachment on. Before that it is derived from the keys.
    claim: Option<Box<Claim>>,
    /// Another key that may resume the session.
    heir: Option<Box<PublicKey>>,
    /// Claims that a peer may have by now: its RESUME was granted, but it may not have heard so.
    offered: Vec<Claim>,
}

impl Attachment {
    /// The attachment to a session that was suspended.
    pub(crate) fn restored(claim: Claim) -> Self {
        Self { session: Some(claim.session), claim: Some(Box::new(claim)), ..Self::default() }
    }

    /// Sets the session's id. `None` if the client gave it none.
    pub(crate) fn name(&mut self, session: Option<[u8; 16]>) {
        self.session = session;
    }

    pub(crate) fn session(&self) -> Option<[u8; 16]> {
        self.session
    }

    /// Returns the claim that proves that this is the session's other end. `secret` derives the first one.
    pub(in crate::connection) fn claim(&self, secret: impl FnOnce() -> Option<Secret>) -> Option<Claim> {
        match &self.claim {
            Some(claim) => Some((**claim).clone()),
            None => Some(Claim::new(self.session?, 0, secret()?)),
        }
    }

    /// From now on, this claim proves the right to the session.
    pub(in crate::connection) fn advance(&mut self, claim: Claim) {
        self.claim = Some(Box::new(claim));
    }

    /// Lets another key resume the session, or no other one.
    pub(in crate::connection) fn set_heir(&mut self, heir: Option<PublicKey>) {
        self.heir = heir.map(Box::new);
    }

    pub(in crate::connection) fn is_heir(&self, key: &PublicKey) -> bool {
        self.heir.as_deref() == Some(key)
    }

    /// Takes the right to resume from an heir that is refused.
    pub(in crate::connection) fn recheck_heir(&mut self, lets_in: impl FnOnce(&PublicKey) -> bool) {
        if self.heir.as_deref().is_some_and(|heir| !lets_in(heir)) {
            self.heir = None;
        }
    }

    /// Notes a claim that the peer has once it hears that its RESUME was granted. The oldest offer gives way.
    pub(in crate::connection) fn offer(&mut self, claim: Claim) {
        if self.offered.len() >= MOST_OFFERED {
            self.offered.remove(0);
        }
        self.offered.push(claim);
    }

    /// Goes on with the offered claim that is proven. All other offers become void. Returns whether there is one.
    pub(in crate::connection) fn accept_offered(&mut self, is_proven: impl Fn(&Claim) -> bool) -> bool {
        let Some(at) = self.offered.iter().position(is_proven) else { return false };
        let claim = self.offered.swap_remove(at);
        self.advance(claim);
        self.offered.clear();
        true
    }

    /// The session has moved to another connection: offers and the heir's right are void.
    pub(in crate::connection) fn on_attached(&mut self) {
        self.offered.clear();
        self.heir = None;
    }
}
