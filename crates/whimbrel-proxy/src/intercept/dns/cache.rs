//! Answers that were heard, until they are too old or too many.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::message::{DnsAnswer, Query};
use crate::protocol::Target;

/// The most bytes of all answers, and of one. Longer ones are not kept.
const MOST_BYTES: usize = 4 << 20;
const LONGEST: usize = 4_096;
/// The most bytes that an answer takes beside its own.
const BESIDE: usize = 512;

/// The programs that share an answer: those of one rule that asked the same server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Askers {
    /// The rule that had the answer kept, and the peer that it came over.
    pub(super) rule: Option<Arc<str>>,
    pub(super) peer: Arc<str>,
    pub(super) server: Target,
}

/// The key of an answer: who may have it, and the key of its query.
type AnswerKey = Arc<(Askers, Box<[u8]>)>;

/// The answers.
#[derive(Debug, Default)]
pub(super) struct Cache {
    all: HashMap<AnswerKey, Entry>,
    /// By when they end, and by when they came.
    ends: BTreeSet<(Instant, u64)>,
    names: HashMap<u64, AnswerKey>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    answer: DnsAnswer,
    came: Instant,
    ends: (Instant, u64),
}

impl Cache {
    /// Returns the answer to a query, if it was heard and is still valid.
    pub(super) fn answer(&self, asked: &Askers, query: &Query, now: Instant) -> Option<Vec<u8>> {
        let entry = self.all.get(&(asked.clone(), query.key.clone()))?;
        let is_valid = now < entry.ends.0;
        is_valid.then(|| entry.answer.for_query(query, now.duration_since(entry.came)))
    }

    /// Keeps an answer. If there are too many, those that end first make room.
    pub(super) fn keep(&mut self, asked: Askers, query: &Query, answer: DnsAnswer, now: Instant) {
        if answer.message.len() > LONGEST {
            return;
        }
        let key = Arc::new((asked, query.key.clone()));
        self.forget(&key);
        self.bytes += size(&answer);
        let ends = (now + answer.valid, self.next);
        self.next += 1;
        self.ends.insert(ends);
        self.names.insert(ends.1, Arc::clone(&key));
        self.all.insert(key, Entry { answer, came: now, ends });
        while self.bytes > MOST_BYTES {
            let Some(key) = self.ends.first().and_then(|first| self.names.get(&first.1)).cloned() else {
                return;
            };
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &AnswerKey) {
        if let Some(entry) = self.all.remove(key) {
            self.bytes -= size(&entry.answer);
            self.ends.remove(&entry.ends);
            self.names.remove(&entry.ends.1);
        }
    }
}

/// A question has at most 259 bytes, and is kept once.
fn size(answer: &DnsAnswer) -> usize {
    answer.message.len() + BESIDE
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::message::tests;
    use super::*;

    fn asked(rule: &str, server: &str) -> Askers {
        Askers { rule: Some(rule.into()), peer: "far".into(), server: server.parse().unwrap() }
    }

    fn query(name: &str) -> Query {
        Query::read(&tests::query(1, name)).unwrap()
    }

    fn answer(name: &str, time: u32) -> DnsAnswer {
        DnsAnswer::read(&tests::answer(1, name, time, 1), &query(name)).unwrap()
    }

    #[test]
    fn an_answer_is_shared_by_those_of_a_rule_who_ask_the_same_server_until_it_ends() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let one = asked("lan", "192.0.2.1:53");
        cache.keep(one.clone(), &query("a.org"), answer("a.org", 60), now);
        let has = |cache: &Cache, asked: &Askers, name: &str, after| {
            cache.answer(asked, &query(name), now + Duration::from_secs(after)).is_some()
        };
        assert!(
            has(&cache, &one, "a.org", 59)
                && !has(&cache, &one, "a.org", 60)
                && !has(&cache, &one, "b.org", 0)
        );
        for other in [asked("guests", "192.0.2.1:53"), asked("lan", "192.0.2.2:53")] {
            assert!(!has(&cache, &other, "a.org", 0), "{other:?}");
        }
        // A later answer takes its place.
        cache.keep(one.clone(), &query("a.org"), answer("a.org", 90), now);
        assert!(has(&cache, &one, "a.org", 89));
        assert_eq!((cache.all.len(), cache.ends.len(), cache.names.len()), (1, 1, 1));
    }

    #[test]
    fn those_that_end_first_make_room() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let one = asked("lan", "192.0.2.1:53");
        for number in 0..50_000 {
            let name = format!("host-{number}.example.org");
            cache.keep(one.clone(), &query(&name), answer(&name, 100 + number % 100), now);
            assert!(cache.bytes <= MOST_BYTES);
        }
        assert!(
            cache.all.len() > 5_000
                && cache.all.len() == cache.ends.len()
                && cache.all.len() == cache.names.len()
        );
        let least = cache.ends.first().unwrap().0.duration_since(now);
        assert!(least > Duration::from_secs(100), "{least:?}");
        assert_eq!(cache.bytes, cache.all.values().map(|entry| size(&entry.answer)).sum::<usize>());
    }
}
