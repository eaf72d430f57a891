//! The reset tokens of peers, which tell the connection that a reset is for.

use std::collections::BTreeMap;

use rand::CryptoRng;

use super::handle::Handle;
use crate::crypto::{Blind, Blinded, ResetToken};

/// Connections by reset token; see the module documentation. The index uses a keyed hash, so that lookup times reveal
/// nothing of a token.
pub(super) struct Tokens {
    blind: Blind,
    owners: BTreeMap<Blinded, Handle>,
}

impl Tokens {
    pub(super) fn new(rng: &mut impl CryptoRng) -> Self {
        Self { blind: Blind::new(rng), owners: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, token: &ResetToken, owner: Handle) {
        self.owners.insert(self.blind.of(token), owner);
    }

    pub(super) fn remove(&mut self, token: &ResetToken) {
        self.owners.remove(&self.blind.of(token));
    }

    /// Finds the connection of a token. The connection then compares the token itself, in constant time.
    pub(super) fn find(&self, token: &ResetToken) -> Option<Handle> {
        if self.owners.is_empty() {
            return None;
        }
        self.owners.get(&self.blind.of(token)).copied()
    }
}
