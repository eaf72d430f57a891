//! Putting datagrams together that came in parts (RFC 791, RFC 8200 section 4.5), as a table without sockets.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::packet::Head;

/// The most datagrams that wait for parts, and the most of one host. A further one displaces the oldest.
const MOST: usize = 64;
const MOST_OF_HOST: usize = 16;
/// The most parts of a datagram. One with more is dropped.
const MOST_PARTS: usize = 128;
/// How long a datagram waits for its parts.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest payload of a packet.
const LONGEST: usize = 65_535;

/// Datagrams that wait for parts.
#[derive(Debug, Default)]
pub(super) struct Fragments(HashMap<Key, Parts>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    id: u32,
}

#[derive(Debug)]
struct Parts {
    began: Instant,
    /// By offset.
    parts: BTreeMap<usize, Vec<u8>>,
    length: Option<usize>,
}

impl Fragments {
    /// Takes a part. Returns the payload if it is whole now.
    pub(super) fn add(&mut self, head: &Head, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let part = head.fragment?;
        let bytes = packet.get(head.payload..head.end)?;
        let Head { source, destination, protocol, .. } = *head;
        let key = Key { source, destination, protocol, id: part.id };
        if !self.0.contains_key(&key) {
            self.make_room(source, now);
        }
        let empty = || Parts { began: now, parts: BTreeMap::new(), length: None };
        let parts = self.0.entry(key).or_insert_with(empty);
        if !parts.add(part.offset, bytes, part.is_last) {
            self.0.remove(&key);
            return None;
        }
        parts
            .is_whole()
            .then(|| self.0.remove(&key))?
            .map(|parts| parts.parts.into_values().flatten().collect())
    }

    /// Forgets datagrams whose parts do not come.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, parts| now.duration_since(parts.began) < PATIENCE);
    }

    fn make_room(&mut self, host: IpAddr, now: Instant) {
        let of_host = self.0.keys().filter(|key| key.source == host).count();
        if self.0.len() < MOST && of_host < MOST_OF_HOST {
            return;
        }
        self.expire(now);
        let is_candidate = |key: &Key| of_host < MOST_OF_HOST || key.source == host;
        let candidates = self.0.iter().filter(|(key, _)| is_candidate(key));
        let oldest = candidates.min_by_key(|(_, parts)| parts.began).map(|(key, _)| *key);
        oldest.and_then(|oldest| self.0.remove(&oldest));
    }
}

impl Parts {
    /// Takes a part. Returns whether it fits: parts that overlap are an attack (RFC 5722).
    fn add(&mut self, offset: usize, bytes: &[u8], is_last: bool) -> bool {
        let end = offset + bytes.len();
        if self.parts.get(&offset).is_some_and(|known| *known == bytes) {
            // It came twice.
            return true;
        }
        let before = self.parts.range(..=offset).next_back();
        let after = self.parts.range(offset..).next();
        let fits = before.is_none_or(|(at, known)| at + known.len() <= offset)
            && after.is_none_or(|(at, _)| end <= *at)
            && (is_last || bytes.len().is_multiple_of(8) && !bytes.is_empty())
            && self.length.is_none_or(|length| end <= length && !is_last)
            && self.parts.len() < MOST_PARTS
            && end <= LONGEST;
        if is_last {
            self.length = Some(end);
            let beyond = self.parts.last_key_value().is_some_and(|(at, known)| at + known.len() > end);
            if beyond {
                return false;
            }
        }
        if fits {
            self.parts.insert(offset, bytes.to_vec());
        }
        fits
    }

    fn is_whole(&self) -> bool {
        // They do not overlap.
        self.length.is_some_and(|length| self.parts.values().map(Vec::len).sum::<usize>() == length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::{Fragment, UDP};
    use super::*;

    fn part(host: u8, id: u32, offset: usize, length: usize, is_last: bool) -> Head {
        Head {
            source: [10, 0, 0, host].into(),
            destination: [10, 9, 0, 1].into(),
            protocol: UDP,
            payload: 0,
            end: length,
            fragment: Some(Fragment { id, offset, is_last }),
        }
    }

    proptest! {
        #[test]
        fn parts_in_any_order_make_the_whole(
            length in 1..5_000usize,
            size in 1..50usize,
            order in any::<[u64; 8]>(),
        ) {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let size = (size * 8).max(length / 100 / 8 * 8 + 8);
            let mut parts: Vec<usize> = (0..length).step_by(size).collect();
            parts.sort_by_key(|at| order[at / size % 8].wrapping_mul(*at as u64 + 1));
            let (mut fragments, now) = (Fragments::default(), Instant::now());
            let mut whole = None;
            for (number, &at) in parts.iter().enumerate() {
                let end = (at + size).min(length);
                let head = part(1, 7, at, end - at, end == length);
                whole = fragments.add(&head, &bytes[at..end], now);
                assert_eq!(whole.is_some(), number + 1 == parts.len());
            }
            assert_eq!(whole, Some(bytes));
            assert!(fragments.0.is_empty());
        }

        #[test]
        fn whatever_comes_is_bounded(
            all in proptest::collection::vec((0..6u8, 0..40u32, 0..9_000usize, 0..1_500usize, any::<bool>()), 0..400)
        ) {
            let (mut fragments, now) = (Fragments::default(), Instant::now());
            for (host, id, offset, length, is_last) in all {
                if let Some(whole) = fragments.add(&part(host, id, offset * 8, length, is_last), &[0; 1_500], now) {
                    assert!(whole.len() <= LONGEST);
                }
                assert!(fragments.0.len() <= MOST);
                let most = (0..6u8).map(|host| {
                    fragments.0.keys().filter(|key| key.source == IpAddr::from([10, 0, 0, host])).count()
                });
                assert!(most.max().unwrap_or(0) <= MOST_OF_HOST);
            }
        }
    }

    #[test]
    fn parts_that_overlap_are_dropped_and_late_ones_forgotten() {
        let (mut fragments, now) = (Fragments::default(), Instant::now());
        assert_eq!(fragments.add(&part(1, 1, 0, 16, false), &[1; 16], now), None);
        assert_eq!(fragments.add(&part(1, 1, 0, 16, false), &[1; 16], now), None, "it came twice");
        assert_eq!(fragments.add(&part(1, 1, 8, 16, true), &[2; 16], now), None);
        assert!(fragments.0.is_empty());
        fragments.add(&part(1, 1, 0, 16, false), &[1; 16], now);
        fragments.expire(now + PATIENCE);
        assert_eq!(fragments.add(&part(1, 1, 16, 3, true), &[2; 3], now + PATIENCE), None);
    }
}
