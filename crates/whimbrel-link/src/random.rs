//! Links drawn from a seed, so that nothing can be tuned to a list of links.

use std::fmt;
use std::time::Duration;

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::{
    Hold, LinkConfig, Loss, Outage, Policer, QueueLimit, Rate, Span, Step, Trace, Window, chance, dice,
};

/// The lowest rate, in bits per second of IP bytes.
const LEAST_RATE: f64 = 40e3;
/// The shortest and the longest round trip, in seconds.
const ROUND_TRIPS: (f64, f64) = (0.008, 1.0);
/// The shortest and the longest queue, in products of bandwidth and round trip.
const QUEUES: (f64, f64) = (0.1, 4.0);
/// The shortest queue in bytes: two full packets.
const LEAST_QUEUE: f64 = 3_000.0;
/// The lowest rate of the way back. Nobody sells less.
const LEAST_RETURN: f64 = 4e3;
/// The stream of the dice from which links are drawn.
const STREAM: u64 = 3;
/// Bytes of a packet, and the payload of messages in it.
const PACKET: (f64, f64) = (1_500.0, 1_437.0);
/// The bytes that a sender may send before it has heard anything (RFC 6928).
const FIRST_FLIGHT: f64 = 10.0 * PACKET.0;
/// Bytes of the handshake in each direction.
const HANDSHAKE: f64 = 400.0;

/// A reason why a drawn link is hard. A link may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Packets are lost independently: 0.2 to 20 %.
    Loss,
    /// Bursts of loss by the clock: 30 to 100 % for 20 to 300 ms, each 0.6 to 5 s.
    Bursts,
    /// 1 to 20 % of packets are overtaken by those of up to a round trip.
    Reordering,
    /// 0.1 to 5 % of packets arrive twice.
    Duplication,
    /// The delay varies by up to half of itself, and 50 ms at most.
    Jitter,
    /// Everything is held for 50 to 400 ms, for a twentieth to a third of the time.
    Suspensions,
    /// The rate falls to a half to a tenth and comes back, each for 0.3 to 5 s.
    Steps,
    /// The way back has down to a fiftieth of the rate.
    Asymmetric,
    /// A policer without a queue lets 20 to 80 % of the rate through.
    Policer,
    /// One or two outages of 0.3 to 5 s.
    Outages,
}

impl Class {
    /// All classes, with the probability that a link has it. They were written down before anything was measured.
    pub const ALL: [(Self, f64); 10] = [
        (Self::Loss, 0.35),
        (Self::Bursts, 0.12),
        (Self::Reordering, 0.12),
        (Self::Duplication, 0.08),
        (Self::Jitter, 0.2),
        (Self::Suspensions, 0.1),
        (Self::Steps, 0.12),
        (Self::Asymmetric, 0.2),
        (Self::Policer, 0.06),
        (Self::Outages, 0.08),
    ];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loss => "loss",
            Self::Bursts => "bursts",
            Self::Reordering => "reordering",
            Self::Duplication => "duplication",
            Self::Jitter => "jitter",
            Self::Suspensions => "suspensions",
            Self::Steps => "steps",
            Self::Asymmetric => "asymmetric",
            Self::Policer => "policer",
            Self::Outages => "outages",
        })
    }
}

/// A link drawn from a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// From the sender of data to its receiver.
    pub up: LinkConfig,
    /// The way back.
    pub down: LinkConfig,
    /// The rate of the bottleneck in bits per second, before steps and the policer.
    pub rate: u64,
    /// The round trip without queues.
    pub rtt: Duration,
    classes: Vec<Class>,
}

