//! Reset tokens of peers: whose connection a packet that ends in one means.

use std::collections::BTreeMap;

use rand::CryptoRng;

use super::handle::Handle;
use crate::crypto::{Blind, Blinded, ResetToken};

/// See the module. Indexed by a keyed hash: a stranger who measures look-ups learns nothing of a token.
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

    /// The connection compares the token itself, in constant time.
    pub(super) fn find(&self, token: &ResetToken) -> Option<Handle> {
        if self.owners.is_empty() {
            return None;
        }
        self.owners.get(&self.blind.of(token)).copied()
    }
}
