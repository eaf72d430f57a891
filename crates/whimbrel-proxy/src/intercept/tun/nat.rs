//! The table of strangers, each of which stands for a connection. It has no sockets. To the kernel's TCP, each program is a
//! stranger of its own; that end is not used again for as long as possible.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::addresses::IDS;
use super::parts::NotedMapping;
use crate::intercept::kernel::Pair;

/// The most connections, and the most of one host. SYNs of further ones are dropped, so programs try again.
const MOST: usize = 65_536;
const MOST_OF_HOST: usize = MOST / 2;
/// How long a connection may take to be accepted.
const UNCLAIMED: Duration = Duration::from_secs(10);
/// How long a connection that this end has closed is remembered after its last segment.
const QUIET: Duration = Duration::from_secs(30);

/// The table.
#[derive(Debug, Default)]
pub(super) struct Nat {
    by_pair: HashMap<Pair, u32>,
    all: HashMap<u32, Mapping>,
    hosts: HashMap<IpAddr, usize>,
    next: u32,
}

#[derive(Debug)]
struct Mapping {
    pair: Pair,
    state: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its SYN was handed to the kernel then.
    New(Instant),
    Accepted,
    /// This end has closed it, and its latest segment came then.
    Closed(Instant),
}

impl Nat {
    /// Adds a connection whose SYN goes to the kernel. `is_repeated`: the SYN may have come before. None: there are too many.
    pub(super) fn add(&mut self, pair: Pair, is_repeated: bool, now: Instant) -> Option<u32> {
        if let Some(&id) = self.by_pair.get(&pair) {
            let is_over = self.all.get(&id).is_none_or(|known| matches!(known.state, Stage::Closed(_)));
            if is_repeated && !is_over {
                return Some(id);
            }
            // Another connection of these ends.
            self.remove(id);
        }
        let of_host = self.hosts.get(&pair.program.ip()).copied().unwrap_or_default();
        if self.all.len() >= MOST || of_host >= MOST_OF_HOST {
            return None;
        }
        // There are far more ends than mappings.
        let id = loop {
            let id = self.next;
            self.next = (self.next + 1) % IDS;
            if !self.all.contains_key(&id) {
                break id;
            }
        };
        self.hosts.insert(pair.program.ip(), of_host + 1);
        self.by_pair.insert(pair, id);
        self.all.insert(id, Mapping { pair, state: Stage::New(now) });
        Some(id)
    }

    /// Returns all, for another process.
    pub(super) fn noted(&self) -> Vec<NotedMapping> {
        let noted = |(id, known): (&u32, &Mapping)| {
            (known.pair.program, known.pair.target, *id, matches!(known.state, Stage::New(_)))
        };
        let mut all: Vec<_> = self.all.iter().map(noted).collect();
        // Those that end next to one another stay so.
        all.sort_by_key(|(_, _, id, _)| *id);
        all
    }

    /// Those of another process. Each is closed unless it is said to be accepted. What makes no sense is left out.
    pub(super) fn resumed(noted: Vec<NotedMapping>, now: Instant) -> Self {
        let mut this = Self::default();
        for (program, target, id, is_new) in noted.into_iter().take(MOST) {
            let pair = Pair { program, target };
            if id >= IDS || this.all.contains_key(&id) {
                continue;
            }
            // A later one of these ends is the one that is meant.
            this.by_pair.insert(pair, id);
            *this.hosts.entry(program.ip()).or_default() += 1;
            let state = if is_new { Stage::New(now) } else { Stage::Closed(now) };
            this.all.insert(id, Mapping { pair, state });
            this.next = (id + 1) % IDS;
        }
        this
    }

    /// Returns who stands for a program of which a segment came.
    pub(super) fn on_segment(&mut self, pair: &Pair, now: Instant) -> Option<u32> {
        let id = *self.by_pair.get(pair)?;
        self.on_answer(id, now).map(|_| id)
    }

    /// Returns the connection of a stranger to whom the kernel sends a segment.
    pub(super) fn on_answer(&mut self, id: u32, now: Instant) -> Option<Pair> {
        let known = self.all.get_mut(&id)?;
        if let Stage::Closed(latest) = &mut known.state {
            *latest = now;
        }
        Some(known.pair)
    }

    /// The kernel's TCP has accepted it. Returns which one it is.
    pub(super) fn on_accepted(&mut self, id: u32) -> Option<Pair> {
        let known = self.all.get_mut(&id)?;
        known.state = Stage::Accepted;
        Some(known.pair)
    }

    /// This end has closed it. Segments may still come and go.
    pub(super) fn on_closed(&mut self, id: u32, now: Instant) {
        if let Some(known) = self.all.get_mut(&id) {
            known.state = Stage::Closed(now);
        }
    }

