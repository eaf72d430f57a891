//! Quotas of clients: the most that one may publish, subscribe to and have waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::share::Share;

/// The most that a client may do. `None`: as much as the broker's limits say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Messages a second that it publishes.
    pub messages: Option<u32>,
    /// Bytes a second of these messages.
    pub bytes: Option<u64>,
    /// Subscriptions of a session.
    pub subscriptions: Option<usize>,
    /// Bytes that are read for a subscription and not sent, or of messages sent and not acknowledged.
    pub queued: Option<usize>,
}

/// A client may publish so much at once as is permitted in this time. Then it is held back.
const BURST: Duration = Duration::from_secs(1);
/// A message is refused if it would hold its client back for longer.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// The pace of a client: until when what it published is paid for, and its share of what waits for the disk.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    paid: Mutex<Paid>,
    share: Arc<Share>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Paid {
    messages: Option<Instant>,
    bytes: Option<Instant>,
}

/// A message that no pace permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes would take more than 30 s of your quota, {most} bytes a second")]
pub(crate) struct TooLong {
    length: usize,
    most: u64,
}

/// The paces of clients that connect more than once.
#[derive(Debug)]
pub(crate) struct Paces<K>(Mutex<Known<K>>);

#[derive(Debug)]
struct Known<K> {
    paces: BTreeMap<K, Arc<Pace>>,
    /// With so many it is looked who can be forgotten.
    most: usize,
}

/// The fewest paces among which it is looked who can be forgotten.
const FEWEST: usize = 64;

impl Quota {
    /// The lesser of the quota for subscriptions and `most`.
    pub(crate) fn subscriptions(&self, most: usize) -> usize {
        self.subscriptions.map_or(most, |quota| quota.min(most))
    }

    /// The lesser of the quota for what is queued and `most`.
    pub(crate) fn queued(&self, most: usize) -> usize {
        self.queued.map_or(most, |quota| quota.min(most))
    }
}

impl Pace {
    /// A message of this length is published.
    pub(crate) fn spend(&self, quota: &Quota, length: usize, now: Instant) -> Result<(), TooLong> {
        let bytes = quota.bytes.map(|most| (most.max(1), length as f64 / most.max(1) as f64));
        if let Some((most, seconds)) = bytes
            && seconds > LONGEST_HOLD.as_secs_f64()
        {
            return Err(TooLong { length, most });
        }
        let mut paid = self.paid();
        let messages = quota.messages.map(|most| 1.0 / f64::from(most.max(1)));
        let Paid { messages: until_messages, bytes: until_bytes } = &mut *paid;
        for (until, seconds) in [(until_messages, messages), (until_bytes, bytes.map(|(_, seconds)| seconds))]
        {
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            *until = seconds
                .map(|seconds| until.unwrap_or(earliest).max(earliest) + Duration::from_secs_f64(seconds));
        }
        Ok(())
    }

    /// The time at which the client may go on publishing, if it may not now.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        let Paid { messages, bytes } = *self.paid();
        messages.max(bytes).filter(|until| *until > now)
    }

    /// The client's share of what waits for the disk.
    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    fn paid(&self) -> MutexGuard<'_, Paid> {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Default for Paces<K> {
    fn default() -> Self {
        Self(Mutex::new(Known { paces: BTreeMap::new(), most: FEWEST }))
    }
}

impl<K: Ord> Paces<K> {
    /// The pace of a client, which is the same at all of its connections, and goes on when it comes again.
    pub(crate) fn of(&self, client: K, now: Instant) -> Arc<Pace> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { paces, most } = &mut *known;
        if paces.len() >= *most {
            // A client that neither is there nor owes anything is forgotten.
            paces.retain(|_, pace| Arc::strong_count(pace) > 1 || pace.until(now).is_some());
            *most = (2 * paces.len()).max(FEWEST);
        }
        Arc::clone(paces.entry(client).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_held_back_for_as_long_as_its_quota_says() {
        let (pace, now) = (Pace::default(), Instant::now() + Duration::from_secs(10));
        let quota = Quota { messages: Some(10), bytes: Some(1_000), ..Quota::default() };
        for _ in 0..10 {
            assert_eq!(pace.until(now), None);
            pace.spend(&quota, 1, now).unwrap();
        }
        pace.spend(&quota, 1, now).unwrap();
        let wait = pace.until(now).unwrap() - now;
        assert!(wait.abs_diff(Duration::from_millis(100)) < Duration::from_millis(2), "{wait:?}");
        let later = now + Duration::from_secs(5);
        assert_eq!(pace.until(later), None);
        pace.spend(&quota, 4_000, later).unwrap();
        let wait = pace.until(later).unwrap() - later;
        assert!(wait.abs_diff(Duration::from_secs(3)) < Duration::from_millis(2), "{wait:?}");
        let refused = pace.spend(&quota, 30_001, later).unwrap_err().to_string();
        assert!(refused.contains("1000 bytes a second"), "{refused}");
        pace.spend(&Quota::default(), 1 << 30, later).unwrap();
        assert_eq!(pace.until(later), None, "the quota was taken away");
    }

    #[test]
    fn who_comes_again_still_owes() {
        let (paces, now) = (Paces::default(), Instant::now() + Duration::from_secs(10));
        let quota = Quota { messages: Some(1), ..Quota::default() };
        let first = paces.of(0, now);
        (0..5).for_each(|_| first.spend(&quota, 1, now).unwrap());
        drop(first);
        (1..=FEWEST).for_each(|other| drop(paces.of(other, now)));
        assert!(paces.of(0, now).until(now).is_some() && paces.of(1, now).until(now).is_none());
        assert_eq!(
            paces.0.lock().unwrap().paces.len(),
            3,
            "the others were forgotten, and one of them came again"
        );
        let later = now + Duration::from_secs(60);
        (1..=FEWEST).for_each(|other| drop(paces.of(other, later)));
        assert!(!paces.0.lock().unwrap().paces.contains_key(&0));
    }
}
