//! The queue of key agreements for PINGs. A receive loop makes a few at once, which is fastest. In a flood, the rest
//! waits here for one thread, and the loops go on with the established connections.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use whimbrel_proto::{Agreeing, Time};

use crate::lock::lock;

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

/// The fate of a key agreement.
pub(crate) enum Leaving {
    /// The receive loop makes it at once.
    AtOnce(Agreeing),
    /// There is no room for it.
    Refused(Agreeing),
    /// It waits for the thread, which must be started if it is not running.
    Waits { start: bool },
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

    /// Adds an agreement, unless it is to be made at once or there is no room.
    pub(crate) fn leave(&self, now: Time, mut agreeing: Agreeing) -> Leaving {
        let mut waiting = lock(&self.0);
        if waiting.at_once.takes(now) {
            return Leaving::AtOnce(agreeing);
        }
        let known = agreeing.is_known();
        if !waiting.has_room(known) {
            return Leaving::Refused(agreeing);
        }
        agreeing.detach();
        Leaving::Waits { start: waiting.push(known, agreeing) }
    }

    /// Returns the next agreement for the thread. None: the thread ends.
    pub(crate) fn next(&self) -> Option<Agreeing> {
        lock(&self.0).next()
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