    /// Forgets what has had its time.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |state: Stage| match state {
            Stage::New(since) => now.duration_since(since) >= UNCLAIMED,
            Stage::Accepted => false,
            Stage::Closed(latest) => now.duration_since(latest) >= QUIET,
        };
        let over: Vec<u32> =
            self.all.iter().filter(|(_, known)| is_over(known.state)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.remove(id));
    }

    fn remove(&mut self, id: u32) {
        let Some(Mapping { pair, .. }) = self.all.remove(&id) else { return };
        // The pair may be another connection's by now.
        if self.by_pair.get(&pair) == Some(&id) {
            self.by_pair.remove(&pair);
        }
        if let Some(count) = self.hosts.get_mut(&pair.program.ip()) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&pair.program.ip());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(host: u8, port: u16) -> Pair {
        Pair { program: ([10, 0, 0, host], port).into(), target: ([10, 9, 0, 1], 443).into() }
    }

    #[test]
    fn a_connection_has_one_stranger_until_it_is_over() {
        let (mut nat, now) = (Nat::default(), Instant::now());
        let id = nat.add(pair(1, 1), false, now).unwrap();
        assert_eq!(nat.add(pair(1, 1), true, now), Some(id), "its SYN once more");
        assert_eq!(nat.on_segment(&pair(1, 1), now), Some(id));
        assert_eq!(nat.on_segment(&pair(1, 2), now), None);
        assert_eq!(nat.on_accepted(id), Some(pair(1, 1)));
        nat.expire(now + Duration::from_secs(7_200));
        assert_eq!(nat.on_answer(id, now), Some(pair(1, 1)), "an idle connection stays");
        nat.on_closed(id, now);
        let later = now + QUIET - Duration::from_millis(1);
        assert_eq!(nat.on_answer(id, later), Some(pair(1, 1)), "the last bytes are still on their way");
        nat.expire(later + Duration::from_secs(2));
        let next = nat.add(pair(1, 1), true, later).unwrap();
        assert_ne!(next, id, "another connection of the same ends is another stranger");
        assert_eq!(nat.on_answer(id, later), None);
        nat.expire(later + UNCLAIMED);
        assert_eq!(nat.on_segment(&pair(1, 1), later), None, "nobody accepted it");
        assert!(nat.all.is_empty() && nat.by_pair.is_empty() && nat.hosts.is_empty());
    }

    #[test]
    fn connections_go_on_in_another_process() {
        let (mut nat, now) = (Nat::default(), Instant::now());
        let ids = [1, 2, 3].map(|port| nat.add(pair(1, port), false, now).unwrap());
        nat.on_accepted(ids[0]);
        nat.on_accepted(ids[1]);
        let mut next = Nat::resumed(nat.noted(), now);
        assert_eq!((next.all.len(), next.by_pair.len(), next.hosts.len()), (3, 3, 1));
        assert_eq!(next.on_accepted(ids[0]), Some(pair(1, 1)), "its flow is there");
        assert_eq!(
            next.on_segment(&pair(1, 2), now),
            Some(ids[1]),
            "its last bytes may still be on their way"
        );
        assert!(
            next.add(pair(1, 4), false, now).is_some_and(|id| !ids.contains(&id)),
            "a new one is another"
        );
        next.expire(now + UNCLAIMED);
        assert_eq!(next.on_segment(&pair(1, 3), now), None, "nobody accepted it");
        next.expire(now + QUIET);
        assert_eq!(next.on_segment(&pair(1, 2), now), None, "no flow came for it");
        assert_eq!(next.on_segment(&pair(1, 1), now), Some(ids[0]));
        let nonsense = vec![(pair(1, 1).program, pair(1, 1).target, IDS, false)];
        assert!(Nat::resumed(nonsense, now).all.is_empty());
    }

    #[test]
    fn no_host_takes_everything() {
        let (mut nat, now) = (Nat::default(), Instant::now());
        let all = |nat: &mut Nat, host| {
            (0..=u16::MAX).filter(|port| nat.add(pair(host, *port), false, now).is_some()).count()
        };
        assert_eq!(all(&mut nat, 1), MOST_OF_HOST);
        assert_eq!(all(&mut nat, 2), MOST_OF_HOST);
        assert_eq!(all(&mut nat, 3), 0);
        nat.expire(now + UNCLAIMED);
        assert_eq!(all(&mut nat, 3), MOST_OF_HOST);
    }

    proptest! {
        #[test]
        fn tables_agree_whatever_comes(
            steps in proptest::collection::vec((0..6u8, 0..3u8, 0..3u16, 0..20_000u64), 1..200)
        ) {
            let (mut nat, mut now) = (Nat::default(), Instant::now());
            for (step, host, port, pause) in steps {
                now += Duration::from_millis(pause);
                let pair = pair(host, port);
                let id = nat.by_pair.get(&pair).copied();
                match step {
                    0 => drop(nat.add(pair, false, now)),
                    1 => drop(nat.add(pair, true, now)),
                    2 => drop(id.and_then(|id| nat.on_accepted(id))),
                    3 => id.into_iter().for_each(|id| nat.on_closed(id, now)),
                    4 => assert_eq!(nat.on_segment(&pair, now), id),
                    _ => nat.expire(now),
                }
                assert_eq!(nat.by_pair.len(), nat.all.len());
                assert_eq!(nat.hosts.values().sum::<usize>(), nat.all.len());
                assert!(nat.by_pair.iter().all(|(pair, id)| nat.all[id].pair == *pair));
            }
        }
    }
}
