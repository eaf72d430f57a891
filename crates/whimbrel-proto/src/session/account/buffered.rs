//! The bytes that the application has handed over and the session still holds, and what of them comes out of the
//! endpoint's send budget.
//!
//! The peer decides how long they stay: it need only stop reading or acknowledging. So they have a budget of their own,
//! divided as the budget for what is held for peers. When it is used up, applications wait; no session ends. They wait
//! for their own session, and never for another's: a session keeps what it is assured of, and so does each stream.

use super::held::room;
use crate::budget::{Budget, Budgets};
use crate::session::state::Session;

/// Bytes every session may buffer, whatever others do.
const OF_SESSION: u64 = 64 << 10;
/// Bytes every byte stream may buffer, however little of the budget is left.
pub(in crate::session) const OF_STREAM: u64 = 16 << 10;
/// The step in which more is taken from the budget, bytes. Large steps keep sessions from contending for it often.
const STEP: u64 = 64 << 10;
/// What a session keeps beyond its need, since it will want it again, bytes.
const SPARE: u64 = 2 * STEP;

/// The send buffers of one session together, and what they have of the budget.
#[derive(Debug)]
pub(in crate::session) struct Buffered {
    budget: Budget,
    /// Bytes taken from the budget.
    taken: u64,
    /// Bytes in the buffers of byte streams.
    streams: u64,
}

impl Default for Buffered {
    fn default() -> Self {
        Self { budget: Budgets::unlimited().send, taken: 0, streams: 0 }
    }
}

impl Buffered {
    /// Updates the sum after the buffer of a byte stream has changed.
    #[inline]
    pub(in crate::session) fn adjust(&mut self, before: u64, now: u64) {
        self.streams = self.streams + now - before;
    }

    #[inline]
    fn covered(&self) -> u64 {
        OF_SESSION + self.taken
    }

    /// Returns the largest total that the session could hold now.
    fn reach(&self) -> u64 {
        let more = room(&self.budget).saturating_sub(self.taken).min(self.budget.free());
        self.covered().saturating_add(more / STEP * STEP)
    }

    /// Returns whether the session could hold this many bytes.
    #[inline]
    fn has_room(&self, total: u64) -> bool {
        total <= self.covered() || total <= self.reach()
    }

    /// Takes what a total needs, even if there is no such room: it was promised to a stream, or another session was
    /// faster. What there is no room for is not rounded up, so that no other stream fills what is left of the step.
    #[inline]
    fn cover(&mut self, total: u64) {
        if total > self.covered() {
            self.grow(total);
        }
    }

    fn grow(&mut self, total: u64) {
        let needed = if total <= self.reach() { Self::needed(total) } else { total - OF_SESSION };
        let more = needed.saturating_sub(self.taken);
        self.budget.force(more);
        self.taken += more;
    }

    /// Returns what a total needs beyond the assured bytes, in whole steps.
    fn needed(total: u64) -> u64 {
        total.saturating_sub(OF_SESSION).next_multiple_of(STEP)
    }

    /// Gives back what a total does not need. While others are short of it, that is everything. Otherwise whole steps
    /// stay, and `spare` beyond them.
    #[inline]
    fn keep(&mut self, total: u64, spare: u64) {
        if self.taken > Self::needed(total) + spare || self.taken > 0 && self.budget.is_short() {
            let beyond = total.saturating_sub(OF_SESSION);
            let needed = if self.budget.is_short() { beyond } else { Self::needed(total) + spare };
            let surplus = self.taken.saturating_sub(needed);
            self.budget.give_back(surplus);
            self.taken -= surplus;
        }
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

impl Session {
    /// Returns the bytes that wait to be sent, and those of byte streams that wait to be acknowledged.
    #[inline]
    fn buffered(&self) -> u64 {
        self.outbox.bytes() + self.account.buffered.streams
    }

    /// Returns whether there is room for a message of this length, once `leaving` bytes have left the queue for it.
    #[inline]
    pub(in crate::session) fn has_buffer(&self, length: u64, leaving: u64) -> bool {
        self.account.buffered.has_room((self.buffered() + length).saturating_sub(leaving))
    }

    /// Returns how many bytes more there is room for.
    pub(in crate::session) fn buffer_room(&self) -> u64 {
        self.account.buffered.reach().saturating_sub(self.buffered())
    }

    /// Covers what was added to the queue and to the buffers.
    #[inline]
    pub(in crate::session) fn cover_buffered(&mut self) {
        let total = self.buffered();
        self.account.buffered.cover(total);
    }

    /// Gives back what is not needed after something has left the queue or a buffer.
    #[inline]
    pub(in crate::session) fn on_buffer_lighter(&mut self) {
        if self.account.buffered.taken > 0 {
            let total = self.buffered();
            self.account.buffered.keep(total, SPARE);
        }
    }

    /// Gives back everything that is not needed now.
    pub(in crate::session) fn settle_buffered(&mut self) {
        let total = self.buffered();
        self.account.buffered.keep(total, 0);
    }

    /// Moves to this budget with all that is buffered.
    pub(in crate::session) fn buffer_from(&mut self, budgets: &Budgets) {
        let streams = self.account.buffered.streams;
        self.account.buffered = Buffered { budget: budgets.send.clone(), taken: 0, streams };
        self.cover_buffered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(budget: &Budget) -> Buffered {
        Buffered { budget: budget.clone(), ..Buffered::default() }
    }

    #[test]
    fn the_assured_bytes_are_nobodys_business() {
        let budget = Budget::new(0);
        let mut buffered = on(&budget);
        assert!(buffered.has_room(OF_SESSION) && !buffered.has_room(OF_SESSION + 1));
        buffered.cover(OF_SESSION);
        assert_eq!(budget.used(), 0);
        buffered.cover(OF_SESSION + OF_STREAM);
        assert_eq!(budget.used(), OF_STREAM, "a stream's own share is counted");
        assert!(!buffered.has_room(OF_SESSION + OF_STREAM + 1));
        drop(buffered);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_sent_is_given_back() {
        let budget = Budget::new(640 * STEP);
        let mut buffered = on(&budget);
        assert!(buffered.has_room(OF_SESSION + 80 * STEP) && !buffered.has_room(OF_SESSION + 80 * STEP + 1));
        buffered.cover(OF_SESSION + 10 * STEP);
        assert_eq!(budget.used(), 10 * STEP);
        buffered.keep(OF_SESSION + 9 * STEP, SPARE);
        assert_eq!(budget.used(), 10 * STEP, "it will be wanted again");
        buffered.keep(1, SPARE);
        assert_eq!(budget.used(), SPARE);
        buffered.keep(1, 0);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn who_buffers_all_it_can_leaves_something() {
        let budget = Budget::new(600 * STEP);
        let greedy: Vec<Buffered> = (0..20)
            .map(|_| {
                let mut buffered = on(&budget);
                let reach = buffered.reach();
                buffered.cover(reach);
                buffered
            })
            .collect();
        assert!(on(&budget).has_room(OF_SESSION + STEP), "{} steps free", budget.free() / STEP);
        drop(greedy);
        assert_eq!(budget.used(), 0);
    }
}
