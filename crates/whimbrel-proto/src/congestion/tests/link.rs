//! A bottleneck: drop-tail queue, rate in steps, then delay, then random loss, bursts of it, and outages.

use std::time::Duration;

use crate::Time;

/// A path, both ways. The way back has no queue.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// From when, and how many wire bits a second.
    pub(super) rates: Vec<(Duration, u64)>,
    /// After this long the rates come again.
    pub(super) period: Duration,
    /// Bytes of queue.
    pub(super) queue: u64,
    /// No packet waits longer, whatever the rate.
    pub(super) longest_wait: Duration,
    pub(super) rtt: Duration,
    /// Each way, permille.
    pub(super) loss: u64,
    pub(super) bursts: Option<Bursts>,
    /// Nothing arrives, either way.
    pub(super) outages: Vec<(Duration, Duration)>,
    /// Delay added, evenly between zero and this, each way; order is kept.
    pub(super) jitter: Duration,
    /// By how much a packet may be earlier than half of `rtt`, each way, before that.
    pub(super) early: Duration,
    /// Packets to an acknowledgement.
    pub(super) ack_every: u32,
}

impl Link {
    /// `queue` in milliseconds at the first rate.
    pub(super) fn new(bits: u64, rtt_ms: u64, queue_ms: u64, loss: u64) -> Self {
        Self {
            rates: vec![(Duration::ZERO, bits)],
            period: Duration::MAX,
            queue: bits / 8 * queue_ms / 1000,
            longest_wait: Duration::MAX,
            rtt: Duration::from_millis(rtt_ms),
            loss,
            bursts: None,
            outages: Vec::new(),
            jitter: Duration::ZERO,
            early: Duration::ZERO,
            ack_every: 2,
        }
    }

    pub(super) fn bytes_per_s(&self, now: Time) -> u64 {
        let at = self.in_period(now);
        self.rates.iter().rev().find(|(from, _)| *from <= at).map_or(1, |(_, bits)| bits / 8)
    }

    pub(super) fn is_out(&self, now: Time) -> bool {
        let at = self.in_period(now);
        self.outages.iter().any(|(from, to)| *from <= at && at < *to)
    }

    /// `crowded-hall` of the laboratory.
    pub(super) fn crowded_hall() -> Self {
        let ms = Duration::from_millis;
        Self {
            rates: vec![(ms(0), 4_000_000), (ms(700), 500_000)],
            period: ms(1000),
            longest_wait: ms(200),
            bursts: Some(Bursts { good: ms(900), bad: ms(100), loss: 600 }),
            jitter: ms(30),
            early: ms(15),
            ..Self::new(4_000_000, 30, 200, 10)
        }
    }

    /// `crowded-hall` with its jitter alone.
    pub(super) fn jittery_hall() -> Self {
        let hall = Self::crowded_hall();
        Self { jitter: hall.jitter, early: hall.early, ..Self::new(4_000_000, 30, 200, 0) }
    }

    /// `train` of the laboratory, from the train.
    pub(super) fn train() -> Self {
        let ms = Duration::from_millis;
        Self {
            rates: vec![(ms(0), 8_000_000), (ms(8000), 800_000)],
            period: ms(12_000),
            longest_wait: ms(300),
            outages: vec![(ms(11_500), ms(12_000))],
            jitter: ms(20),
            early: ms(10),
            ..Self::new(8_000_000, 80, 300, 5)
        }
    }

    /// Over a long time, permille.
    pub(super) fn mean_loss(&self) -> f64 {
        let bad = self.bursts.map_or(0.0, |b| b.bad.as_secs_f64() / (b.good + b.bad).as_secs_f64());
        let bursts = self.bursts.map_or(0.0, |bursts| bursts.loss as f64);
        self.loss as f64 * (1.0 - bad) + bursts * bad
    }

    fn in_period(&self, now: Time) -> Duration {
        let at = now.since(Time::ZERO);
        let nanos = at.as_nanos() % self.period.as_nanos();
        Duration::from_nanos(nanos as u64)
    }
}

/// Loss in bursts by time (Gilbert, Elliott): the lengths are means, exponentially distributed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    pub(super) good: Duration,
    pub(super) bad: Duration,
    /// Lost in a bad time, permille.
    pub(super) loss: u64,
}

/// Whether bad times are now, for one way.
#[derive(Debug)]
pub(super) struct Weather {
    dice: Dice,
    bad: bool,
    until: Time,
}

impl Weather {
    pub(super) fn new(seed: u64) -> Self {
        Self { dice: Dice(seed), bad: true, until: Time::ZERO }
    }

    /// Whether a packet that leaves the bottleneck at `now` is lost; `otherwise`: in a good time, permille.
    pub(super) fn takes(&mut self, bursts: Bursts, otherwise: u64, now: Time) -> bool {
        while self.until <= now {
            self.bad = !self.bad;
            let uniform = (self.dice.next() >> 11) as f64 / (1u64 << 53) as f64;
            let mean = if self.bad { bursts.bad } else { bursts.good };
            self.until += mean.mul_f64(-(1.0 - uniform).ln());
        }
        self.dice.permille(if self.bad { bursts.loss } else { otherwise })
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
        if self.backlog + size > link.queue + size || self.free_at.since(now) > link.longest_wait {
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
