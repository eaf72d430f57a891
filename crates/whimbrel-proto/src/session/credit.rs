//! Credit: sums of charges against absolute limits, on both sides.

#[path = "snapshot/credit.rs"]
mod snapshot;

use crate::mutants::{Mutant, planted};
use crate::{Cause, PeerMisbehaved};

/// What we may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendCredit {
    used: u64,
    limit: u64,
}

impl SendCredit {
    pub(super) fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    /// A message may begin: it may overdraw, the next may not.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.admits(0)
    }

    /// A message may begin behind others that are charged this much.
    #[inline]
    pub(super) fn admits(&self, before: u64) -> bool {
        self.used + before < self.limit || planted(Mutant::CreditIgnored)
    }

    /// Bytes that fit without overdrawing.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    #[inline]
    pub(super) fn charge(&mut self, charge: u64) {
        self.used += charge;
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// A new limit; says whether it opened.
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let was_open = self.is_open();
        self.limit = self.limit.max(limit);
        !was_open && self.is_open()
    }
}

/// What the peer may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecvCredit {
    charged: u64,
    consumed: u64,
    granted: u64,
    window: u64,
    /// An update waits to be sent or was sent and not lost.
    due: bool,
}

impl RecvCredit {
    pub(super) fn new(window: u64) -> Self {
        Self { charged: 0, consumed: 0, granted: window, window, due: false }
    }

    /// `charge` was used; `overdraft` is by how much the last message begun may exceed the limit.
    #[inline]
    pub(super) fn charge(&mut self, charge: u64, overdraft: u64) -> Result<(), PeerMisbehaved> {
        self.charged = self.charged.saturating_add(charge);
        if self.charged > self.granted.saturating_add(overdraft) {
            return Err(PeerMisbehaved::new(Cause::Credit, "more data than was granted"));
        }
        Ok(())
    }

    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// Of what came, what was not read.
    pub(super) fn unread(&self) -> u64 {
        self.charged.saturating_sub(self.consumed)
    }

    /// Nothing of what came waits to be read.
    pub(super) fn is_read(&self) -> bool {
        self.consumed == self.charged
    }

    /// `amount` was read or will never be; says whether an update is due that was not before.
    #[inline]
    pub(super) fn consume(&mut self, amount: u64) -> bool {
        self.consumed += amount;
        let due = !self.due && self.consumed + self.window >= self.granted + self.window / 2;
        self.due |= due;
        due
    }

    /// The new limit, now being sent.
    pub(super) fn grant(&mut self) -> u64 {
        self.due = false;
        self.granted = self.granted.max(self.consumed + self.window);
        self.granted
    }
}