impl Drawn {
    /// Draws the link of a seed. `most` caps the rate, in bits per second.
    pub fn new(seed: u64, most: u64) -> Self {
        let mut dice = dice(seed, STREAM);
        let rate = digits(between(&mut dice, LEAST_RATE, (most as f64).max(LEAST_RATE)));
        let rtt = between(&mut dice, ROUND_TRIPS.0, ROUND_TRIPS.1);
        let product = rate / 8.0 * rtt;
        let queue = (between(&mut dice, QUEUES.0, QUEUES.1) * product).max(LEAST_QUEUE);
        let delay = tenths(rtt / 2.0);
        let plain = LinkConfig {
            rate: Some(Rate::Constant(rate as u64)),
            delay,
            queue: QueueLimit::Bytes(digits(queue) as usize),
            ..LinkConfig::default()
        };
        let mut this =
            Self { up: plain.clone(), down: plain, rate: rate as u64, rtt: delay * 2, classes: Vec::new() };
        for (class, probability) in Class::ALL {
            if chance(&mut dice, probability) {
                this.classes.push(class);
                this.harden(class, &mut dice);
            }
        }
        // A link is what is written of it, to the last digit.
        for link in [&mut this.up, &mut this.down] {
            if let Ok(written) = link.to_string().parse() {
                *link = written;
            }
        }
        this
    }

