//! CUBIC (RFC 9438), paced, with HyStart++ (RFC 9406) to leave slow start.

use std::time::Duration;

use super::controller::{
    ASSUMED_RTT, AckSample, Controller, ControllerStats, INITIAL_PACKETS, LARGEST_PACKET, Remembered,
};
use super::coupling::Company;
use super::math;
use crate::Time;

/// Multiplicative decrease, permille (RFC 9438 4.6).
const BETA: u64 = 700;
/// Additive increase that is fair to Reno, permille of a packet a window: 3 × (1 - β) / (1 + β) (4.3).
const ALPHA: u64 = 529;
/// Pacing is faster than the window needs, so that the window and not the pacer is the limit.
const PACING_GAIN: u64 = 1250;
/// HyStart++: samples needed before a round's delay is used (RFC 9406 4.3).
const HYSTART_SAMPLES: u32 = 8;
/// HyStart++: the number of rounds of conservative slow start.
const HYSTART_ROUNDS: u32 = 5;
/// HyStart++: how much slower the window grows in these rounds.
const HYSTART_DIVISOR: u64 = 4;

/// A window that grows with the cube of the time since it was last cut.
#[derive(Debug)]
pub struct Cubic {
    packet_size: u64,
    window: u64,
    threshold: u64,
    epoch: Option<Epoch>,
    /// The window before it was last cut. `before_cut` holds window and threshold of that time, to undo a spurious
    /// cut.
    window_max: u64,
    before_cut: Option<(u64, u64)>,
    cut_at: Option<Time>,
    srtt: Option<Duration>,
    min_rtt: Duration,
    hystart: HyStart,
    /// How fast the window may grow compared with a flow of its own, permille: paths that share a bottleneck grow as
    /// one (RFC 6356).
    growth: u64,
}

/// A stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// The time to return to `origin`, in milliseconds: K.
    k_ms: u64,
    origin: u64,
    /// The window that Reno would have by now.
    reno: u64,
    growth: u64,
}

impl Cubic {
    /// Creates a controller for full packets of `packet_size` wire bytes.
    pub fn new(packet_size: u64) -> Self {
        let packet_size = packet_size.clamp(1, LARGEST_PACKET);
        Self {
            packet_size,
            window: packet_size.saturating_mul(INITIAL_PACKETS),
            threshold: u64::MAX,
            epoch: None,
            window_max: 0,
            before_cut: None,
            cut_at: None,
            srtt: None,
            min_rtt: Duration::ZERO,
            hystart: HyStart::default(),
            growth: math::ONE,
        }
    }

    fn slow_start(&mut self, sample: &AckSample) {
        let slowed = self.hystart.on_ack(sample);
        self.window = self.window.saturating_add(sample.acked / if slowed { HYSTART_DIVISOR } else { 1 });
        if self.hystart.is_over() {
            self.threshold = self.window;
        }
    }

    fn avoid_congestion(&mut self, sample: &AckSample) {
        let srtt = sample.srtt;
        let mut epoch = self.epoch.unwrap_or_else(|| self.start_epoch(sample.now));
        epoch.reno = epoch.reno.saturating_add(share(
            math::scale(math::scale(self.packet_size, ALPHA), epoch.growth),
            sample.acked,
            self.window,
        ));
        let target = self.cubic(&epoch, sample.now.since(epoch.start).saturating_add(srtt));
        // The window grows by at most half within a round trip (4.4).
        let target = target.clamp(self.window, math::scale(self.window, 1500));
        self.window = self.window.saturating_add(share(target - self.window, sample.acked, self.window));
        self.window = self.window.max(epoch.reno);
        self.epoch = Some(epoch);
    }

    fn start_epoch(&self, now: Time) -> Epoch {
        let origin = self.window_max.max(self.window);
        let packets = (origin - self.window) / self.packet_size;
        // Windows scale with the square root of Reno's growth and with the fourth root of C.
        let slower = math::ONE * math::ONE / self.growth;
        // K = cbrt((W_max - cwnd) / C), C = 0.4 packets/s³; in ms: × 10⁹ under the root.
        let cubed = math::scale(math::scale(packets.saturating_mul(2_500_000_000), slower), slower);
        Epoch { start: now, k_ms: cube_root(cubed), origin, reno: self.window, growth: self.growth }
    }

    /// W(t) = C × (t - K)³ + W_max (4.2).
    fn cubic(&self, epoch: &Epoch, elapsed: Duration) -> u64 {
        let elapsed_ms = math::nanos(elapsed) / 1_000_000;
        let distance = u128::from(elapsed_ms.abs_diff(epoch.k_ms).min(10_000_000));
        let cubed = distance * distance * distance * u128::from(self.packet_size) * 2 / 5_000_000_000;
        let cubed = u64::try_from(cubed).unwrap_or(u64::MAX);
        let cubed = math::scale(math::scale(cubed, epoch.growth), epoch.growth);
        if elapsed_ms >= epoch.k_ms {
            epoch.origin.saturating_add(cubed)
        } else {
            epoch.origin.saturating_sub(cubed)
        }
    }

