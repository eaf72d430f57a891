//! SYNs that wait until the far end has answered, as a table without sockets.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The most SYNs that wait, and the most of one host. Further ones are dropped, so programs try again.
const MOST: usize = 4_096;
const MOST_OF_HOST: usize = 1_024;
/// The most connections that were handed back lately and are remembered.
const MOST_HANDED_BACK: usize = 32_768;
/// How long a connection may take from being handed back until it is accepted. Its program may have given up.
const UNCLAIMED: Duration = Duration::from_secs(10);
/// The longest time between two SYNs of one connection is shorter: they double from 1 s to 64 s.
const GIVEN_UP: Duration = Duration::from_secs(70);
/// How long a SYN may come once more after it was handed back.
const REPEATED: Duration = Duration::from_secs(10);

/// A connection: a program and what it connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::intercept) struct Pair {
    pub(in crate::intercept) program: SocketAddr,
    pub(in crate::intercept) target: SocketAddr,
}

/// The decision on a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::intercept) enum Verdict {
    /// It is a new connection, which is to be opened at the far end. The SYN waits.
    Open,
    /// The kernel takes it: its connection is open at the far end, or does not wait for that.
    HandBack,
    /// Nothing: its connection is being opened, or too many are.
    Nothing,
}

/// The table. `W` is the way of a connection that the far end has made.
#[derive(Debug)]
pub(in crate::intercept) struct HeldSyns<W> {
    all: HashMap<Pair, SynState<W>>,
    /// The connections of each host that wait or are not accepted yet.
    hosts: HashMap<IpAddr, usize>,
    waiting: usize,
}

#[derive(Debug)]
enum SynState<W> {
    /// The far end has not answered. The program's latest SYN, and when it came.
    Waiting(Vec<u8>, Instant),
    /// The far end is connected, and the SYN was handed back then.
    Connected(W, Instant),
    /// It was accepted, or does not wait for the far end.
    HandedBack(Instant),
}

impl<W> Default for HeldSyns<W> {
    fn default() -> Self {
        Self { all: HashMap::new(), hosts: HashMap::new(), waiting: 0 }
    }
}

impl<W> HeldSyns<W> {
    /// Takes a SYN. `waits`: whether its rule has it wait for the far end.
    pub(in crate::intercept) fn on_syn(
        &mut self,
        pair: Pair,
        syn: &[u8],
        waits: bool,
        now: Instant,
    ) -> Verdict {
        match self.all.get_mut(&pair) {
            Some(SynState::Waiting(latest, seen)) => {
                // The same one again, or that of a later attempt from the same port.
                syn.clone_into(latest);
                *seen = now;
                return Verdict::Nothing;
            }
            Some(SynState::Connected(..) | SynState::HandedBack(_)) => return Verdict::HandBack,
            None => {}
        }
        if !waits {
            self.remember(pair, now);
            return Verdict::HandBack;
        }
        let ip = pair.program.ip();
        let of_host = self.hosts.get(&ip).copied().unwrap_or_default();
        if self.waiting >= MOST || of_host >= MOST_OF_HOST {
            return Verdict::Nothing;
        }
        self.hosts.insert(ip, of_host + 1);
        self.waiting += 1;
        self.all.insert(pair, SynState::Waiting(syn.to_vec(), now));
        Verdict::Open
    }

    /// The far end is connected. Returns the SYN to hand back.
    pub(in crate::intercept) fn on_connected(&mut self, pair: Pair, way: W, now: Instant) -> Option<Vec<u8>> {
        let state = self.all.get_mut(&pair).filter(|state| matches!(state, SynState::Waiting(..)))?;
        match std::mem::replace(state, SynState::Connected(way, now)) {
            SynState::Waiting(syn, _) => Some(syn),
            SynState::Connected(..) | SynState::HandedBack(_) => None,
        }
    }

    /// The far end is not connected. Returns the SYN to answer. It may come again.
    pub(in crate::intercept) fn on_refused(&mut self, pair: Pair) -> Option<Vec<u8>> {
        match self.all.remove(&pair)? {
            SynState::Waiting(syn, _) => {
                self.settle(pair);
                Some(syn)
            }
            other => {
                self.all.insert(pair, other);
                None
            }
        }
    }

    /// Returns whether the program has given up: its SYN came no more.
    pub(in crate::intercept) fn is_given_up(&self, pair: Pair, now: Instant) -> bool {
        match self.all.get(&pair) {
            Some(SynState::Waiting(_, seen)) => now.duration_since(*seen) >= GIVEN_UP,
            Some(SynState::Connected(..) | SynState::HandedBack(_)) | None => false,
        }
    }