    /// Returns what makes it hard. Nothing: it has a rate, a delay and a queue only.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    fn harden(&mut self, class: Class, dice: &mut ChaCha8Rng) {
        let rtt = self.rtt.as_secs_f64();
        match class {
            Class::Loss => {
                let loss = digits(between(dice, 0.002, 0.2) * 1e4) / 1e4;
                self.both(|link| link.loss = Loss::Independent(loss));
            }
            Class::Bursts => {
                let length = tenths(between(dice, 0.02, 0.3));
                let every = tenths(between(dice, (length.as_secs_f64() * 3.0).max(0.6), 5.0));
                let loss_bad = digits(dice.random_range(0.3..1.0) * 100.0) / 100.0;
                self.both(|link| {
                    let loss_good = link.loss.mean();
                    link.loss = Loss::Clocked { every, length, loss_bad: loss_bad.max(loss_good), loss_good };
                });
            }
            Class::Reordering => {
                let share = digits(between(dice, 0.01, 0.2) * 1e3) / 1e3;
                let most = tenths(rtt * between(dice, 0.05, 1.0));
                self.both(|link| {
                    link.reorder = share;
                    link.reorder_by = Span::between(Duration::ZERO, most);
                });
            }
            Class::Duplication => {
                let share = digits(between(dice, 0.001, 0.05) * 1e4) / 1e4;
                self.both(|link| link.duplicate = share);
            }
            Class::Jitter => {
                let jitter = tenths((rtt / 2.0 * dice.random_range(0.02..0.5)).min(0.05));
                self.both(|link| link.jitter = jitter);
            }
            Class::Suspensions => {
                let length = tenths(between(dice, 0.05, 0.4));
                let every = tenths(length.as_secs_f64() * between(dice, 3.0, 20.0));
                self.both(|link| link.hold = Hold::new(length, every));
            }
            Class::Steps => {
                let low = (self.rate as f64 / between(dice, 2.0, 10.0)).round() as u64;
                let steps =
                    [self.rate, low].map(|rate| Step { rate, length: tenths(between(dice, 0.3, 5.0)) });
                // Both rates and times are above zero, so this is a trace.
                self.up.rate = Trace::new(steps.into()).map(Rate::Trace).or(self.up.rate.take());
            }
            Class::Asymmetric => {
                let rate = digits(self.rate as f64 / between(dice, 1.0, 50.0)).max(LEAST_RETURN);
                let queue = (between(dice, QUEUES.0, QUEUES.1) * rate / 8.0 * rtt).max(LEAST_QUEUE);
                self.down.rate = Some(Rate::Constant(rate as u64));
                self.down.queue = QueueLimit::Bytes(digits(queue) as usize);
            }
            Class::Policer => {
                let rate = digits(self.rate as f64 * dice.random_range(0.2..0.8));
                let burst = (rate / 8.0 * rtt * between(dice, 0.1, 2.0)).max(2.0 * LEAST_QUEUE);
                self.up.police = Some(Policer { rate: rate as u64, burst: digits(burst) as u32 });
            }
            Class::Outages => {
                let count = dice.random_range(1..3);
                let mut windows = Vec::new();
                for at in 0..count {
                    let begins = dice.random_range(2.0..14.0) + 14.0 * f64::from(at);
                    windows.push(Window { at: tenths(begins), length: tenths(between(dice, 0.3, 5.0)) });
                }
                self.both(|link| link.outage = Outage::Scheduled(windows.clone()));
            }
        }
    }

    fn both(&mut self, change: impl Fn(&mut LinkConfig)) {
        change(&mut self.up);
        change(&mut self.down);
    }

    /// Returns how many bytes of messages the link leaves to an ideal sender in this time from its first packet on. It
    /// counts the headers, the handshake, the doublings until the link is full, losses and outages.
    pub fn leaves(&self, time: Duration) -> f64 {
        let (rtt, time) = (self.rtt.as_secs_f64(), time.as_secs_f64());
        let rate = self.carries();
        let fill = rate / 8.0 * rtt;
        // Each round trip carries twice as much as the one before.
        let rounds = (fill / FIRST_FLIGHT).log2().max(0.0);
        let carried = if rounds > 0.0 { fill - FIRST_FLIGHT } else { 0.0 };
        let filling = rounds * rtt - carried / (rate / 8.0);
        let useful = time - self.setup() - filling - self.down_within(time);
        let arrives = 1.0 - self.up.loss.mean();
        useful.max(0.0) * rate / 8.0 * arrives * PACKET.1 / PACKET.0
    }

    /// Returns the first moment by which the link has room for this many bytes, within ten minutes.
    pub fn first_left(&self, bytes: f64) -> Duration {
        let (mut least, mut most) = (0.0, 600.0);
        while most - least > 1e-3 {
            let middle = (least + most) / 2.0;
            if self.leaves(Duration::from_secs_f64(middle)) < bytes {
                least = middle;
            } else {
                most = middle;
            }
        }
        Duration::from_secs_f64(most)
    }

    /// Returns the lowest rate that the link ever has, in bits per second.
    pub fn lowest(&self) -> u64 {
        let rate = match &self.up.rate {
            Some(Rate::Trace(trace)) => trace.lowest(),
            _ => self.rate,
        };
        self.up.police.map_or(rate, |policer| rate.min(policer.rate))
    }

    /// Returns whether the queue is long enough to choose how much waits in it: longer than a round trip, or 100 ms.
    pub fn may_choose(&self) -> bool {
        let queue = match self.up.queue {
            QueueLimit::Bytes(bytes) => bytes as f64 * 8.0 / self.rate as f64,
            _ => 0.0,
        };
        queue > self.tolerated().as_secs_f64()
    }

    /// Returns the queueing delay that is fine: a round trip, or 100 ms.
    pub fn tolerated(&self) -> Duration {
        self.rtt.max(Duration::from_millis(100))
    }

    /// Returns the rate that the link carries, in bits per second.
    fn carries(&self) -> f64 {
        let mean = self.up.rate.as_ref().map_or(self.rate, Rate::mean) as f64;
        // A policer cuts off what is above its rate, at each rate of a link that changes.
        let Some(policer) = self.up.police else { return mean };
        match &self.up.rate {
            Some(Rate::Trace(trace)) => trace.mean_below(policer.rate) as f64,
            _ => mean.min(policer.rate as f64),
        }
    }

    /// Returns the time until the first byte of a message has arrived, in seconds: three packets, which take their time.
    fn setup(&self) -> f64 {
        let rate = |link: &LinkConfig| link.rate.as_ref().map_or(self.rate, Rate::mean) as f64;
        self.rtt.as_secs_f64() * 1.5 + HANDSHAKE * 8.0 * (1.0 / rate(&self.up) + 1.0 / rate(&self.down))
    }

    fn down_within(&self, time: f64) -> f64 {
        let Outage::Scheduled(windows) = &self.up.outage else { return 0.0 };
        let end = |window: &Window| (window.at + window.length).as_secs_f64().min(time);
        windows.iter().map(|window| (end(window) - window.at.as_secs_f64()).max(0.0)).sum()
    }
}

