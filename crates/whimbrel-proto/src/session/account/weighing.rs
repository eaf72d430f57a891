//! Adding up the memory held for the peer, and covering it from the budgets.

use super::held::TOO_MUCH;
use crate::budget::Budgets;
use crate::session::chronicle::Note;
use crate::session::config::DEFAULT_STREAMS;
use crate::session::numbers::StreamSlot;
use crate::session::send::out_blocks::Notice;
use crate::session::state::Session;
use crate::{PeerMisbehaved, StreamId};

impl Session {
    /// Returns the memory held for the peer, bytes.
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

    /// Weighs a stream that may hold more or less than before.
    #[inline]
    pub(in crate::session) fn weigh(&mut self, slot: StreamSlot) {
        if let Some(stream) = self.streams.held_mut(slot) {
            let weight = stream.content.memory();
            let before = std::mem::replace(&mut stream.weight, weight);
            self.account.held.reweigh(before, weight);
        }
    }

    pub(in crate::session) fn weigh_all(&mut self) {
        for slot in self.streams.slots() {
            if self.streams.if_taken(slot).is_some() {
                self.weigh(slot);
            }
        }
    }

    /// Checks, after the peer sent something, that the memory held for it is covered, and takes more from the budgets
    /// if needed.
    #[inline]
    pub(in crate::session) fn cover_held(&mut self) -> Result<(), PeerMisbehaved> {
        self.grant_streams();
        if self.account.held.covers(self.held()) { Ok(()) } else { self.cover_more() }
    }

    /// Lets the peer open more streams if it has opened half of what it may, and if what it may then send on all of them
    /// could be held. A peer that keeps to its credit must not end its session.
    #[inline]
    pub(in crate::session) fn grant_streams(&mut self) {
        if self.counts.is_tight() && self.counts.limit() < self.config.streams() {
            self.grant_more_streams();
        }
    }

    fn grant_more_streams(&mut self) {
        // An eighth more than the bytes is for what surrounds them.
        let weigh = |share: u64| share + share / 8;
        let (first, later) = (StreamId(0), StreamId::nth(self.side, DEFAULT_STREAMS));
        let firsts = DEFAULT_STREAMS * weigh(self.config.share()) + weigh(self.share_of(first));
        let rest = self.account.held.reach().saturating_sub(firsts);
        let fitting = DEFAULT_STREAMS + rest / weigh(self.share_of(later));
        let limit = (2 * self.counts.limit()).min(self.config.streams()).min(fitting);
        if self.counts.widen(limit) {
            self.out_blocks.notify(Notice::MaxStreams);
        }
    }

    fn cover_more(&mut self) -> Result<(), PeerMisbehaved> {
        let limit = self.config.most_held().saturating_add(self.account.received.unread());
        if self.account.held.grow(self.held(), limit) {
            return Ok(());
        }
        // Memory kept only for speed must not end a session.
        self.trim();
        self.arenas.close_for(self.streams.slots().count());
        let total = self.held();
        if self.account.held.covers(total) || self.account.held.grow(total, limit) {
            Ok(())
        } else {
            self.chronicle.note(|| Note::MemoryExhausted { held: total, limit });
            Err(TOO_MUCH)
        }
    }

    /// Weighs a stream after something was read from it, and gives back what is not needed.
    #[inline]
    pub(in crate::session) fn on_lighter(&mut self, slot: StreamSlot) {
        // Memory within the assured share need not be known to the byte.
        if self.account.held.is_drawing() {
            // The read may have been the last one, which frees the stream.
            if self.streams.if_taken(slot).is_some() {
                self.weigh(slot);
            }
            self.account.held.shrink(self.held());
        }
    }

    /// Gives back what is not needed after something was read from the shared inbox.
    #[inline]
    pub(in crate::session) fn on_inbox_lighter(&mut self) {
        if self.account.held.is_drawing() {
            self.account.held.shrink(self.held());
        }
    }

    /// Gives back what is not needed, when the session is idle.
    pub(in crate::session) fn settle_held(&mut self) {
        self.weigh_all();
        let total = self.held();
        self.account.held.settle(total);
        self.settle_buffered();
    }

    /// Moves to these budgets with all that is held.
    pub(in crate::session) fn draw_on(&mut self, budgets: &Budgets) {
        self.weigh_all();
        self.account.held.draw_on(budgets, self.held());
        self.buffer_from(budgets);
    }

    /// Begins waiting for the peer. The data that waits to be sent is now counted as held for it. Returns false if
    /// there is no room for that.
    pub(crate) fn begin_wait(&mut self) -> bool {
        self.account.held.outgoing = self.outgoing_bytes();
        let covered = self.cover_held().is_ok();
        self.account.held.outgoing *= u64::from(covered);
        covered
    }

    /// Ends the wait when the peer is back.
    pub(crate) fn end_wait(&mut self) {
        self.account.held.outgoing = 0;
        self.on_inbox_lighter();
    }
}
