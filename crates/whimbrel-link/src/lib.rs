//! One pure model of a bad link, used by the simulator, the UDP relay and the laboratory alike.
//!
//! A [`Link`] is one direction. A packet meets, in this order:
//!
//! 1. the *MTU*: larger ones are dropped;
//! 2. the *policer*: what exceeds its rate is dropped, and nothing waits;
//! 3. the *bottleneck*: a drop-tail queue in front of a transmitter. Its rate is constant or varies over time. Packets
//!    that would wait long may get a CE mark;
//! 4. the *outage*: packets that leave the transmitter while the link is down are lost. The queue keeps draining, since
//!    a radio does not know that nobody hears it;
//! 5. the *loss*, drawn after the bottleneck: a lost packet has used its share of the rate;
//! 6. *duplication* and *corruption*;
//! 7. the *delay*, with jitter that never reorders, and with reordering where it is configured;
//! 8. the *hold*: what would arrive while the link is suspended arrives at the end of that.
//!
//! The fate of a packet is decided when it is pushed, so there is nothing to poll: [`Link::push`] returns the times
//! of delivery. The caller keeps the packet until then. The clock must only move forward.

#![warn(missing_debug_implementations)]

mod bottleneck;
mod calendar;
mod config;
mod histogram;
mod hold;
mod loss;
mod outage;
mod policer;
mod random;
mod rate;
#[cfg(all(unix, feature = "relay"))]
pub mod relay;
mod span;
mod stats;
pub use whimbrel_proto::units;

/// Compiles the example of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use calendar::Calendar;
pub use config::{LinkConfig, QueueLimit};
pub use histogram::Histogram;
pub use hold::Hold;
pub use loss::Loss;
pub use outage::{Outage, Window};
pub use policer::Policer;
pub use random::{Class, Drawn};
pub use rate::{Rate, Step, Trace};
pub use span::Span;
pub use stats::LinkStats;
pub use units::ParseError;

use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_proto::Time;

use bottleneck::Bottleneck;
use loss::LossState;
use outage::OutageState;
use policer::Bucket;

/// One direction of an emulated link. The [crate documentation](self) tells what happens to a packet in it.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    bucket: Bucket,
    bottleneck: Bottleneck,
    loss: LossState,
    outage: OutageState,
    dice: ChaCha8Rng,
    latest: Time,
    stats: LinkStats,
}

/// The fate of a pushed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet arrives, once or twice.
    Delivered(Delivery, Option<Delivery>),
    /// The packet does not arrive.
    Dropped(DropReason),
}

