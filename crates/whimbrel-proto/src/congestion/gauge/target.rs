//! Decides how long a queue to keep at the bottleneck.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;
use crate::congestion::math::ONE;

/// Packets to queue for a bandwidth-delay product of one packet, permille. They grow with the square root of the
/// product.
const PACKETS: u64 = 1200;
/// The shortest wanted queue: a shorter one cannot be told from scheduling.
const SHORTEST: Duration = Duration::from_millis(2);
/// Periods after which a queue that never empties is attributed to other flows.
const PATIENCE: u32 = 8;
/// Growth of the wanted queue per period while other flows keep it long, permille.
const GROWTH: u64 = 1060;
/// The longest queue wanted in company, permille of a base round trip. A buffer of one bandwidth-delay product holds
/// a whole base round trip only while it overflows. A flow steering for that would keep it full for ever and starve
/// flows that react to loss.
const MOST_IN_COMPANY: u64 = 850;
/// The longest queue wanted in company, permille of the longest queue seen. Where the base round trip is no longer
/// seen, the queue measured above it would never reach a longer target.
const BELOW_FULLEST: u64 = 900;
/// The longest queue seen fades by one part in this many per period.
const FADING: u32 = 256;
/// The factor by which the wanted queue is cut at congestion, permille.
const CUT: u64 = 700;
/// How long the depth at which the queue overflowed is remembered.
const DEPTH_MEMORY: Duration = Duration::from_secs(10);

/// The queue as seen in a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnQueue {
    pub(super) delay: Duration,
    pub(super) bandwidth: u64,
    pub(super) base: Duration,
    pub(super) packet_size: u64,
}

/// The wanted queue.
#[derive(Debug)]
pub(super) struct QueueTarget {
    /// The wanted queue as a multiple of what a flow alone would want, permille.
    multiple: u64,
    /// The shortest and longest queue of this spell of periods and of the previous one.
    spells: [(Duration, Duration); 2],
    periods: u32,
    /// The highest bandwidth since the queue was last almost empty. A flow that others push aside must not take its
    /// remaining share for what the link carries.
    best: u64,
    /// The longest queue seen, which fades.
    fullest: Duration,
    /// The delay at which the queue overflowed, and when.
    depth: Option<(Duration, Time)>,
}

impl Default for QueueTarget {
    fn default() -> Self {
        Self {
            multiple: ONE,
            spells: [(Duration::ZERO, Duration::ZERO); 2],
            periods: 0,
            best: 0,
            fullest: Duration::ZERO,
            depth: None,
        }
    }
}

impl QueueTarget {
    /// The queue that a flow alone on the bottleneck wants.
    pub(super) fn alone(bandwidth: u64, base: Duration, packet_size: u64) -> Duration {
        let product = math::volume(bandwidth, base);
        // sqrt(packets) × size = sqrt(bytes × size).
        let bytes = product.saturating_mul(packet_size).isqrt().max(packet_size);
        math::span(math::scale(bytes, PACKETS), bandwidth).max(SHORTEST)
    }

    pub(super) fn wanted(&self, bandwidth: u64, base: Duration, packet_size: u64) -> Duration {
        let alone = Self::alone(bandwidth, base, packet_size);
        let wanted = if self.multiple > ONE {
            let company = math::stretch(Self::alone(self.best, base, packet_size), self.multiple);
            let most = math::stretch(base, MOST_IN_COMPANY).min(math::stretch(self.fullest, BELOW_FULLEST));
            company.min(most).max(alone)
        } else {
            alone
        };
        // A flow alone should stay well below the depth of the queue, one in company just below it.
        let share = if self.multiple > ONE { 950 } else { 700 };
        match self.depth {
            Some((depth, _)) => wanted.min(math::stretch(depth, share)),
            None => wanted,
        }
    }

    /// Returns whether the queue is known to overflow at some length, or other flows keep it long and may fill it.
    pub(super) fn is_bounded(&self) -> bool {
        self.depth.is_some() || self.multiple > ONE
    }

    /// The longest queue of the last one to two spells.
    pub(super) fn longest(&self) -> Duration {
        self.spells[0].1.max(self.spells[1].1)
    }

    pub(super) fn end_period(&mut self, now: Time, queue: OwnQueue) {
        if self.depth.is_some_and(|(_, at)| now.since(at) > DEPTH_MEMORY) {
            self.depth = None;
        }
        let (least, most) = self.observe(queue.delay);
        self.fullest = queue.delay.max(self.fullest - self.fullest / FADING);
        let alone = Self::alone(self.best, queue.base, queue.packet_size);
        self.best = if queue.delay < alone / 2 { queue.bandwidth } else { self.best.max(queue.bandwidth) };
        if least < alone / 2 {
            self.multiple = ONE;
        } else if least > math::stretch(alone, 1250) {
            let bound = math::nanos(most.min(queue.base)).saturating_mul(ONE) / math::nanos(alone).max(1);
            let grown = math::scale(self.multiple, GROWTH).min(bound.max(ONE));
            self.multiple = self.multiple.max(grown);
        }
    }

    /// Takes in a queueing delay and returns the shortest and longest of the last one to two spells.
    fn observe(&mut self, delay: Duration) -> (Duration, Duration) {
        self.periods = self.periods.wrapping_add(1);
        if self.periods.is_multiple_of(PATIENCE) {
            self.spells = [(delay, delay), self.spells[0]];
        }
        let [(least, most), (before_least, before_most)] = &mut self.spells;
        *least = delay.min(*least);
        *most = delay.max(*most);
        ((*least).min(*before_least), (*most).max(*before_most))
    }

    /// Takes in that the queue overflowed at a delay of `depth`.
    pub(super) fn on_congestion(&mut self, now: Time, depth: Duration) {
        self.multiple = math::scale(self.multiple, CUT).max(ONE);
        self.depth = Some((depth, now));
    }
}
