//! How long a queue to keep at the bottleneck.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;
use crate::congestion::math::ONE;

/// Packets queued for a bandwidth-delay product of one packet, permille; grows with its square root.
const PACKETS: u64 = 1200;
/// Less could not be told from scheduling.
const SHORTEST: Duration = Duration::from_millis(2);
/// Periods over which a queue that never empties is someone else's.
const PATIENCE: u32 = 8;
/// Growth of the wanted queue a period while others keep it long, permille.
const GROWTH: u64 = 1060;
/// The longest queue wanted in company, permille of a base round trip. A whole one is what a queue of one bandwidth-delay product holds
/// only while it overflows: whoever steers for that keeps it full for ever, and a flow that heeds loss starves beside it.
const MOST_IN_COMPANY: u64 = 850;
/// And of the longest queue seen, permille: where the base round trip is not seen any more, what is measured above it never gets to what
/// is wanted.
const BELOW_FULLEST: u64 = 900;
/// Part of the longest queue seen that is forgotten a period.
const FADING: u32 = 256;
/// Cut at congestion, permille.
const CUT: u64 = 700;
/// How long the queue's depth is remembered.
const DEPTH_MEMORY: Duration = Duration::from_secs(10);

/// The queue as seen in a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) delay: Duration,
    pub(super) bandwidth: u64,
    pub(super) base: Duration,
    pub(super) packet_size: u64,
}

/// The queue wanted.
#[derive(Debug)]
pub(super) struct QueueTarget {
    /// Multiple of what would do alone, permille.
    multiple: u64,
    /// Shortest and longest queue of this spell of periods and of the one before.
    spells: [(Duration, Duration); 2],
    periods: u32,
    /// The most bandwidth since the queue was last seen almost empty: a flow that others push aside must not
    /// take the little it has left for what the link carries.
    best: u64,
    /// The longest queue seen, fading.
    fullest: Duration,
    /// Where the queue overflowed, and when.
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
    /// What is wanted where nobody else is.
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
        // Alone, the queue should not come near its end; in company, almost.
        let share = if self.multiple > ONE { 950 } else { 700 };
        match self.depth {
            Some((depth, _)) => wanted.min(math::stretch(depth, share)),
            None => wanted,
        }
    }

    /// The queue is known to overflow at some length, or others keep it long and may fill it.
    pub(super) fn is_bounded(&self) -> bool {
        self.depth.is_some() || self.multiple > ONE
    }

    /// The longest queue of late.
    pub(super) fn longest(&self) -> Duration {
        self.spells[0].1.max(self.spells[1].1)
    }

    pub(super) fn end_period(&mut self, now: Time, queue: Queue) {
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

    /// The shortest and the longest queue of the last one to two spells.
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

    /// The queue overflowed, at a delay of `depth`.
    pub(super) fn on_congestion(&mut self, now: Time, depth: Duration) {
        self.multiple = math::scale(self.multiple, CUT).max(ONE);
        self.depth = Some((depth, now));
    }
}
