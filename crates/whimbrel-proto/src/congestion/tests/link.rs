//! A simulated bottleneck: a drop-tail queue with stepped rates, then delay, random loss, loss bursts and outages.

use std::time::Duration;

use crate::Time;

/// A path in both directions. The return direction has no queue.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Rates in wire bits a second, each with the time from which it holds.
    pub(super) rates: Vec<(Duration, u64)>,
    /// The rates repeat after this long.
    pub(super) period: Duration,
    /// The size of the queue in bytes.
    pub(super) queue: u64,
    /// The longest time that a packet waits, whatever the rate.
    pub(super) longest_wait: Duration,
    pub(super) rtt: Duration,
    /// Random loss in each direction, permille.
    pub(super) loss: u64,
    pub(super) bursts: Option<Bursts>,
    /// Times from and to which nothing arrives in either direction.
    pub(super) outages: Vec<(Duration, Duration)>,
    /// Delay added in each direction, evenly distributed from zero to this; order is kept.
    pub(super) jitter: Duration,
    /// How much earlier than half of `rtt` a packet may be in each direction, before jitter is added.
    pub(super) early: Duration,
    /// Packets per acknowledgement.
    pub(super) ack_every: u32,
}

impl Link {
    /// Creates a link whose queue holds `queue_ms` milliseconds at `bits`, with `loss` permille of random loss.
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

    /// The condition `crowded-hall` of the laboratory.
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

    /// The condition `crowded-hall` with only its jitter.
    pub(super) fn jittery_hall() -> Self {
        let hall = Self::crowded_hall();
        Self { jitter: hall.jitter, early: hall.early, ..Self::new(4_000_000, 30, 200, 0) }
    }

    /// The condition `train` of the laboratory, from the train's side.
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

    /// The mean loss over a long time, permille.
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

/// Loss in bursts by time (Gilbert-Elliott model). The lengths are means of exponential distributions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    pub(super) good: Duration,
    pub(super) bad: Duration,
    /// Loss in a bad time, permille.
    pub(super) loss: u64,
}

/// The state of a burst-loss model in one direction.
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

    /// Returns whether a packet that leaves the bottleneck at `now` is lost; `otherwise` is the loss in a good time,
    /// permille.
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

/// The queue, and counts of the packets offered to it.
#[derive(Debug, Default)]
pub(super) struct Bottleneck {
    free_at: Time,
    waiting: std::collections::VecDeque<(Time, u64)>,
    backlog: u64,
    pub(super) offered: u64,
    pub(super) dropped: u64,
    pub(super) passed: u64,
    /// The queueing delay of each packet that passed.
    pub(super) delays: Vec<(Time, Duration)>,
}

impl Bottleneck {
    /// When the packet has passed the bottleneck; `None` if it was dropped.
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
