//! A policy that is watched: at which ages it overwrites, and what that costs those who are away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use whimbrel_broker::Time;
use whimbrel_broker::buffer::{Facts, Policy, Room, SlotId};

use crate::mobility::Absence;

/// Overwritten messages, and the part of it that a subscriber who was away when it was published has missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    pub(super) messages: f64,
    pub(super) missed: f64,
    pub(super) indices: f64,
    pub(super) indices_missed: f64,
}

/// A policy that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    policy: Box<dyn Policy>,
    absence: Absence,
    /// Messages that are overwritten earlier do not count.
    from: Time,
    /// When the message of each slot was published, and its index.
    taken: HashMap<SlotId, (Time, u8)>,
    missed: Arc<Mutex<Missed>>,
}

impl Watched {
    pub(super) fn new(
        policy: Box<dyn Policy>,
        absence: Absence,
        from: Time,
        missed: Arc<Mutex<Missed>>,
    ) -> Self {
        Self { policy, absence, from, taken: HashMap::new(), missed }
    }
}

impl Policy for Watched {
    fn take(&mut self, facts: &Facts, now: Time) {
        self.taken.insert(facts.slot, (now, facts.index));
        self.policy.take(facts, now);
    }

    fn release(&mut self, facts: &Facts) {
        self.taken.remove(&facts.slot);
        self.policy.release(facts);
    }

    fn give_way(&mut self, room: Room, now: Time) -> Option<SlotId> {
        let slot = self.policy.give_way(room, now)?;
        let (published, index) = self.taken.remove(&slot)?;
        if now >= self.from {
            let still_away = self.absence.still_away(now.since(published).as_secs_f64());
            let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
            missed.messages += 1.0;
            missed.missed += still_away;
            missed.indices += f64::from(index);
            missed.indices_missed += f64::from(index) * still_away;
        }
        Some(slot)
    }
}
