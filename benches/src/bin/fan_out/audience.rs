//! The subscribers, and the counts of what they received.

use std::sync::{Arc, Mutex, PoisonError};

use crate::stamp::Stamp;

/// Buckets to the octave of a latency. The error is at most 3 %.
const FINE: u32 = 4;
const BUCKETS: usize = 64 << FINE;

/// The counts of all subscribers.
#[derive(Debug)]
pub(crate) struct Audience {
    tallies: Vec<Arc<Mutex<Tally>>>,
}

/// The counts of one subscriber.
#[derive(Debug)]
pub(crate) struct Tally {
    step: u32,
    received: u64,
    /// The number of the next message of each publisher, if none is lost.
    next: Vec<u64>,
    /// Messages that came twice, or behind a later one.
    disordered: u64,
    /// When the last one came.
    last: u64,
    latencies: Box<[u32]>,
}

/// The sums of a step.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) received: u64,
    pub(crate) disordered: u64,
    pub(crate) last: u64,
    latencies: Vec<u64>,
}

impl Audience {
    pub(crate) fn new(subscribers: usize) -> Self {
        Self { tallies: (0..subscribers).map(|_| Arc::default()).collect() }
    }

    pub(crate) fn tallies(&self) -> impl Iterator<Item = Arc<Mutex<Tally>>> {
        self.tallies.iter().cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.tallies.len()
    }

    /// Begins a step.
    pub(crate) fn begin(&self, step: u32) {
        self.each(|tally| {
            let next = std::mem::take(&mut tally.next);
            *tally = Tally { step, next, ..Tally::default() };
        });
    }

    pub(crate) fn received(&self) -> u64 {
        let mut sum = 0;
        self.each(|tally| sum += tally.received);
        sum
    }

    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums { latencies: vec![0; BUCKETS], ..Sums::default() };
        self.each(|tally| {
            sums.received += tally.received;
            sums.disordered += tally.disordered;
            sums.last = sums.last.max(tally.last);
            sums.latencies
                .iter_mut()
                .zip(&tally.latencies)
                .for_each(|(sum, count)| *sum += u64::from(*count));
        });
        sums
    }

    fn each(&self, mut with: impl FnMut(&mut Tally)) {
        self.tallies.iter().for_each(|tally| with(&mut tally.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

impl Default for Tally {
    fn default() -> Self {
        let latencies = vec![0; BUCKETS].into();
        Self { step: 0, received: 0, next: Vec::new(), disordered: 0, last: 0, latencies }
    }
}

impl Tally {
    /// A payload came at `now`. One of another step does not count.
    pub(crate) fn came(&mut self, payload: &[u8], now: u64) {
        let Some(stamp) = Stamp::read(payload) else { return };
        let at = stamp.publisher as usize;
        if self.next.len() <= at {
            self.next.resize(at + 1, 0);
        }
        let is_ahead = stamp.number >= self.next[at];
        self.next[at] = self.next[at].max(stamp.number + 1);
        if stamp.step != self.step {
            return;
        }
        if !is_ahead {
            self.disordered += 1;
            return;
        }
        self.received += 1;
        self.last = now;
        self.latencies[bucket(now.saturating_sub(stamp.due))] += 1;
    }
}

impl Sums {
    /// The latency that so much of the deliveries did not exceed, in seconds.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let rank = (self.received as f64 * part) as u64;
        let mut seen = 0;
        for (bucket, count) in self.latencies.iter().enumerate() {
            seen += count;
            if seen > rank {
                return middle(bucket) / 1e9;
            }
        }
        f64::NAN
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1 << FINE);
    let octave = nanos.ilog2();
    ((u64::from(octave) << FINE) + ((nanos >> (octave - FINE)) - (1 << FINE))) as usize
}

/// The nanoseconds in the middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let (octave, fine) = (bucket >> FINE, bucket & ((1 << FINE) - 1));
    (octave as f64).exp2() * (1.0 + (fine as f64 + 0.5) / f64::from(1 << FINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_3_percent() {
        let stamp = |publisher: u32, number| Stamp { due: 0, step: publisher, publisher, number };
        let mut tally = Tally::default();
        for number in 0..100_000 {
            tally.came(&stamp(0, number).payload(), 1_000 * (number + 1));
            // Another publisher has numbers of its own, and another step does not count.
            tally.came(&stamp(1, number).payload(), 7);
        }
        // One that comes again counts as that, and not as received.
        tally.came(&stamp(0, 99_999).payload(), 5);
        let audience = Audience { tallies: vec![Arc::new(Mutex::new(tally))] };
        let sums = audience.sums();
        assert_eq!((sums.received, sums.disordered, sums.last), (100_000, 1, 100_000_000));
        for part in [0.01, 0.5, 0.9, 0.99] {
            let (found, exact) = (sums.quantile(part), 0.1 * part);
            assert!((found / exact - 1.0).abs() < 0.032, "{part}: {found} for {exact}");
        }
    }
}
