//! Adding up what is held for the peer, and covering it.

use super::held::TOO_MUCH;
use crate::PeerMisbehaved;
use crate::budget::Budgets;
use crate::session::numbers::StreamSlot;
use crate::session::state::Session;

impl Session {
    /// Everything that is held for the peer, bytes.
    pub fn held(&self) -> u64 {
        self.account.held.streams
            + self.account.held.outgoing
            + self.streams.memory()
            + self.counts.memory()
            + self.incoming.inbox.memory()
            + self.incoming.spares.memory()
            + self.arenas.bytes()
            + self.out_blocks.answers.memory()
            + self.incoming.received_tags.memory()
    }

    /// A stream may hold more or less than before.
    #[inline]
    pub(in crate::session) fn weigh(&mut self, slot: StreamSlot) {
        if let Some(stream) = self.streams.at_mut(slot) {
            let weight = stream.memory();
            let before = std::mem::replace(&mut stream.weight, weight);
            self.account.held.reweigh(before, weight);
        }
    }

    pub(in crate::session) fn weigh_all(&mut self) {
        for slot in self.streams.slots() {
            self.weigh(slot);
        }
    }

    /// The peer sent something: what is held for it now must be covered.
    #[inline]
    pub(in crate::session) fn cover_held(&mut self) -> Result<(), PeerMisbehaved> {
        if self.account.held.covers(self.held()) { Ok(()) } else { self.cover_more() }
    }

    fn cover_more(&mut self) -> Result<(), PeerMisbehaved> {
        let limit = self.config.most_held().saturating_add(self.account.received.unread());
        if self.account.held.grow(self.held(), limit) {
            return Ok(());
        }
        // What is kept for speed only must not end a session.
        self.trim();
        let total = self.held();
        if self.account.held.covers(total) || self.account.held.grow(total, limit) {
            Ok(())
        } else {
            Err(TOO_MUCH)
        }
    }

    /// Something was read from a stream.
    #[inline]
    pub(in crate::session) fn on_lighter(&mut self, slot: StreamSlot) {
        // What lies within the assured share need not be known to the byte.
        if self.account.held.is_drawing() {
            self.weigh(slot);
            self.account.held.shrink(self.held());
        }
    }

    /// Something was read from the shared inbox.
    #[inline]
    pub(in crate::session) fn on_inbox_lighter(&mut self) {
        if self.account.held.is_drawing() {
            self.account.held.shrink(self.held());
        }
    }

    /// Nothing happens for a while: what is not needed goes to others.
    pub(in crate::session) fn settle_held(&mut self) {
        self.weigh_all();
        let total = self.held();
        self.account.held.settle(total);
    }

    /// Draws on these budgets from now on, with all that is held.
    pub(in crate::session) fn draw_on(&mut self, budgets: &Budgets) {
        self.weigh_all();
        self.account.held.draw_on(budgets, self.held());
    }

    /// The session waits for its peer: what waits to be sent is held for it, too. False: there is no room for that.
    pub(crate) fn begin_wait(&mut self) -> bool {
        self.account.held.outgoing = self.outgoing_bytes();
        let covered = self.cover_held().is_ok();
        self.account.held.outgoing *= u64::from(covered);
        covered
    }

    /// The peer is back.
    pub(crate) fn end_wait(&mut self) {
        self.account.held.outgoing = 0;
        self.on_inbox_lighter();
    }
}
