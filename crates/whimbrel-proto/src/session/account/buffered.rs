//! The bytes that the application has handed over and the session still holds, and what of them comes out of the
//! endpoint's send budget.
//!
//! The peer decides how long they stay: it need only stop reading or acknowledging. So they have a budget of their own,
//! divided as the budget for what is held for peers. When it is used up, applications wait; no session ends. They wait
//! for their own session, and never for another's: a session keeps what it is assured of, and so does each stream.

use super::held::most_of;
use crate::budget::{Budget, Budgets};
use crate::session::state::Session;

/// Bytes every session may buffer, whatever others do.
const OF_SESSION: u64 = 64 << 10;
/// Bytes every byte stream may buffer, however little of the budget is left.
const OF_STREAM: u64 = 16 << 10;
/// The step in which more is taken from the budget, bytes. Large steps keep sessions from contending for it often.
const STEP: u64 = 64 << 10;
/// The most that a session keeps beyond its need, since it will want it again, bytes.
const SPARE: u64 = 2 * STEP;

/// The send buffers of one session together, and what they have of the budget.
#[derive(Debug)]
pub(in crate::session) struct Buffered {
    budget: Budget,
    /// Bytes taken from the budget.
    taken: u64,
    /// Bytes in the buffers of byte streams.
    streams: u64,
    /// Those of them beyond what each stream is assured of.
    beyond: u64,
}

impl Default for Buffered {
    fn default() -> Self {
        Self { budget: Budgets::unlimited().send, taken: 0, streams: 0, beyond: 0 }
    }
}

impl Buffered {
    /// Updates the sums after the buffer of a byte stream has changed.
    #[inline]
    pub(in crate::session) fn adjust(&mut self, before: u64, now: u64) {
        self.streams = self.streams + now - before;
        self.beyond = self.beyond + now.saturating_sub(OF_STREAM) - before.saturating_sub(OF_STREAM);
    }

    #[inline]
    fn covered(&self) -> u64 {
        OF_SESSION + self.taken
    }

    /// Returns the most bytes that the session may hold now, without those that each stream is assured of.
    #[inline(never)]
    fn most(&self) -> u64 {
        let free = self.budget.free().saturating_add(self.taken);
        OF_SESSION.saturating_add(most_of(&self.budget, self.taken).min(free))
    }

    /// Takes what a total needs, even if there is no such room: it was promised to a stream, or another session was
    /// faster. What there is no room for is not rounded up, so that no other stream fills what is left of the step.
    #[inline]
    fn cover(&mut self, total: u64) {
        if total > self.covered() {
            self.grow(total);
        }
    }

    #[cold]
    fn grow(&mut self, total: u64) {
        let needed = if total <= self.most() { Self::needed(total) } else { total - OF_SESSION };
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
        let buffered = &self.account.buffered;
        (self.buffered() + length).saturating_sub(leaving) <= buffered.covered()
            || (self.outbox.bytes() + buffered.beyond + length).saturating_sub(leaving) <= buffered.most()
    }

    /// Returns how many bytes more there is room for.
    pub(in crate::session) fn buffer_room(&self) -> u64 {
        let buffered = &self.account.buffered;
        buffered.most().saturating_sub(self.outbox.bytes() + buffered.beyond)
    }

    /// Returns how many bytes more a byte stream may buffer that has `kept` bytes. Streams whose peers give them no
    /// credit fill at most half of what there is, so that readers that have stopped leave room for the others.
    pub(in crate::session) fn stream_room(&self, kept: u64, has_credit: bool) -> u64 {
        let buffered = &self.account.buffered;
        let most = if has_credit { buffered.most() } else { buffered.most() / 2 };
        let room = most.saturating_sub(self.outbox.bytes() + buffered.beyond);
        room.saturating_add(OF_STREAM.saturating_sub(kept))
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
        let Buffered { streams, beyond, .. } = self.account.buffered;
        self.account.buffered = Buffered { budget: budgets.send.clone(), taken: 0, streams, beyond };
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
        assert_eq!(buffered.most(), OF_SESSION);
        buffered.cover(OF_SESSION);
        assert_eq!(budget.used(), 0);
        buffered.cover(OF_SESSION + OF_STREAM);
        assert_eq!(budget.used(), OF_STREAM, "a stream's own share is counted");
        drop(buffered);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_sent_is_given_back() {
        let budget = Budget::new(900 * STEP);
        let mut buffered = on(&budget);
        assert_eq!(buffered.most(), OF_SESSION + 100 * STEP);
        buffered.cover(OF_SESSION + 10 * STEP);
        assert_eq!((budget.used(), buffered.most()), (10 * STEP, OF_SESSION + 100 * STEP));
        buffered.keep(OF_SESSION + 9 * STEP, SPARE);
        assert_eq!(budget.used(), 10 * STEP, "it will be wanted again");
        buffered.keep(1, SPARE);
        assert_eq!(budget.used(), SPARE);
        buffered.keep(1, 0);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn who_buffers_all_it_can_leaves_something() {
        let budget = Budget::new(900 * STEP);
        let greedy: Vec<Buffered> = (0..20)
            .map(|_| {
                let mut buffered = on(&budget);
                buffered.cover(buffered.most());
                buffered
            })
            .collect();
        assert!(on(&budget).most() > OF_SESSION + STEP, "{} steps free", budget.free() / STEP);
        drop(greedy);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn only_what_is_beyond_their_shares_is_in_common() {
        let mut buffered = on(&Budget::new(900 * STEP));
        buffered.adjust(0, 5);
        buffered.adjust(5, OF_STREAM);
        assert_eq!((buffered.streams, buffered.beyond), (OF_STREAM, 0));
        buffered.adjust(OF_STREAM, OF_STREAM + 7);
        buffered.adjust(0, OF_STREAM + 1);
        assert_eq!((buffered.streams, buffered.beyond), (2 * OF_STREAM + 8, 8));
        buffered.adjust(OF_STREAM + 7, 0);
        assert_eq!((buffered.streams, buffered.beyond), (OF_STREAM + 1, 1));
    }
}
