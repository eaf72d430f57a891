//! The DSCPs of SYNs that were handed back at once: the connection that is accepted does not show them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::held::Pair;
use crate::policy::Dscp;

/// How long a connection may take to be accepted, and the most that are remembered. Of others nothing is known.
const REMEMBERED: Duration = Duration::from_secs(10);
const MOST: usize = 4_096;

/// The DSCPs of connections that are not accepted yet.
#[derive(Debug, Default)]
pub(super) struct SeenDscps(Mutex<HashMap<Pair, (Dscp, Instant)>>);

impl SeenDscps {
    /// Remembers one.
    pub(super) fn on_syn(&self, pair: Pair, dscp: Dscp, now: Instant) {
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, (_, at)| now.duration_since(*at) < REMEMBERED);
        }
        if all.len() < MOST {
            all.insert(pair, (dscp, now));
        }
    }

    /// Takes that of a connection that was accepted.
    pub(super) fn take(&self, pair: Pair) -> Option<Dscp> {
        self.lock().remove(&pair).map(|(dscp, _)| dscp)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pair, (Dscp, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_accepted_makes_room() {
        let (seen, start) = (SeenDscps::default(), Instant::now());
        let pair =
            |port: u16| Pair { program: ([10, 0, 0, 1], port).into(), target: ([10, 0, 0, 2], 80).into() };
        let dscp = "ef".parse().unwrap();
        (1..=5_000).for_each(|port| seen.on_syn(pair(port), dscp, start));
        assert_eq!(seen.lock().len(), MOST);
        assert_eq!(
            (seen.take(pair(1)), seen.take(pair(1)), seen.take(pair(5_000))),
            (Some(dscp), None, None)
        );
        (6_000..6_002).for_each(|port| seen.on_syn(pair(port), dscp, start + REMEMBERED));
        assert_eq!(seen.take(pair(6_001)), Some(dscp));
        assert_eq!(seen.lock().len(), 1);
    }
}
