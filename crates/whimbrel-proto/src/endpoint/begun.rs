//! Remembers recently begun sessions beyond the end of their connections, so that early data is never delivered
//! twice.
//!
//! A client that misses every PONG sends another PING for the same session. While the first connection lives, both
//! PINGs belong to it. Afterwards only this memory tells the second PING from a new session. It outlasts every PING
//! that a client may still have in flight ([`EARLY_WINDOW`] and [`COOKIE_LIFE`]), so it need not know whether the
//! client was proven.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use rand::CryptoRng;

use crate::Time;
use crate::crypto::{COOKIE_LIFE, PublicKey, Secret};
use crate::handshake::EARLY_WINDOW;

/// How long a session is remembered: as long as PINGs for it may arrive, plus 10 s for clocks that differ.
const KEPT: Duration = Duration::from_secs(30);
const _: () = assert!(EARLY_WINDOW.as_secs() + COOKIE_LIFE.as_secs() + 10 <= KEPT.as_secs());
/// Sessions begun within this time are forgotten together, up to this much later than necessary.
const GENERATION: Duration = Duration::from_secs(5);
/// The longest time in seconds for which a session is remembered.
const SECONDS: usize = (KEPT.as_secs() + GENERATION.as_secs()) as usize;

/// A keyed hash of session and client.
type SessionTag = [u8; 16];

/// The memory of begun sessions; see the module documentation. It is independent of receive loops: several on one
/// port may share it.
pub(super) struct Begun {
    secret: Secret,
    /// The generations, oldest first.
    generations: VecDeque<Generation>,
}

struct Generation {
    since: Time,
    tags: BTreeSet<SessionTag>,
}

impl Begun {
    pub(super) fn new(rng: &mut impl CryptoRng) -> Self {
        Self { secret: Secret::random(rng), generations: VecDeque::new() }
    }

    /// The most sessions remembered if this many handshakes a second are accepted.
    pub(super) fn bound(handshakes_per_second: u32) -> usize {
        usize::try_from(handshakes_per_second).map_or(usize::MAX, |rate| rate.saturating_mul(SECONDS))
    }

    /// Records that a PING of `client` begins `session`. Returns false if an earlier one did, or if there is no room
    /// to record it; the session must not begin then.
    pub(super) fn begin(&mut self, now: Time, session: &[u8; 16], client: &PublicKey, bound: usize) -> bool {
        self.forget(now);
        let tag = self.tag(session, client);
        if self.generations.iter().any(|generation| generation.tags.contains(&tag)) || self.len() >= bound {
            return false;
        }
        if self.generations.back().is_none_or(|last| last.since + GENERATION <= now) {
            self.generations.push_back(Generation { since: now, tags: BTreeSet::new() });
        }
        if let Some(last) = self.generations.back_mut() {
            last.tags.insert(tag);
        }
        true
    }

    fn len(&self) -> usize {
        self.generations.iter().map(|generation| generation.tags.len()).sum()
    }

    fn forget(&mut self, now: Time) {
        while self.generations.front().is_some_and(|first| first.since + GENERATION + KEPT < now) {
            self.generations.pop_front();
        }
    }

    fn tag(&self, session: &[u8; 16], client: &PublicKey) -> SessionTag {
        let mut context = [0; 48];
        context[..16].copy_from_slice(session);
        context[16..].copy_from_slice(client.as_bytes());
        let mut tag = [0; 16];
        self.secret.expand("begun", &context, &mut tag);
        tag
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::crypto::Identity;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_session_is_remembered_for_its_time_whenever_it_began() {
        let client = Identity::from_secret([1; 32]).public();
        for began in (0..12_000).step_by(700) {
            let mut begun = Begun::new(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1));
            assert!(begun.begin(at(0), &[0; 16], &client, 9));
            assert!(began == 0 || begun.begin(at(began), &[1; 16], &client, 9));
            let again = |begun: &mut Begun, after| begun.begin(at(began + after), &[1; 16], &client, 9);
            if began > 0 {
                assert!(!again(&mut begun, 0) && !again(&mut begun, 30_000), "began at {began}");
                assert!(again(&mut begun, 35_001), "began at {began}");
            }
        }
    }

    #[test]
    fn another_clients_session_of_the_same_id_is_another() {
        let clients = [1, 2].map(|byte| Identity::from_secret([byte; 32]).public());
        let mut begun = Begun::new(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1));
        assert!(begun.begin(at(0), &[7; 16], &clients[0], 9));
        assert!(begun.begin(at(0), &[7; 16], &clients[1], 9));
        assert!(!begun.begin(at(0), &[7; 16], &clients[1], 9));
    }

    #[test]
    fn at_the_bound_nobody_begins_and_nobody_is_forgotten() {
        let client = Identity::from_secret([1; 32]).public();
        let mut begun = Begun::new(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1));
        assert!(begun.begin(at(0), &[1; 16], &client, 2) && begun.begin(at(0), &[2; 16], &client, 2));
        assert!(!begun.begin(at(1), &[3; 16], &client, 2));
        assert!(!begun.begin(at(30_000), &[1; 16], &client, 2));
        assert!(begun.begin(at(36_000), &[3; 16], &client, 2));
        assert_eq!(begun.len(), 1);
    }
}
