//! A bottleneck: drop-tail queue, rate in steps, then delay, then random loss and outages.

use std::time::Duration;

use crate::Time;

/// A path, both ways. The way back has no queue.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// From when, and how many wire bits a second.
    pub(super) rates: Vec<(Duration, u64)>,
    /// Bytes of queue.
    pub(super) queue: u64,
    pub(super) rtt: Duration,
    /// Each way, permille.
    pub(super) loss: u64,
    /// Nothing arrives, either way.
    pub(super) outages: Vec<(Duration, Duration)>,
    /// Delay added, evenly between zero and this, each way; order is kept.
    pub(super) jitter: Duration,
    /// Packets to an acknowledgement.
    pub(super) ack_every: u32,
}

impl Link {
    /// `queue` in milliseconds at the first rate.
    pub(super) fn new(bits: u64, rtt_ms: u64, queue_ms: u64, loss: u64) -> Self {
        Self {
            rates: vec![(Duration::ZERO, bits)],
            queue: bits / 8 * queue_ms / 1000,
            rtt: Duration::from_millis(rtt_ms),
            loss,
            outages: Vec::new(),
            jitter: Duration::ZERO,
            ack_every: 2,
        }
    }

    pub(super) fn bytes_per_s(&self, now: Time) -> u64 {
        let at = now.since(Time::ZERO);
        self.rates.iter().rev().find(|(from, _)| *from <= at).map_or(1, |(_, bits)| bits / 8)
    }

    pub(super) fn is_out(&self, now: Time) -> bool {
        let at = now.since(Time::ZERO);
        self.outages.iter().any(|(from, to)| *from <= at && at < *to)
    }
}

/// Seeded randomness (splitmix64).
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn permille(&mut self, chance: u64) -> bool {
        self.next() % 100_000 < chance * 100
    }
}

/// The queue and what became of packets in it.
#[derive(Debug, Default)]
pub(super) struct Bottleneck {
    free_at: Time,
    waiting: std::collections::VecDeque<(Time, u64)>,
    backlog: u64,
    pub(super) offered: u64,
    pub(super) dropped: u64,
    pub(super) passed: u64,
    /// Queueing delay of each packet passed.
    pub(super) delays: Vec<(Time, Duration)>,
}

impl Bottleneck {
    /// When the packet is through; `None`: dropped.
    pub(super) fn take(&mut self, link: &Link, now: Time, size: u64) -> Option<Time> {
        self.offered += 1;
        while let Some((_, left)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            self.backlog -= left;
        }
        if self.backlog + size > link.queue + size {
            self.dropped += 1;
            return None;
        }
        let start = self.free_at.max(now);
        let rate = link.bytes_per_s(start);
        self.free_at = start + Duration::from_nanos(size * 1_000_000_000 / rate);
        self.waiting.push_back((start, size));
        self.backlog += size;
        self.passed += size;
        self.delays.push((now, start.since(now)));
        Some(self.free_at)
    }
}