    fn cut(&mut self, now: Time) {
        // There is one cut a round trip, however many packets it lost.
        let round = self.srtt.unwrap_or(ASSUMED_RTT);
        if self.cut_at.is_some_and(|at| now.since(at) < round) {
            return;
        }
        self.before_cut = Some((self.window, self.threshold));
        self.cut_at = Some(now);
        // Fast convergence (4.7): a flow below its former maximum leaves room for others.
        self.window_max = if self.window < self.window_max {
            math::scale(self.window, (1000 + BETA) / 2)
        } else {
            self.window
        };
        self.window = math::scale(self.window, BETA).max(self.packet_size.saturating_mul(2));
        self.threshold = self.window;
        self.epoch = None;
    }
}

impl Controller for Cubic {
    fn on_rtt(&mut self, _now: Time, rtt: Duration) {
        self.srtt.get_or_insert(rtt);
    }

    fn on_sent(&mut self, _now: Time, _size: u64, _in_flight_before: u64) {}

    fn on_ack(&mut self, sample: &AckSample) {
        self.srtt = Some(sample.srtt);
        self.min_rtt = sample.min_rtt;
        if sample.ecn_ce > 0 {
            self.cut(sample.now);
        }
        // A window that is not used says nothing about the path (RFC 9002 7.8).
        let used = sample.prior_in_flight.saturating_add(self.packet_size.saturating_mul(3));
        if sample.rate.app_limited && used < self.window {
            return;
        }
        if self.window < self.threshold { self.slow_start(sample) } else { self.avoid_congestion(sample) }
    }

    fn on_loss(&mut self, now: Time, _lost: u64, _in_flight: u64, persistent: bool) {
        self.cut(now);
        if persistent {
            self.window = self.packet_size.saturating_mul(2);
        }
    }

    fn on_spurious_loss(&mut self, _now: Time, _bytes: u64) {
        if let Some((window, threshold)) = self.before_cut.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
            self.epoch = None;
        }
    }

    fn on_restart(&mut self, _now: Time) {
        self.epoch = None;
    }

    fn on_company(&mut self, _now: Time, company: Option<Company>) {
        self.growth = company.map_or(math::ONE, |company| company.growth);
        // A curve continues unchanged unless its growth is far from the current one.
        self.epoch = self.epoch.filter(|epoch| epoch.growth.abs_diff(self.growth) <= epoch.growth / 4);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> u64 {
        let rtt = self.srtt.unwrap_or(ASSUMED_RTT).max(Duration::from_micros(20));
        let gain = if self.window < self.threshold { 2000 } else { PACING_GAIN };
        math::scale(math::rate(self.window, rtt), gain).max(1)
    }

    fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes.clamp(1, LARGEST_PACKET);
        self.window = self.window.max(self.packet_size.saturating_mul(2));
    }

    fn remember(&self) -> Option<Remembered> {
        let rtt = self.srtt?;
        Some(Remembered { rate: math::rate(self.window, rtt), rtt: self.min_rtt })
    }

    fn recall(&mut self, _remembered: Remembered) {}

    fn state(&self) -> ControllerStats {
        let srtt = self.srtt.unwrap_or_default();
        ControllerStats {
            bandwidth: math::rate(self.window, srtt.max(Duration::from_micros(20))),
            min_rtt: self.min_rtt,
            queue: srtt.saturating_sub(self.min_rtt),
            phase: if self.window < self.threshold { "slow start" } else { "avoidance" },
            baseline_loss_ppm: 0,
            window: self.window,
            pacing_rate: self.pacing_rate(),
        }
    }
}

/// Detects in slow start that the round trip grows.
#[derive(Debug, Default)]
struct HyStart {
    round_end: u64,
    round_min: Option<Duration>,
    last_min: Option<Duration>,
    samples: u32,
    /// The rounds spent in conservative slow start, and the shortest round trip when it began.
    slowed: Option<(u32, Duration)>,
}

impl HyStart {
    /// Takes in an acknowledgement and returns whether slow start is conservative.
    fn on_ack(&mut self, sample: &AckSample) -> bool {
        if sample.rate.newest > self.round_end {
            self.round_end = sample.rate.sent;
            self.start_round();
        }
        if let Some(rtt) = sample.rtt {
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
            self.samples = self.samples.saturating_add(1);
            self.judge();
        }
        self.slowed.is_some()
    }

    fn start_round(&mut self) {
        self.last_min = self.round_min.take().or(self.last_min);
        self.samples = 0;
        if let Some((rounds, _)) = &mut self.slowed {
            *rounds += 1;
        }
    }

    fn judge(&mut self) {
        let (Some(min), Some(last)) = (self.round_min, self.last_min) else { return };
        if self.samples < HYSTART_SAMPLES {
            return;
        }
        match self.slowed {
            Some((_, began_at)) if min < began_at => self.slowed = None,
            Some(_) => {}
            None => {
                let step = (last / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
                if min >= last.saturating_add(step) {
                    self.slowed = Some((0, min));
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.slowed.is_some_and(|(rounds, _)| rounds >= HYSTART_ROUNDS)
    }
}

/// `amount × part / whole`.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(amount) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn cube_root(value: u64) -> u64 {
    let (mut low, mut high) = (0u64, 2_642_246);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle.saturating_mul(middle).saturating_mul(middle) <= value {
            low = middle
        } else {
            high = middle - 1
        }
    }
    low
}
