//! The datagrams heard and sent lately on each link, so that none goes round.
//!
//! A proxy without root sends on with an address of its own, which is on the link. So a source alone does not tell whether
//! a datagram comes from a proxy. What a datagram says does: who hears on a link what was sent there by a proxy a moment ago
//! does not carry it on, and what was heard on a link is not sent back there.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::protocol::ProxyInstance;

/// How long a datagram is remembered. The queues of a session keep none for longer.
const LATELY: Duration = Duration::from_secs(2);
/// The most datagrams that are remembered of each kind on a link: far more than one peer can send. With more, nothing more
/// is let through.
const MOST: usize = 16_384;

/// A link, by the index of its interface.
type LinkIndex = u32;

/// The datagrams heard and sent lately.
#[derive(Debug, Default)]
pub(super) struct SeenDatagrams {
    /// Its keys are nobody's to guess, so nobody can make two datagrams look alike.
    hasher: RandomState,
    heard: Memory<()>,
    /// The datagrams that were sent on, and which proxy each came from first.
    sent: Memory<ProxyInstance>,
}

#[derive(Debug)]
struct Memory<T>(HashMap<LinkIndex, HashMap<u64, (T, Instant)>>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Memory<T> {
    fn lately(&self, link: LinkIndex, key: u64, now: Instant) -> Option<&T> {
        let (what, at) = self.0.get(&link)?.get(&key)?;
        (now.duration_since(*at) < LATELY).then_some(what)
    }

    /// Returns whether there was room.
    fn remember(&mut self, link: LinkIndex, key: u64, what: T, now: Instant) -> bool {
        let of_link = self.0.entry(link).or_default();
        if of_link.len() >= MOST {
            of_link.retain(|_, (_, at)| now.duration_since(*at) < LATELY);
        }
        let has_room = of_link.len() < MOST;
        if has_room {
            of_link.insert(key, (what, now));
        }
        has_room
    }
}

impl SeenDatagrams {
    /// A datagram was heard on a link, whoever sent it. Returns whether it is new there, and no copy of what was sent on.
    pub(super) fn hear(&mut self, link: LinkIndex, group: SocketAddr, payload: &[u8], now: Instant) -> bool {
        let key = self.hasher.hash_one((group, payload));
        self.sent.lately(link, key, now).is_none() && self.heard.remember(link, key, (), now)
    }

    /// A datagram has come from a peer. Returns whether it is sent on to a link.
    pub(super) fn send(
        &mut self,
        link: LinkIndex,
        from: ProxyInstance,
        group: SocketAddr,
        payload: &[u8],
        now: Instant,
    ) -> bool {
        let key = self.hasher.hash_one((group, payload));
        // Two gateways of one network both carry it, and who hears a proxy may take it for a source. What one proxy
        // carries twice was sent twice.
        let is_anothers = self.sent.lately(link, key, now).is_some_and(|first| *first != from);
        if is_anothers || self.heard.lately(link, key, now).is_some() {
            return false;
        }
        self.sent.remember(link, key, from, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProxyInstance = ProxyInstance([1; 16]);
    const TWO: ProxyInstance = ProxyInstance([2; 16]);

    fn group() -> SocketAddr {
        "239.1.2.3:5000".parse().unwrap()
    }

    #[test]
    fn nothing_goes_back_to_where_it_came_from_and_nothing_is_carried_twice() {
        let (mut seen, now, group) = (SeenDatagrams::default(), Instant::now(), group());
        assert!(seen.hear(1, group, b"from the link", now));
        assert!(seen.hear(1, group, b"from the link", now), "its sender sends it again");
        assert!(!seen.send(1, ONE, group, b"from the link", now), "it is known there");
        assert!(seen.send(2, ONE, group, b"from the link", now), "not on another link");
        assert!(!seen.hear(2, group, b"from the link", now), "a copy of what we have sent");
        let later = now + LATELY;
        assert!(seen.hear(2, group, b"from the link", later));
    }

    #[test]
    fn of_two_gateways_on_one_network_one_is_heard() {
        let (mut seen, now, group) = (SeenDatagrams::default(), Instant::now(), group());
        for _ in 0..3 {
            assert!(seen.send(1, ONE, group, b"x", now), "what is sent several times comes so");
            assert!(!seen.send(1, TWO, group, b"x", now));
        }
        assert!(seen.send(1, TWO, group, b"y", now), "something else");
        assert!(seen.send(1, TWO, group, b"x", now + LATELY), "the first is gone");
    }

    #[test]
    fn a_flood_fills_no_memory() {
        let (mut seen, now, group) = (SeenDatagrams::default(), Instant::now(), group());
        let heard = (0..30_000_u32).filter(|at| seen.hear(1, group, &at.to_be_bytes(), now)).count();
        assert_eq!((heard, seen.heard.0[&1].len()), (MOST, MOST));
        assert!(seen.hear(1, group, b"later", now + LATELY));
        assert_eq!(seen.heard.0[&1].len(), 1);
    }

    /// Three networks in a ring, each pair joined by two proxies that send on with addresses of their own: A and B by 0 and 1,
    /// B and C by 2 and 3, C and A by 4 and 5.
    #[test]
    fn a_ring_of_three_networks_does_not_feed_itself() {
        let (mut proxies, now, group) =
            (std::array::from_fn::<_, 6, _>(|_| SeenDatagrams::default()), Instant::now(), group());
        let on = [[0, 5], [1, 2], [3, 4]];
        let (mut waiting, mut sent) = (vec![0], [1, 0, 0]);
        while let Some(network) = waiting.pop() {
            for proxy in on[network] {
                if !proxies[proxy].hear(1, group, b"x", now) {
                    continue;
                }
                let (other, there) = (proxy ^ 1, [0, 1, 1, 2, 2, 0][proxy ^ 1]);
                let instance = ProxyInstance([proxy as u8; 16]);
                if proxies[other].send(1, instance, group, b"x", now) {
                    sent[there] += 1;
                    assert!(sent[there] < 10, "it goes round");
                    waiting.push(there);
                }
            }
        }
        assert_eq!(sent[0], 1, "it does not come back to where it was sent");
        assert!(sent[1] >= 1 && sent[2] >= 1, "{sent:?}");
    }
}
