//! The admission of peers, and the reports about peers that are refused.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use whimbrel::PublicKey;

use crate::news::News;

/// The least time between two lines about refused keys. A stranger can have any number of keys.
const APART: Duration = Duration::from_secs(60);

/// The keys that may connect, until the proxy stops. An endpoint consults it through `admit`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    keys: BTreeSet<PublicKey>,
    is_closed: bool,
    /// When people last heard of a key that is not let in, and how many came since.
    told: Option<Instant>,
    untold: u64,
}

impl Admission {
    /// Lets in these keys.
    pub fn new(keys: BTreeSet<PublicKey>) -> Self {
        Self(Arc::new(Mutex::new(State { keys, is_closed: false, told: None, untold: 0 })))
    }

    /// Lets nobody in from now on.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Sets whether a key is let in.
    pub(crate) fn set(&self, key: PublicKey, is_in: bool) {
        let mut state = self.lock();
        if is_in {
            state.keys.insert(key)
        } else {
            state.keys.remove(&key)
        };
    }

    /// Returns whether a key is let in.
    pub(crate) fn has(&self, key: &PublicKey) -> bool {
        let state = self.lock();
        !state.is_closed && state.keys.contains(key)
    }

    /// Returns whether a client with this key may connect. An unknown key is reported to `tell`, at most once a minute.
    pub fn ask(&self, key: &PublicKey, from: Option<SocketAddr>, tell: impl FnOnce(News)) -> bool {
        let mut state = self.lock();
        let is_known = state.keys.contains(key);
        if is_known || state.is_closed {
            return is_known && !state.is_closed;
        }
        if state.told.is_some_and(|last| last.elapsed() < APART) {
            state.untold += 1;
            return false;
        }
        state.told = Some(Instant::now());
        let others = std::mem::take(&mut state.untold);
        drop(state);
        tell(News::Refused { key: *key, from, others });
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_told_of_and_cause_no_flood_of_lines() {
        let [known, stranger] = [(); 2].map(|()| whimbrel::new_identity().public());
        let admission = Admission::new([known].into());
        let mut said = Vec::new();
        let from = Some("192.0.2.7:4433".parse().unwrap());
        let mut ask = |key: &PublicKey| admission.ask(key, from, |news| said.push(news.to_string()));
        assert!(ask(&known));
        for _ in 0..1_000 {
            assert!(!ask(&stranger) && !ask(&whimbrel::new_identity().public()));
        }
        admission.close();
        assert!(!ask(&known) && !admission.has(&known), "a proxy that stops lets nobody in");
        let wanted = format!(
            "refused {stranger} at 192.0.2.7:4433, since no [[peer]] with this key may connect: add one, or --allow it"
        );
        assert_eq!(said, [wanted]);
        // A minute later, the next one says how many there were.
        let admission = Admission::new(BTreeSet::new());
        admission.lock().untold = 7;
        let mut said = String::new();
        admission.ask(&stranger, None, |news| said = news.to_string());
        assert!(said.ends_with("; 7 others before it were not shown"), "{said}");
    }
}