    /// A connection was accepted. Returns its way, unless it did not wait for one.
    pub(in crate::intercept) fn take(&mut self, pair: Pair, now: Instant) -> Option<W> {
        match self.all.remove(&pair)? {
            SynState::Connected(way, _) => {
                self.settle(pair);
                self.remember(pair, now);
                Some(way)
            }
            other => {
                self.all.insert(pair, other);
                None
            }
        }
    }

    /// Forgets what has had its time. Returns the ways of connections that nobody accepted.
    pub(in crate::intercept) fn expire(&mut self, now: Instant) -> Vec<W> {
        let is_over = |state: &SynState<W>| match state {
            SynState::Waiting(..) => false,
            SynState::Connected(_, since) => now.duration_since(*since) >= UNCLAIMED,
            SynState::HandedBack(since) => now.duration_since(*since) >= REPEATED,
        };
        let over: Vec<Pair> =
            self.all.iter().filter(|(_, state)| is_over(state)).map(|(pair, _)| *pair).collect();
        let mut unclaimed = Vec::new();
        for pair in over {
            if let Some(SynState::Connected(way, _)) = self.all.remove(&pair) {
                self.settle(pair);
                unclaimed.push(way);
            }
        }
        unclaimed
    }

    fn remember(&mut self, pair: Pair, now: Instant) {
        if self.all.len() < MOST + MOST_HANDED_BACK {
            self.all.insert(pair, SynState::HandedBack(now));
        }
    }

    /// A connection no longer counts as waiting.
    fn settle(&mut self, pair: Pair) {
        self.waiting -= 1;
        if let Some(host) = self.hosts.get_mut(&pair.program.ip()) {
            *host -= 1;
            if *host == 0 {
                self.hosts.remove(&pair.program.ip());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(host: u8, port: u16) -> Pair {
        Pair { program: ([10, 0, 0, host], port).into(), target: ([10, 0, 9, 1], 443).into() }
    }

    #[test]
    fn a_syn_waits_for_the_far_end_and_its_repetitions_are_one_connection() {
        let (mut held, now) = (HeldSyns::default(), Instant::now());
        let one = pair(1, 1);
        assert_eq!(held.on_syn(one, b"first", true, now), Verdict::Open);
        assert!(held.is_given_up(one, now + GIVEN_UP));
        assert_eq!(held.on_syn(one, b"again", true, now + GIVEN_UP), Verdict::Nothing);
        assert!(!held.is_given_up(one, now + GIVEN_UP), "it came again");
        assert_eq!(held.take(one, now), None, "nobody can accept it yet");
        assert_eq!(held.on_connected(one, "way", now), Some(b"again".to_vec()));
        assert_eq!(held.on_connected(one, "other", now), None);
        assert_eq!(held.on_syn(one, b"late", true, now), Verdict::HandBack);
        assert_eq!(held.take(one, now), Some("way"));
        assert_eq!(held.on_syn(one, b"later", true, now), Verdict::HandBack);
        assert_eq!(held.take(one, now), None);
        assert!(held.expire(now + REPEATED).is_empty());
        assert_eq!(held.on_syn(one, b"new", true, now), Verdict::Open, "the port is used again");
    }

    #[test]
    fn what_is_refused_or_not_accepted_is_forgotten() {
        let (mut held, now) = (HeldSyns::default(), Instant::now());
        let (one, two) = (pair(1, 1), pair(1, 2));
        assert_eq!(held.on_syn(one, b"one", true, now), Verdict::Open);
        assert_eq!(held.on_refused(one), Some(b"one".to_vec()));
        assert_eq!(held.on_refused(one), None);
        assert_eq!(held.on_connected(one, 1, now), None);
        assert_eq!(held.on_syn(one, b"one", true, now), Verdict::Open);
        assert!(held.on_connected(one, 1, now).is_some());
        assert_eq!(held.on_syn(two, b"two", true, now), Verdict::Open);
        assert_eq!(held.expire(now + UNCLAIMED), [1]);
        assert_eq!((held.waiting, held.all.len(), held.hosts.len()), (1, 1, 1), "the other still waits");
        assert!(held.on_refused(two).is_some());
        assert_eq!((held.waiting, held.all.len(), held.hosts.len()), (0, 0, 0));
    }

    #[test]
    fn one_host_does_not_take_all_places() {
        let (mut held, now): (HeldSyns<()>, _) = (HeldSyns::default(), Instant::now());
        let mut opened = 0;
        for host in 1..=5 {
            for port in 1..=2_000 {
                opened += usize::from(held.on_syn(pair(host, port), b"", true, now) == Verdict::Open);
            }
            assert_eq!(opened, (usize::from(host) * MOST_OF_HOST).min(MOST));
        }
        assert_eq!(held.hosts.len(), MOST / MOST_OF_HOST, "nothing is kept of a host whose SYNs are dropped");
        assert_eq!(held.on_syn(pair(9, 1), b"", false, now), Verdict::HandBack, "it does not wait");
    }
}
