//! Key agreements for PINGs, outside the receive loop if there is a core for it. The loop makes a few at once, which
//! is fastest. In a flood, the rest waits here for one thread, and the loop goes on with the established connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use whimbrel_proto::{Agreeing, Time};

use crate::endpoint::EndpointShared;
use crate::receive::{Door, hand_over, reply_to};
use crate::serving::serve_at_once;
use crate::shared::lock;

/// The maximum number of PINGs waiting: about 20 ms of work.
const MOST_WAITING: usize = 256;
/// The maximum number of those that may come from unknown peers.
const MOST_STRANGERS: usize = 192;
/// The interval at which the loop itself makes an agreement, which takes a tenth of its time.
const EVERY: Duration = Duration::from_millis(1);
/// The number of agreements that the loop makes in a row after a pause.
const BURST: u32 = 32;

/// Limits which key agreements the receive loop makes itself.
#[derive(Debug)]
struct AtOnce {
    /// The time up to which the allowance is used. None: the loop makes all agreements, since there is no other core.
    spent_until: Option<Time>,
}

impl AtOnce {
    fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { spent_until: (cores > 1).then_some(Time::ZERO) }
    }

    /// Returns whether the loop makes the next agreement itself.
    fn takes(&mut self, now: Time) -> bool {
        let Some(until) = &mut self.spent_until else { return true };
        let spent = (*until).max(now) + EVERY;
        let granted = spent <= now + EVERY * BURST;
        if granted {
            *until = spent;
        }
        granted
    }
}

/// The key agreements that wait for the thread.
pub(crate) struct Agreements(Mutex<Waiting<Agreeing>>);

struct Waiting<T> {
    at_once: AtOnce,
    known: VecDeque<T>,
    strangers: VecDeque<T>,
    /// Whether a thread is working on them.
    working: bool,
    /// The number that the thread has made or is making.
    made: u64,
}

impl<T> Waiting<T> {
    fn new() -> Self {
        let (known, strangers) = (VecDeque::new(), VecDeque::new());
        Self { at_once: AtOnce::new(), known, strangers, working: false, made: 0 }
    }

    /// Adds an agreement. Returns whether a thread must be started for it.
    fn push(&mut self, known: bool, agreeing: T) -> bool {
        let queue = if known { &mut self.known } else { &mut self.strangers };
        queue.push_back(agreeing);
        !std::mem::replace(&mut self.working, true)
    }

    /// Returns the next agreement, known peers first. None: nothing is left to do, and the thread ends.
    fn next(&mut self) -> Option<T> {
        let next = self.known.pop_front().or_else(|| self.strangers.pop_front());
        self.working = next.is_some();
        self.made += u64::from(self.working);
        next
    }

    fn has_room(&self, known: bool) -> bool {
        let others = self.known.len() + self.strangers.len();
        others < MOST_WAITING && (known || self.strangers.len() < MOST_STRANGERS)
    }
}

impl Agreements {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Waiting::new()))
    }

    /// Returns how many the thread has made or is making.
    pub(crate) fn made(&self) -> u64 {
        lock(&self.0).made
    }

    /// Leaves an agreement to the thread, and starts the thread if it is not running. Gives the agreement back if the
    /// loop is to make it at once. Gives it up if there is no room.
    pub(crate) fn leave(
        shared: &Arc<EndpointShared>,
        now: Time,
        door: &Door,
        mut agreeing: Agreeing,
    ) -> Option<Agreeing> {
        let mut waiting = lock(&shared.agreements.0);
        if waiting.at_once.takes(now) {
            return Some(agreeing);
        }
        let known = agreeing.is_known();
        if !waiting.has_room(known) {
            drop(waiting);
            lock(&shared.proto).abandon(&agreeing);
            return None;
        }
        agreeing.detach();
        if waiting.push(known, agreeing) {
            let (shared, door) = (Arc::clone(shared), door.clone());
            tokio::task::spawn_blocking(move || work(&shared, &door));
        }
        None
    }
}

/// Makes agreements until none waits.
fn work(shared: &Arc<EndpointShared>, door: &Door) {
    let (mut reply, mut accepted) = (Vec::new(), Vec::new());
    loop {
        let next = lock(&shared.agreements.0).next();
        let Some(agreeing) = next else { return };
        let (from, to) = agreeing.addresses();
        let agreed = agreeing.run();
        let now = shared.clock.now();
        reply.clear();
        let found = lock(&shared.proto).handle_agreed(now, agreed, &mut reply);
        reply_to(&door.socket, from, to, &reply);
        match found.handle() {
            Some(handle) => serve_at_once(shared, now, handle, found),
            None => accepted.push((from, found)),
        }
        hand_over(shared, &mut accepted, door);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_made_at_once_and_of_many_a_share() {
        let mut at_once = AtOnce { spent_until: Some(Time::ZERO) };
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let burst = (0..1_000).filter(|_| at_once.takes(at(1_000))).count();
        assert_eq!(burst, BURST as usize);
        let flood = (0..10_000).filter(|tick| at_once.takes(at(1_000 + tick / 10))).count();
        assert!((990..=1_000).contains(&flood), "{flood}");
        let mut alone = AtOnce { spent_until: None };
        assert!((0..1_000).all(|_| alone.takes(at(0))), "on one core nobody else does it");
    }

    #[test]
    fn known_peers_go_first_and_each_kind_in_its_order() {
        let mut waiting = Waiting::new();
        assert!(waiting.push(false, "first stranger"), "nobody works yet");
        for (known, name) in [(true, "friend"), (false, "second stranger"), (true, "second friend")] {
            assert!(!waiting.push(known, name), "the thread finds it");
        }
        assert_eq!(waiting.next(), Some("friend"));
        // One that comes while the thread works passes the strangers, too.
        assert!(!waiting.push(true, "late friend"));
        let rest: Vec<_> = std::iter::from_fn(|| waiting.next()).collect();
        assert_eq!(rest, ["second friend", "late friend", "first stranger", "second stranger"]);
        assert_eq!((waiting.working, waiting.made), (false, 5));
        assert!(waiting.push(true, "next"), "the thread has ended");
    }

    #[test]
    fn strangers_leave_room_for_known_peers() {
        let mut waiting = Waiting::new();
        while waiting.has_room(false) {
            waiting.push(false, ());
        }
        assert_eq!(waiting.strangers.len(), MOST_STRANGERS);
        while waiting.has_room(true) {
            waiting.push(true, ());
        }
        assert_eq!(waiting.known.len(), MOST_WAITING - MOST_STRANGERS);
        // What known peers leave is not all for strangers.
        assert!(waiting.next().is_some());
        assert!(waiting.has_room(true) && !waiting.has_room(false));
        let mut waiting = Waiting::new();
        while waiting.has_room(true) {
            waiting.push(true, ());
        }
        assert_eq!(waiting.known.len(), MOST_WAITING);
        assert!(!waiting.has_room(false));
    }
}
