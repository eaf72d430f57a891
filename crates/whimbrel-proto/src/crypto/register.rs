//! A bounded memory of used cookies and tickets, which must not be used again.

use std::collections::{BTreeMap, BTreeSet};

use crate::debug_only::debug_only;
use crate::{ConnectionId, Time};

/// Connection ids whose cookie or ticket was used, each with the Noise ephemeral that used it, kept until the cookie
/// or ticket would have expired.
///
/// Every cookie and ticket belongs to one server id and is worthless with another, so the id stands for it.
pub struct Register {
    used: BTreeMap<ConnectionId, Used>,
    by_time: BTreeSet<(Time, ConnectionId)>,
    bound: usize,
    refused: u64,
}

debug_only!(Register { bound, refused });

struct Used {
    /// The Noise ephemeral that used the id; `None` if the id was withdrawn.
    ephemeral: Option<[u8; 32]>,
}

/// The state of an id in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The id is unknown and may be used.
    Never,
    /// The id was used by this very message, which gets the same answer.
    Repeated,
    /// The id was used by another message, or withdrawn.
    Used,
    /// The id is unknown, but there is no room to remember it, so it must be refused.
    Full,
}

impl Register {
    /// Creates a register for up to `bound` ids, of about 100 bytes each.
    pub const fn new(bound: usize) -> Self {
        Self { used: BTreeMap::new(), by_time: BTreeSet::new(), bound, refused: 0 }
    }

    /// Returns whether `id` was used, and whether by the message with this Noise ephemeral.
    pub fn look(&mut self, now: Time, id: ConnectionId, ephemeral: &[u8; 32]) -> Seen {
        self.forget(now);
        match self.used.get(&id) {
            Some(used) if used.ephemeral.as_ref() == Some(ephemeral) => Seen::Repeated,
            Some(_) => Seen::Used,
            None if self.used.len() >= self.bound => {
                self.refused += 1;
                Seen::Full
            }
            None => Seen::Never,
        }
    }

    /// Marks `id` as used until `until`, when its cookie or ticket expires. Call only after [`Seen::Never`].
    pub fn mark(&mut self, id: ConnectionId, ephemeral: [u8; 32], until: Time) {
        self.insert(id, Some(ephemeral), until);
    }

    /// Marks `id` as used without a message that could repeat it. Call only after [`Seen::Never`].
    pub fn withdraw(&mut self, id: ConnectionId, until: Time) {
        self.insert(id, None, until);
    }

    fn insert(&mut self, id: ConnectionId, ephemeral: Option<[u8; 32]>, until: Time) {
        debug_assert!(self.used.len() < self.bound, "look first");
        self.used.insert(id, Used { ephemeral });
        self.by_time.insert((until, id));
    }

    /// Returns whether no more than a quarter of the room is left.
    pub(crate) fn is_crowded(&self) -> bool {
        self.used.len() >= self.bound - self.bound / 4
    }

    /// Returns the number of ids remembered.
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Returns whether no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Returns the number of ids refused for want of room.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn forget(&mut self, now: Time) {
        while let Some((until, id)) = self.by_time.first().copied().filter(|(until, _)| *until < now) {
            self.by_time.remove(&(until, id));
            self.used.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn at_the_bound_new_ones_are_refused_until_old_ones_are_forgotten() {
        let mut register = Register::new(2);
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        for id in 0..2 {
            assert_eq!(register.look(at(0), ConnectionId(id), &[1; 32]), Seen::Never);
            register.mark(ConnectionId(id), [1; 32], at(10 + id));
        }
        assert_eq!(register.look(at(1), ConnectionId(2), &[1; 32]), Seen::Full);
        assert_eq!(register.look(at(1), ConnectionId(1), &[1; 32]), Seen::Repeated);
        assert_eq!(register.look(at(1), ConnectionId(1), &[2; 32]), Seen::Used);
        assert_eq!((register.len(), register.refused()), (2, 1));
        assert_eq!(register.look(at(11), ConnectionId(2), &[1; 32]), Seen::Never);
        assert_eq!(register.len(), 1);
        register.withdraw(ConnectionId(2), at(20));
        assert_eq!(register.look(at(20), ConnectionId(2), &[0; 32]), Seen::Used);
    }
}
