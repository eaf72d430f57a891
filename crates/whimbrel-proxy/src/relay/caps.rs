//! Caps: what the TCP flows of a rule may send together.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::policy::Decision;
use crate::protocol::Cap;

/// The most groups of a session whose flows share a cap. Flows of further ones have one each.
const MOST_GROUPS: usize = 256;
/// The part of a second that may be sent at once after a pause, and the least that may.
const BURST: u64 = 10;
const LEAST_BURST: u64 = 1_024;
/// The most that a flow takes at once, so that others have a turn.
const QUANTUM: usize = 16 * 1024;

/// Returns the cap that a decision gives its flows. The group is the same for all flows of a rule.
pub(crate) fn cap_of(decision: &Decision) -> Option<Cap> {
    let (_, name) = decision.rule.as_ref()?;
    // FNV-1a: any number will do that differs between rules.
    let group = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    decision.cap.map(|bits| Cap { group, rate: (bits / 8).max(1) })
}

/// The caps of a session.
#[derive(Debug, Default)]
pub(super) struct Caps(Mutex<HashMap<u64, Weak<Bucket>>>);

/// The budget of bytes that a group may send now.
#[derive(Debug)]
struct Bucket(Mutex<Tokens>);

#[derive(Debug)]
struct Tokens {
    rate: u64,
    left: u64,
    filled: Instant,
}

/// A flow under a cap.
#[derive(Debug)]
pub(super) struct Capped {
    cap: Cap,
    bucket: Arc<Bucket>,
    /// It waits until then.
    waits: Option<Pin<Box<Sleep>>>,
}

impl Caps {
    /// Puts a flow under a cap. The cap then holds for all flows of its group.
    pub(super) fn under(&self, cap: Cap) -> Capped {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = groups.get(&cap.group).and_then(Weak::upgrade);
        let bucket = known.unwrap_or_else(|| {
            let bucket = Arc::new(Bucket(Mutex::new(Tokens::new(cap.rate, Instant::now()))));
            if groups.len() >= MOST_GROUPS {
                groups.retain(|_, bucket| bucket.strong_count() > 0);
            }
            if groups.len() < MOST_GROUPS {
                groups.insert(cap.group, Arc::downgrade(&bucket));
            }
            bucket
        });
        bucket.lock().set_rate(cap.rate, Instant::now());
        Capped { cap, bucket, waits: None }
    }
}

impl Capped {
    /// Returns the cap.
    pub(super) fn cap(&self) -> Cap {
        self.cap
    }

    /// Waits until some of these bytes may be sent, and returns how many.
    pub(super) fn poll_take(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<usize> {
        loop {
            if let Some(waits) = &mut self.waits {
                ready!(waits.as_mut().poll(cx));
                self.waits = None;
            }
            let now = Instant::now();
            match self.bucket.lock().take(wanted, now) {
                Ok(granted) => return Poll::Ready(granted),
                Err(pause) => self.waits = Some(Box::pin(sleep_until(now + pause))),
            }
        }
    }

    /// Gives back what was not sent.
    pub(super) fn give_back(&self, bytes: usize) {
        self.bucket.lock().left += bytes as u64;
    }
}

impl Bucket {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens {
    fn new(rate: u64, now: Instant) -> Self {
        Self { rate, left: burst(rate), filled: now }
    }

    fn set_rate(&mut self, rate: u64, now: Instant) {
        if self.rate != rate {
            self.fill(now);
            (self.rate, self.left) = (rate, self.left.min(burst(rate)));
        }
    }

    fn fill(&mut self, now: Instant) {
        let micros = now.duration_since(self.filled).as_micros();
        let came = micros * u128::from(self.rate) / 1_000_000;
        // What is less than a byte is not lost: the time stays as it was.
        if came > 0 {
            self.left =
                u64::try_from(came).unwrap_or(u64::MAX).saturating_add(self.left).min(burst(self.rate));
            self.filled = now;
        }
    }

    /// Takes some of `wanted` bytes, or returns how long to wait. An empty write needs none.
    fn take(&mut self, wanted: usize, now: Instant) -> Result<usize, Duration> {
        self.fill(now);
        let wanted = wanted.min(QUANTUM) as u64;
        // A few bytes at a time would make many small packets.
        let least = wanted.min(LEAST_BURST);
        if self.left < least {
            let micros = (u128::from(least - self.left) * 1_000_000).div_ceil(u128::from(self.rate));
            // A rate that rises meanwhile is noticed.
            return Err(Duration::from_micros(micros.min(1_000_000) as u64));
        }
        let granted = wanted.min(self.left);
        self.left -= granted;
        Ok(granted as usize)
    }
}

fn burst(rate: u64) -> u64 {
    (rate / BURST).max(LEAST_BURST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all that is to be had in so long, from one bucket.
    fn taken(tokens: &mut Tokens, from: Instant, long: Duration) -> u64 {
        let (mut now, mut all) = (from, 0);
        while now < from + long {
            match tokens.take(100_000, now) {
                Ok(granted) => all += granted as u64,
                Err(pause) => now += pause,
            }
        }
        all
    }

    #[test]
    fn a_bucket_gives_its_rate_and_a_burst() {
        let start = Instant::now();
        for rate in [100, 12_500, 1_000_000, 250_000_000] {
            let mut tokens = Tokens::new(rate, start);
            let all = taken(&mut tokens, start, Duration::from_secs(20));
            let fair = 20 * rate;
            assert!(all <= fair + burst(rate) + LEAST_BURST, "{rate}: {all}");
            assert!(all + LEAST_BURST >= fair * 99 / 100, "{rate}: {all}");
        }
    }

    #[test]
    fn a_rate_that_changes_holds_at_once() {
        let start = Instant::now();
        let mut tokens = Tokens::new(1_000_000, start);
        tokens.set_rate(10_000, start);
        let all = taken(&mut tokens, start, Duration::from_secs(10));
        assert!((90_000..=102_048).contains(&all), "{all}");
    }

    #[test]
    fn flows_of_a_group_share_and_those_of_many_groups_do_not_grow() {
        let caps = Caps::default();
        let one = caps.under(Cap { group: 1, rate: 10 });
        let other = caps.under(Cap { group: 1, rate: 20 });
        assert!(Arc::ptr_eq(&one.bucket, &other.bucket));
        let all: Vec<_> = (0..1_000).map(|group| caps.under(Cap { group, rate: 1 })).collect();
        assert_eq!(caps.0.lock().unwrap().len(), MOST_GROUPS);
        drop((one, other, all));
        drop(caps.under(Cap { group: 9_999, rate: 1 }));
        assert_eq!(caps.0.lock().unwrap().len(), 1, "those that are gone make room");
    }
}