/// The classes, and the settings of both directions.
impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes: Vec<_> = self.classes.iter().map(Class::to_string).collect();
        let classes = if classes.is_empty() { "plain".to_owned() } else { classes.join("+") };
        write!(f, "{classes}: {}", self.up)?;
        if self.down.rate != self.up.rate || self.down.queue != self.up.queue {
            let rate = self.down.rate.as_ref().map_or_else(String::new, Rate::to_string);
            write!(f, "; back: rate={rate}, queue={}", self.down.queue)?;
        }
        Ok(())
    }
}

/// Draws from a range, uniformly in the logarithm.
fn between(dice: &mut impl Rng, least: f64, most: f64) -> f64 {
    least * (most / least).powf(dice.random::<f64>())
}

/// Rounds to three digits, so that a link can be written down, and is the same on every machine.
fn digits(value: f64) -> f64 {
    let scale = 10f64.powi(2 - value.abs().max(1.0).log10().floor() as i32);
    (value * scale).round() / scale
}

/// Rounds to a tenth of a millisecond.
fn tenths(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e4).round().max(1.0) as u64 * 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 200_000_000;

    #[test]
    fn a_seed_draws_the_same_link_and_it_can_be_written_down() {
        for seed in 0..2_000 {
            let drawn = Drawn::new(seed, MOST);
            assert_eq!(drawn, Drawn::new(seed, MOST));
            for link in [&drawn.up, &drawn.down] {
                assert_eq!(link.to_string().parse().as_ref(), Ok(link), "seed {seed}");
            }
        }
    }

    #[test]
    fn classes_are_as_frequent_as_was_written_down() {
        let draws: Vec<_> = (0..20_000).map(|seed| Drawn::new(seed, MOST)).collect();
        for (class, probability) in Class::ALL {
            let share =
                draws.iter().filter(|drawn| drawn.classes().contains(&class)).count() as f64 / 20_000.0;
            assert!((share - probability).abs() < 0.012, "{class}: {share}");
        }
        let rates: Vec<_> = draws.iter().map(|drawn| drawn.rate).collect();
        assert!(rates.iter().all(|rate| (40_000..=MOST).contains(rate)));
        let slow = rates.iter().filter(|rate| **rate < 2_828_427).count() as f64 / 20_000.0;
        assert!((slow - 0.5).abs() < 0.012, "half are below the geometric mean: {slow}");
    }

    #[test]
    fn what_a_link_leaves_is_what_it_carries_less_the_start() {
        let link: LinkConfig = "rate=4mbit, delay=25ms, queue=25000b".parse().unwrap();
        let plain = Drawn {
            up: link.clone(),
            down: link,
            rate: 4_000_000,
            rtt: Duration::from_millis(50),
            classes: Vec::new(),
        };
        let leaves = |drawn: &Drawn| drawn.leaves(Duration::from_secs(30)) * 8.0 / 30.0 / 4e6;
        let whole = leaves(&plain);
        assert!((0.95..0.958).contains(&whole), "{whole}");
        let mut lossy = plain.clone();
        lossy.up.loss = Loss::Independent(0.1);
        assert!((leaves(&lossy) / whole - 0.9).abs() < 1e-9);
        let mut policed = plain.clone();
        policed.up.police = "1mbit/10kb".parse().ok();
        assert!((leaves(&policed) / whole - 0.25).abs() < 0.01);
        policed.up.rate = "trace:4mbit/1s+500kbit/1s".parse().ok();
        assert!((leaves(&policed) / whole - 0.1875).abs() < 0.01);
        let mut dark = plain;
        dark.up.outage = "at 10s for 3s + at 29s for 3s".parse().unwrap();
        assert!((leaves(&dark) / whole - 26.0 / 30.0).abs() < 0.01);
    }
}