impl Verdict {
    /// Returns the arrivals of the packet: none, one or two.
    pub fn deliveries(self) -> impl Iterator<Item = Delivery> {
        let (first, second) = match self {
            Self::Delivered(first, second) => (Some(first), second),
            Self::Dropped(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// One arrival of a packet at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it arrives.
    pub at: Time,
    /// Whether the link marked it "congestion experienced".
    pub ce: bool,
    /// The damage to apply to its payload.
    pub flip: Option<Flip>,
}

/// Damage to one byte of a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The offset of the byte in the payload.
    pub offset: usize,
    /// The bits that change; never zero.
    pub mask: u8,
}

impl Flip {
    /// Applies the damage. It does nothing if `payload` is shorter than the packet that was pushed.
    pub fn apply(self, payload: &mut [u8]) {
        if let Some(byte) = payload.get_mut(self.offset) {
            *byte ^= self.mask;
        }
    }
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The packet was larger than the link's MTU.
    TooBig,
    /// The packet exceeded the policer's rate.
    Policed,
    /// The bottleneck's queue was full.
    QueueFull,
    /// The link was down when the packet was sent.
    Outage,
    /// The packet was lost at random.
    Loss,
}

impl Link {
    /// Creates an idle link. The same seed gives the same fate to the same packets. The draws for loss and outages do
    /// not depend on the other settings.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self::with_dice(config, seed, seed)
    }

    /// Creates the two directions of one link. Each has its own draws for loss, but random outages are the same for
    /// both: a host out of reach is so in both directions.
    pub fn pair(up: LinkConfig, down: LinkConfig, seed: u64) -> [Self; 2] {
        [Self::with_dice(up, seed, seed), Self::with_dice(down, seed ^ (1 << 63), seed)]
    }

    fn with_dice(config: LinkConfig, seed: u64, outage_seed: u64) -> Self {
        Self {
            bucket: Bucket::default(),
            bottleneck: Bottleneck::default(),
            loss: LossState::new(dice(seed, 1)),
            outage: OutageState::new(dice(outage_seed, 2)),
            dice: dice(seed, 0),
            latest: Time::ZERO,
            stats: LinkStats::default(),
            config,
        }
    }

    /// Sends a packet with `payload` bytes of UDP payload into the link.
    ///
    /// `ecn_capable` says that the packet carries ECT(0) or ECT(1), so it may be marked. `now` must not run
    /// backwards. Outage schedules count from [`Time::ZERO`].
    pub fn push(&mut self, now: Time, payload: usize, ecn_capable: bool) -> Verdict {
        let size = payload + self.config.overhead;
        self.stats.offered += 1;
        self.stats.offered_bytes += size as u64;
        match self.transmit(now, size) {
            Ok(sent) => self.arrive(sent, payload, size, ecn_capable),
            Err(drop) => {
                self.stats.on_drop(drop);
                Verdict::Dropped(drop)
            }
        }
    }

    /// Changes the settings at run time, as for a moving radio. Packets in the queue or in flight keep their fate.
    pub fn reconfigure(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// Returns the link's settings.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// How long a packet pushed now would wait for the transmitter.
    pub fn backlog(&self, now: Time) -> Duration {
        self.bottleneck.wait(now)
    }

    /// Counters since the start.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    fn transmit(&mut self, now: Time, size: usize) -> Result<Sent, DropReason> {
        if self.config.mtu.is_some_and(|mtu| size > mtu) {
            return Err(DropReason::TooBig);
        }
        if self.config.police.is_some_and(|policer| !self.bucket.take(policer, now, size)) {
            return Err(DropReason::Policed);
        }
        let wait = self.bottleneck.wait(now);
        if !self.config.queue.admits(now, wait, size, self.config.rate.as_ref()) {
            return Err(DropReason::QueueFull);
        }
        let end = self.bottleneck.send(now, size, self.config.rate.as_ref());
        self.stats.queue_delay.record(wait);
        if self.outage.is_down(&self.config.outage, end) {
            return Err(DropReason::Outage);
        }
        if self.loss.draw(&self.config.loss, end) {
            return Err(DropReason::Loss);
        }
        Ok(Sent { end, wait })
    }

    fn arrive(&mut self, sent: Sent, payload: usize, size: usize, ecn_capable: bool) -> Verdict {
        let ce = ecn_capable && self.config.ecn_mark.is_some_and(|threshold| sent.wait > threshold);
        self.stats.ce_marked += u64::from(ce);
        let first = self.deliver(sent.end, payload, size, ce);
        let twice = chance(&mut self.dice, self.config.duplicate);
        self.stats.duplicated += u64::from(twice);
        let second = twice.then(|| self.deliver(sent.end, payload, size, ce));
        Verdict::Delivered(first, second)
    }

    fn deliver(&mut self, sent: Time, payload: usize, size: usize, ce: bool) -> Delivery {
        self.stats.delivered += 1;
        self.stats.delivered_bytes += size as u64;
        Delivery { at: self.arrival(sent), ce, flip: self.flip(payload) }
    }

    fn arrival(&mut self, sent: Time) -> Time {
        let mut at = sent + self.config.delay;
        if !self.config.jitter.is_zero() {
            let swing = self.config.jitter.mul_f64(2.0 * self.dice.random::<f64>());
            at = (at + swing).saturating_sub(self.config.jitter).max(sent);
        }
        if chance(&mut self.dice, self.config.reorder) {
            // The packet is held back without those behind it, so that they overtake it.
            self.stats.reordered += 1;
            let late = at + self.config.reorder_by.draw(&mut self.dice);
            return self.release(late);
        }
        self.latest = self.latest.max(at);
        self.release(self.latest)
    }

    fn release(&self, at: Time) -> Time {
        self.config.hold.map_or(at, |hold| hold.release(at))
    }

    fn flip(&mut self, payload: usize) -> Option<Flip> {
        if payload == 0 || !chance(&mut self.dice, self.config.corrupt) {
            return None;
        }
        self.stats.corrupted += 1;
        let offset = self.dice.random_range(0..payload);
        Some(Flip { offset, mask: self.dice.random_range(1..=u8::MAX) })
    }
}

struct Sent {
    end: Time,
    wait: Duration,
}

fn dice(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

fn chance(dice: &mut impl Rng, probability: f64) -> bool {
    probability > 0.0 && dice.random::<f64>() < probability
}

fn exponential(dice: &mut impl Rng, mean: Duration) -> Duration {
    mean.mul_f64(-(1.0 - dice.random::<f64>()).ln())
}

#[cfg(test)]
mod tests;
