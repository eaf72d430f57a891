//! Counts PINGs that came with a valid cookie but failed to open. Anyone who sees a cookie can send some, and each
//! costs a key agreement.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ConnectionId, Time};

/// PINGs that may be tried with one cookie before it is void. It exceeds one because a genuine PING may be damaged in
/// transit.
const MOST: u8 = 4;
/// The number of cookies for which failures are counted. For further ones only the limits per second apply.
const MOST_COOKIES: usize = 65_536;

/// The tries of all cookies; see the module documentation. A cookie is identified by its server id and forgotten once
/// it has expired.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    tried: BTreeMap<ConnectionId, Tried>,
    by_time: BTreeSet<(Time, ConnectionId)>,
}

#[derive(Debug)]
struct Tried {
    until: Time,
    begun: u8,
    /// The heads of the ephemeral keys of PINGs being opened; 0 marks a free slot.
    under_way: [u64; MOST as usize],
}

/// How to treat a PING with a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// The PING may be opened.
    Fresh,
    /// The PING is already being opened.
    UnderWay,
    /// Too many PINGs with this cookie were tried.
    Void,
}

impl Tries {
    /// Returns how to treat a PING with this Noise ephemeral.
    pub(crate) fn look(&mut self, now: Time, id: ConnectionId, ephemeral: &[u8; 32]) -> Try {
        self.forget(now);
        match self.tried.get(&id) {
            Some(tried) if tried.under_way.contains(&head(ephemeral)) => Try::UnderWay,
            Some(tried) if tried.begun >= MOST => Try::Void,
            _ => Try::Fresh,
        }
    }

    /// Notes that a PING is being opened. Its cookie expires at `until`.
    pub(crate) fn begin(&mut self, id: ConnectionId, ephemeral: &[u8; 32], until: Time) {
        if self.tried.len() >= MOST_COOKIES && !self.tried.contains_key(&id) {
            return;
        }
        let fresh = Tried { until, begun: 0, under_way: [0; MOST as usize] };
        let tried = self.tried.entry(id).or_insert(fresh);
        self.by_time.insert((tried.until, id));
        tried.begun = tried.begun.saturating_add(1);
        if let Some(slot) = tried.under_way.iter_mut().find(|slot| **slot == 0) {
            *slot = head(ephemeral);
        }
    }

    /// Notes that a PING failed to open.
    pub(crate) fn fail(&mut self, id: ConnectionId, ephemeral: &[u8; 32]) {
        let slots = self.tried.get_mut(&id).map(|tried| &mut tried.under_way);
        if let Some(slot) = slots.and_then(|slots| slots.iter_mut().find(|slot| **slot == head(ephemeral))) {
            *slot = 0;
        }
    }

    /// Notes that a PING is not opened after all.
    pub(crate) fn release(&mut self, id: ConnectionId, ephemeral: &[u8; 32]) {
        self.fail(id, ephemeral);
        if let Some(tried) = self.tried.get_mut(&id) {
            tried.begun = tried.begun.saturating_sub(1);
        }
    }

    /// Forgets a cookie whose PING opened, or that is remembered elsewhere.
    pub(crate) fn settle(&mut self, id: ConnectionId) {
        if let Some(tried) = self.tried.remove(&id) {
            self.by_time.remove(&(tried.until, id));
        }
    }

    fn forget(&mut self, now: Time) {
        while let Some((until, id)) = self.by_time.first().copied().filter(|(until, _)| *until < now) {
            self.by_time.remove(&(until, id));
            self.tried.remove(&id);
        }
    }
}

fn head(ephemeral: &[u8; 32]) -> u64 {
    // Zero marks a free slot.
    ephemeral.first_chunk().map_or(0, |head| u64::from_be_bytes(*head)).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ID: ConnectionId = ConnectionId(5);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_cookie_is_void_after_a_few_failures_and_forgotten_in_time() {
        let mut tries = Tries::default();
        for byte in 1..=MOST {
            assert_eq!(tries.look(at(1), ID, &[byte; 32]), Try::Fresh);
            tries.begin(ID, &[byte; 32], at(10));
            assert_eq!(tries.look(at(1), ID, &[byte; 32]), Try::UnderWay);
            tries.fail(ID, &[byte; 32]);
        }
        assert_eq!(tries.look(at(1), ID, &[9; 32]), Try::Void);
        assert_eq!(tries.look(at(1), ConnectionId(6), &[9; 32]), Try::Fresh);
        assert_eq!(tries.look(at(11), ID, &[9; 32]), Try::Fresh);
        assert!(tries.tried.is_empty() && tries.by_time.is_empty());
    }

    #[test]
    fn what_was_given_up_is_no_failure() {
        let mut tries = Tries::default();
        for _ in 0..2 * MOST {
            tries.begin(ID, &[1; 32], at(10));
            tries.release(ID, &[1; 32]);
        }
        assert_eq!(tries.look(at(1), ID, &[1; 32]), Try::Fresh);
    }

    #[test]
    fn what_opened_leaves_nothing_behind() {
        let mut tries = Tries::default();
        tries.begin(ID, &[1; 32], at(10));
        tries.begin(ID, &[2; 32], at(10));
        tries.fail(ID, &[1; 32]);
        tries.settle(ID);
        assert!(tries.tried.is_empty() && tries.by_time.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut tries = Tries::default();
        for id in 0..MOST_COOKIES as u64 + 9 {
            tries.begin(ConnectionId(id), &[1; 32], at(10));
        }
        assert_eq!(tries.tried.len(), MOST_COOKIES);
    }
}
