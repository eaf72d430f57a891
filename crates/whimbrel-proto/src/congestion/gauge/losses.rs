//! Tells congestion loss from the loss that is inherent to the path.

/// Roughly how many packets the calm pool remembers.
const CALM_MEMORY: u64 = 2000;
/// Roughly how many packets the recent pool remembers.
const RECENT_MEMORY: u64 = 150;
/// Calm packets needed before there is a baseline.
const CALM_ENOUGH: u64 = 30;
/// Loss up to this much above the baseline is never called congestion, ppm.
const MARGIN_PPM: u64 = 20_000;

/// Loss up to this much may be inherent to the path while there is no baseline, ppm.
const UNKNOWN_PPM: u64 = 50_000;
/// The highest baseline, ppm: no usable path loses more.
const MOST_PPM: u64 = 400_000;

/// A count of packets sent and of those lost.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    packets: u64,
    lost: u64,
}

impl Pool {
    fn add(&mut self, other: Self, memory: u64) {
        self.packets += other.packets;
        self.lost += other.lost;
        if self.packets > memory {
            // Whole packets are too coarse for halving small pools, so the share is kept and not the count.
            let keep = memory / 2;
            self.lost = self.lost * keep / self.packets;
            self.packets = keep;
        }
    }

    fn ppm(self) -> u64 {
        self.lost * 1_000_000 / self.packets.max(1)
    }
}

/// Loss while the path was calm, compared with recent loss. Counts are in thousandths of packets.
#[derive(Debug, Default)]
pub(super) struct Losses {
    calm: Pool,
    recent: Pool,
    /// The most recent periods in a row that had no queue to explain their loss.
    unexplained: Pool,
    period: Pool,
}

/// The kind of a period, judged by its rate and queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Period {
    /// Sent no faster than the path carries, and no queue grew.
    Calm,
    /// Neither calm nor queueing.
    Pushing,
    /// The queue was much longer than wanted.
    Queueing,
}

impl Losses {
    pub(super) fn on_acked(&mut self, bytes: u64, packet_size: u64) {
        self.period.packets += milli_packets(bytes, packet_size);
    }

    pub(super) fn on_lost(&mut self, bytes: u64, packet_size: u64) {
        let lost = milli_packets(bytes, packet_size);
        self.period.packets += lost;
        self.period.lost += lost;
    }

    pub(super) fn on_spurious(&mut self, bytes: u64, packet_size: u64) {
        let found = milli_packets(bytes, packet_size);
        for pool in [&mut self.period, &mut self.recent, &mut self.calm] {
            if pool.lost >= found {
                pool.lost -= found;
                return;
            }
        }
    }

    /// Forgets recent loss after a blackout, which says nothing about the loss rate.
    pub(super) fn forget_recent(&mut self) {
        self.recent = Pool::default();
        self.unexplained = Pool::default();
        self.period = Pool::default();
    }

    /// Starts a new period.
    pub(super) fn start_period(&mut self) {
        let period = std::mem::take(&mut self.period);
        self.recent.add(period, RECENT_MEMORY * 1000);
    }

    /// Forgets the baseline: what was taken for inherent loss was overflow.
    pub(super) fn forget_baseline(&mut self) {
        *self = Self::default();
    }

    /// Ends a period of about a round trip and returns whether its loss was congestion.
    pub(super) fn end_period(&mut self, kind: Period) -> bool {
        let period = std::mem::take(&mut self.period);
        if kind == Period::Calm {
            self.calm.add(period, CALM_MEMORY * 1000);
            self.recent = Pool::default();
            self.unexplained = Pool::default();
            return false;
        }
        match kind {
            Period::Queueing => self.unexplained = Pool::default(),
            _ => self.unexplained.add(period, RECENT_MEMORY * 1000),
        }
        self.recent.add(period, RECENT_MEMORY * 1000);
        let excess = self.is_excess(kind == Period::Queueing);
        if excess {
            self.recent = Pool::default();
        }
        excess
    }

    /// Returns whether recent loss exceeds the baseline by more than chance explains: a test of two proportions.
    fn is_excess(&self, queueing: bool) -> bool {
        if self.recent.packets < 8000 || self.recent.lost < 1000 {
            return false;
        }
        let calm = self.calm.packets / 1000;
        let recent = self.recent.packets / 1000;
        if calm < CALM_ENOUGH {
            // Without a baseline, loss must be beyond doubt and come with a long queue.
            let share = self.recent.ppm().min(1_000_000);
            let deviation = (share * (1_000_000 - share) / recent.max(1)).isqrt();
            return queueing && recent >= 20 && share > UNKNOWN_PPM + 3 * deviation;
        }
        let deviations = if queueing { 2 } else { 3 };
        let both = Pool {
            packets: self.calm.packets + self.recent.packets,
            lost: self.calm.lost + self.recent.lost,
        };
        let share = both.ppm().clamp(1000, 999_000);
        let variance = share * (1_000_000 - share) / recent.max(1) + share * (1_000_000 - share) / calm;
        self.recent.ppm() > self.calm.ppm() + MARGIN_PPM + deviations * variance.isqrt()
    }

    /// Returns whether recent loss is high without a queue or a calm period to explain it.
    pub(super) fn is_suspect(&self) -> bool {
        self.unexplained.packets >= 20_000 && self.unexplained.ppm() > self.baseline_ppm() + MARGIN_PPM
    }

    /// The unexplained recent loss, ppm.
    pub(super) fn unexplained_ppm(&self) -> u64 {
        self.unexplained.ppm()
    }

    /// Returns whether enough packets were sent while the path was calm to know the baseline.
    pub(super) fn is_baseline_known(&self) -> bool {
        self.calm.packets / 1000 >= CALM_ENOUGH
    }

    /// The loss inherent to the path, ppm; 0 while unknown.
    pub(super) fn baseline_ppm(&self) -> u64 {
        if self.is_baseline_known() { self.calm.ppm().min(MOST_PPM) } else { 0 }
    }
}

fn milli_packets(bytes: u64, packet_size: u64) -> u64 {
    (bytes.saturating_mul(1000) / packet_size.max(1)).min(1 << 32)
}
