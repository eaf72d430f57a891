//! The default controller, which models the path.
//!
//! In the spirit of BBR (draft-ietf-ccwg-bbr), it measures the bottleneck's rate and the base round trip, and paces
//! packets by that model. Loss alone does not slow it down. Where BBR alternates between probing and draining, this
//! controller steers. It keeps a small queue of its own at the bottleneck. It sends slightly faster than the
//! bottleneck's rate while the queue is shorter than wanted, and slightly slower while it is longer. While the queue
//! never runs empty, the bottleneck never idles and every rate sample is exact.
//!
//! The wanted queue, in packets, grows with the square root of the bandwidth-delay product. Flows that share a queue
//! see the same delay, so the flow with the smaller share wants more of it, and shares even out. Where other flows
//! keep the queue long (CUBIC fills all there is), the wanted queue grows until we hold our own.
//!
//! Usual jitter is not counted as a queue (`jitter_baseline`). A rate that fell suddenly may return suddenly, so the
//! former rate is tried again (`rate_drop`).

mod arrivals;
mod bandwidth;
mod check;
mod delay;
mod jitter_baseline;

mod local;
mod losses;
mod measure;
mod minimum;
mod rate_drop;
mod target;

use std::time::Duration;

use arrivals::Arrivals;
use bandwidth::Bandwidth;
use check::{Check, CheckResult};
use delay::Delay;
use jitter_baseline::Delivery;
use local::Local;
use losses::{Losses, Period};
use rate_drop::{ModelView, RateDrop};
use target::QueueTarget;

use super::controller::{
    ASSUMED_RTT, AckSample, Controller, ControllerStats, INITIAL_PACKETS, LARGEST_PACKET, Remembered,
};
use super::coupling::{Calls, Company};
use super::math;
use super::math::ONE;
use crate::Time;

/// The first packets are sent within this share of a round trip, permille. That is close enough together for their
/// spacing on arrival to show the rate, so the second round trip already runs near it.
const TRAIN_SPAN: u64 = 300;
/// The pacing gain during startup.
const STARTUP_GAIN: u64 = 2000;
/// Startup ends after three round trips whose rate grew by less than this factor, permille.
const STARTUP_GROWTH: u64 = 1250;
/// The least number of packets in a measuring span of startup.
const STARTUP_SPAN_PACKETS: u64 = 8;
/// Until the path's inherent loss is known, it may be as high as 37 %: 1 / 1.6 arrives.
const UNKNOWN_LOSS: u64 = 1600;
/// The least and greatest gain while cruising.
const GAIN_MIN: u64 = 600;
const GAIN_MAX: u64 = 1250;
/// The gain once growth met no queue for four round trips; from two on it is [`GAIN_MAX`]. The link has become
/// faster.
const GAIN_HUNGRY: u64 = 1600;
/// The change of gain, permille, when the queue is wrong by one round trip.
const STEERING: u64 = 800;
/// Shorter round trips are steered as if they were this long: their variation is mostly scheduling.
const SHORTEST_RTT: Duration = Duration::from_millis(10);
/// The queue is drained after the base round trip was not seen for this long.
const DRAIN_AFTER: Duration = Duration::from_secs(2);
const DRAIN_GAIN: u64 = 750;
/// How long loss above the baseline is watched before a check. Each check that finds no overflow doubles it.
const PATIENCE: Duration = Duration::from_millis(400);
const MOST_PATIENCE: Duration = Duration::from_secs(16);
/// How much of the measured jitter is not counted as a queue, permille. It exceeds 1000 because the extremes within a
/// quarter round trip are smaller than those of a whole one.
const JITTER_SHARE: u64 = 1500;
/// The allowance in a window for delayed acknowledgements and late timers.
const SLACK: Duration = Duration::from_millis(5);

/// The least number of packets paced into a round trip, whatever was measured.
const LEAST_PACKETS: u64 = 2;

/// The largest window, in bytes.
const MOST_WINDOW: u64 = 1 << 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The rate is unknown, and the controller doubles it.
    Startup,
    /// The controller steers the queue to its wanted length.
    Cruise,
    /// The queue that startup built is drained. Bytes in flight show when it is done, because round trips lag by one.
    /// Then one more round trip passes for the effect to show.
    Settle { until: Option<Time> },
    /// The controller finds out whether its own sending causes the loss.
    Check(Check),
    /// The controller empties the queue to measure the base round trip.
    Drain { until: Time },
}

/// The model-based controller. See the module documentation.
#[derive(Debug)]
pub struct Gauge {
    packet_size: u64,
    phase: Phase,
    bandwidth: Bandwidth,
    delay: Delay,
    arrivals: Arrivals,
    rate_drop: Option<Box<RateDrop>>,
    losses: Losses,
    target: QueueTarget,
    company: Option<Box<Company>>,
    calls: Calls,
    local: Local,
    /// The current pacing gain.
    gain: u64,
    pushed: [bool; 2],
    round_end: u64,
    /// The best rate at the last growth, and the round trips since without growth.
    plateau: (u64, u32),
    delivered: u64,
    /// Remaining periods in which drops at the queue are expected.
    congested: u32,
    /// Consecutive round trips in which the rate grew and met no queue.
    hungry: u32,
    last_delivered: u64,
    /// Whether anything was measured while there was enough to send.
    tried: bool,
    restarted_at: Time,
    /// Bytes sent.
    sent: u64,
    silenced: Option<u64>,
    /// When the last calm period was.
    calm_at: Time,
    /// When a packet was last acknowledged that was sent while there was too little to send.
    sated_at: Time,
    /// How long to wait for a calm period before a check, while packets are lost.
    patience: Duration,
}

impl Gauge {
    /// Creates a controller for full packets of `packet_size` wire bytes.
    pub fn new(packet_size: u64, now: Time) -> Self {
        Self {
            packet_size: packet_size.clamp(1, LARGEST_PACKET),
            phase: Phase::Startup,
            bandwidth: Bandwidth::default(),
            delay: Delay::default(),
            arrivals: Arrivals::default(),
            rate_drop: None,
            losses: Losses::default(),
            target: QueueTarget::default(),
            company: None,
            calls: Calls::default(),
            local: Local::default(),
            gain: STARTUP_GAIN,
            pushed: [true; 2],
            round_end: 0,
            plateau: (0, 0),
            delivered: 0,
            congested: 0,
            hungry: 0,
            last_delivered: 0,
            tried: false,
            restarted_at: now,
            sent: 0,
            silenced: None,
            calm_at: now,
            sated_at: now,
            patience: PATIENCE,
        }
    }

    fn leave_startup(&mut self) {
        self.phase = Phase::Settle { until: None };
        self.hungry = 0;
    }

    /// Reacts to loss or marks that our own sending caused.
    fn met_congestion(&mut self, now: Time) {
        self.calls.congestions += 1;
        self.on_congestion(now);
    }

    fn on_congestion(&mut self, now: Time) {
        self.congested = 2;
        self.target.on_congestion(now, self.delay.latest_queue());
        if self.phase == Phase::Startup {
            self.leave_startup();
        }
        self.bandwidth.scale(850);
    }

    fn change_phase(&mut self, now: Time, in_flight: u64) {
        match self.phase {
            Phase::Settle { until: None } => {
                let span = self.delay.base().saturating_add(self.wanted());
                if in_flight <= math::volume(self.bandwidth.estimate(), span) {
                    self.phase = Phase::Settle { until: Some(now + self.delay.base()) };
                }
            }
            Phase::Settle { until: Some(until) } => {
                if now >= until {
                    self.phase = Phase::Cruise;
                    self.calm_at = now;
                }
            }
            Phase::Startup => {
                let much =
                    (self.delay.base() / 8).max(Duration::from_millis(4)).saturating_add(self.delay.jitter());
                // Where packets arrive more slowly than they are sent, the delay of the latest is not jitter.
                let queue = self.delay.latest_queue();
                let full = match self.arrivals.lag() {
                    0 => false,
                    1 => queue > much,
                    _ => queue > much / 2,
                };
                if full && self.bandwidth.estimate() > 0 {
                    self.bandwidth.keep_latest();
                    self.leave_startup();
                }
            }
            Phase::Cruise if self.delay.base_unseen_for(now) > DRAIN_AFTER => {
                self.calls.drains += 1;
                self.drain(now);
            }
            // The check compares with the average arrival rate, which must have settled first.
            Phase::Cruise
                if now.since(self.calm_at.max(self.sated_at))
                    > self.patience.max(self.base().saturating_mul(8))
                    && self.losses.is_suspect() =>
            {
                let before = self.arrivals.average();
                self.phase = Phase::Check(Check::start(
                    now,
                    self.base(),
                    self.delay.queue(),
                    before,
                    self.tolerance(before),
                ));
            }
            Phase::Check(mut check) => {
                if check.begins(now, self.arrivals.acked()) {
                    self.losses.start_period();
                }
                self.phase = Phase::Check(check);
                if let Some(verdict) = check.verdict(now, self.arrivals.acked()) {
                    self.end_check(now, verdict);
                }
            }
            Phase::Drain { until } if now >= until => {
                self.phase = Phase::Cruise;
                self.delay.base_sought(now);
            }
            Phase::Cruise | Phase::Drain { .. } => {}
        }
    }

    /// Drains the queue, and 1/16 round trip more to make sure that it is empty.
    fn drain(&mut self, now: Time) {
        let excess = self.delay.above_least().saturating_add(self.delay.base() / 16);
        let span = math::stretch(excess, ONE * ONE / (ONE - DRAIN_GAIN));
        self.phase = Phase::Drain { until: now + span };
    }

    /// How far chance alone makes the arrivals of a check vary, permille: √(2 × loss / packets).
    fn tolerance(&self, arriving: u64) -> u64 {
        let packets = (math::volume(arriving, self.base()) / self.packet_size).max(1);
        let lost = self.losses.unexplained_ppm().min(900_000);
        (2 * lost * 1_000_000 / (1_000_000 - lost) / packets).isqrt().min(ONE)
    }

    /// Notes that there was too little to send. What arrives then depends on the application and not on the gain, so a
    /// check would find that as much arrives as before, and call it overflow.
    fn on_sated(&mut self, now: Time) {
        self.sated_at = now;
        if matches!(self.phase, Phase::Check(_)) {
            self.phase = Phase::Cruise;
        }
    }

    fn end_check(&mut self, now: Time, verdict: CheckResult) {
        self.phase = Phase::Cruise;
        self.calm_at = now;
        match verdict {
            CheckResult::Nature => {
                // The result will hardly differ next time, so checks become rarer.
                self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE);
                self.losses.end_period(Period::Calm);
            }
            CheckResult::Overflow => {
                self.calls.congestions += 1;
                self.patience = PATIENCE;
                self.losses.forget_baseline();
                self.target.on_congestion(now, self.target.longest());
                self.congested = 2;
                let rate = math::scale(self.bandwidth.estimate(), check::GAIN);
                self.bandwidth.limit(rate.max(self.arrivals.average()));
            }
        }
    }

    /// The base round trip, but no less than what can be measured.
    fn base(&self) -> Duration {
        self.delay.base().max(SHORTEST_RTT)
    }

    fn steer(&mut self, now: Time) {
        self.gain = match self.phase {
            Phase::Check(check) if check.is_low(now) => check::GAIN,
            Phase::Settle { until: None } => GAIN_MIN,
            Phase::Settle { .. } | Phase::Check(_) => ONE,
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain { .. } => DRAIN_GAIN,
            Phase::Cruise => self.steered_gain(),
        };
        self.pushed[0] |= self.gain > ONE;
    }

    /// 1, plus or minus what brings the queue to its wanted length within about a round trip.
    fn steered_gain(&self) -> u64 {
        let (wanted, queue) = (math::nanos(self.wanted()), math::nanos(self.delay.queue()));
        let rtt = math::nanos(self.delay.base().max(SHORTEST_RTT));
        let change = u128::from(wanted.abs_diff(queue)) * u128::from(STEERING) / u128::from(rtt.max(1));
        let change = u64::try_from(change).unwrap_or(ONE).min(ONE);
        let gain = if queue <= wanted { ONE + change } else { ONE - change };
        match self.hungry {
            4.. if queue < wanted / 2 => GAIN_HUNGRY,
            2.. if queue < wanted / 2 => GAIN_MAX,
            _ => gain.clamp(GAIN_MIN, GAIN_MAX),
        }
    }

    /// The queueing delay to keep. Jitter looks like a queue, so it is added to the target.
    fn wanted(&self) -> Duration {
        let (bandwidth, base) = self.joint();
        // Two packets sent together already form a queue.
        let grain = math::span(self.packet_size.saturating_mul(2), bandwidth);
        let jitter = math::stretch(self.delay.jitter().saturating_sub(grain), JITTER_SHARE);
        self.target.wanted(bandwidth, base, self.packet_size).max(grain).saturating_add(jitter)
    }

    fn own_queue(&self) -> target::OwnQueue {
        let (bandwidth, base) = self.joint();
        target::OwnQueue { delay: self.delay.queue(), bandwidth, base, packet_size: self.packet_size }
    }

    fn view(&self, srtt: Duration) -> ModelView {
        ModelView {
            estimate: self.bandwidth.estimate(),
            queue: self.delay.queue(),
            wanted: self.wanted(),
            // With the usual round trip instead, the queue after a fall would look short on a path that jitters.
            base: self.delay.least().max(SHORTEST_RTT),
            srtt,
        }
    }

    /// The joint rate of the flows that share the bottleneck, and their base round trip.
    fn joint(&self) -> (u64, Duration) {
        let (own, base) = (self.bandwidth.estimate(), self.delay.base());
        self.company.as_ref().map_or((own, base), |company| (company.joint(own), company.base.min(base)))
    }
}

impl Controller for Gauge {
    fn on_rtt(&mut self, now: Time, rtt: Duration) {
        self.delay.on_rtt(now, rtt);
    }

    fn on_sent(&mut self, _now: Time, size: u64, _in_flight_before: u64) {
        self.sent = self.sent.saturating_add(size);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            self.delay.on_rtt(sample.now, rtt);
            let delivery = Delivery { rtt, sent_at: sample.largest_sent_at, position: sample.rate.newest };
            self.delay.on_delivery(sample.now, delivery, self.bandwidth.estimate());
        }
        if Local::is(self.delay.least()) {
            self.local.on_ack(sample.now, sample.acked, sample.prior_in_flight, sample.rtt, self.packet_size);
        }
        if self.silenced.take_if(|sent| sample.rate.newest > *sent).is_some() {
            // Everything lost until now, probes included, was lost to the silence.
            self.losses.forget_recent();
        }
        self.losses.on_acked(sample.acked, self.packet_size);
        if sample.rate.app_limited {
            self.on_sated(sample.now);
        }
        self.measure_rate(&sample.rate);
        if sample.rate.newest > self.round_end {
            self.round_end = sample.rate.sent;
            self.end_round(sample.rate.app_limited);
        }
        let period = self.delay.base().max(SHORTEST_RTT);
        if self.phase == Phase::Startup {
            let least = self.packet_size.saturating_mul(STARTUP_SPAN_PACKETS);
            if self.arrivals.on_ack(sample, period / 8, least) {
                self.end_startup_span(sample.rate.app_limited);
            }
        } else if self.arrivals.on_ack(sample, period, 0) {
            self.end_period(sample.now);
        }
        if sample.ecn_ce > 0 && self.congested == 0 {
            self.met_congestion(sample.now);
        }
        self.change_phase(sample.now, sample.in_flight);
        self.rate_drop.take_if(|fall| fall.is_over(sample.now));
        let view = self.rate_drop.is_some().then(|| self.view(sample.srtt));
        if let (Some(fall), Some(view)) = (&mut self.rate_drop, view) {
            fall.on_ack(sample.now, view);
        }
        self.steer(sample.now);
    }

    fn on_loss(&mut self, now: Time, lost: u64, _in_flight: u64, persistent: bool) {
        if persistent {
            // In a blackout the losses say nothing. Afterwards the link is as before, or it is measured anew.
            self.on_restart(now);
        } else if self.silenced.is_none() {
            self.local.on_loss(now, self.packet_size);
            self.losses.on_lost(lost, self.packet_size);
        }
    }

    fn on_spurious_loss(&mut self, _now: Time, bytes: u64) {
        // Losses during a silence were not counted.
        if self.silenced.is_none() {
            self.losses.on_spurious(bytes, self.packet_size);
        }
    }

    fn on_restart(&mut self, now: Time) {
        self.restarted_at = now;
        self.silenced = Some(self.sent);
        self.losses.forget_recent();
        self.arrivals.restart(now);
        self.delay.forget_queue();
        self.delay.base_sought(now);
        self.steer(now);
    }

    fn on_company(&mut self, now: Time, company: Option<Company>) {
        let known = std::mem::replace(&mut self.company, company.map(Box::new));
        let (Some(known), Some(company)) = (known, company) else { return };
        if self.phase != Phase::Cruise || company.paths != known.paths {
            return;
        }
        if company.calls.congestions != known.calls.congestions && self.congested == 0 {
            self.on_congestion(now);
        }
        if company.calls.drains != known.calls.drains {
            // A shared queue empties only once all flows stop filling it.
            self.drain(now);
        }
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn window(&self) -> u64 {
        let initial = self.packet_size.saturating_mul(INITIAL_PACKETS);
        if Local::is(self.delay.least()) {
            return self.local.window(self.packet_size);
        }
        let bandwidth = self.bandwidth.estimate();
        if bandwidth == 0 {
            return initial;
        }
        let span = self.delay.base().saturating_mul(2).saturating_add(self.wanted()).saturating_add(SLACK);
        // Lost packets count as in flight until the loss is detected.
        let window = self.behind_loss(math::volume(bandwidth, span));
        let least = if self.phase == Phase::Startup { initial } else { self.packet_size.saturating_mul(4) };
        window.saturating_add(self.packet_size.saturating_mul(4)).clamp(least, MOST_WINDOW.max(least))
    }

    fn pacing_rate(&self) -> u64 {
        let initial = self.packet_size.saturating_mul(INITIAL_PACKETS);
        let rtt = if self.delay.is_known() { self.delay.base() } else { ASSUMED_RTT };
        let train = math::rate(initial, math::stretch(rtt, TRAIN_SPAN).max(Duration::from_micros(10)));
        let former =
            self.rate_drop.as_ref().filter(|_| self.phase == Phase::Cruise).map_or(0, |fall| fall.tried());
        let model = math::scale(self.bandwidth.estimate(), self.gain).max(former);
        // A sender with little to send measures its own rate, not what the path carries.
        let rate = if self.phase == Phase::Startup && !self.tried { train.max(model) } else { model };
        let rate = if Local::is(self.delay.least()) {
            rate.max(self.local.pacing_rate(self.packet_size))
        } else {
            rate
        };
        // Pace at least a few packets a round trip; the window still bounds them. A sender that always finds the path
        // idle measures nothing, and a rate that losses reduced would never rise again.
        rate.max(math::rate(self.packet_size * LEAST_PACKETS, self.base())).max(self.packet_size)
    }

    fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes.clamp(1, LARGEST_PACKET);
    }

    fn remember(&self) -> Option<Remembered> {
        let rate = self.bandwidth.estimate();
        (rate > 0 && self.phase != Phase::Startup).then(|| Remembered { rate, rtt: self.delay.least() })
    }

    fn recall(&mut self, remembered: Remembered) {
        if self.bandwidth.estimate() == 0 && remembered.rate > 0 {
            self.bandwidth.on_sample(remembered.rate, true);
            self.delay.assume(remembered.rtt);
            self.phase = Phase::Cruise;
            self.gain = ONE;
        }
    }

    fn state(&self) -> ControllerStats {
        ControllerStats {
            bandwidth: self.bandwidth.estimate(),
            min_rtt: self.delay.least(),
            queue: self.delay.queue(),
            phase: match self.phase {
                Phase::Startup => "startup",
                Phase::Cruise => "cruise",
                Phase::Settle { .. } => "settle",
                Phase::Check(_) => "check",
                Phase::Drain { .. } => "drain",
            },
            baseline_loss_ppm: u32::try_from(self.losses.baseline_ppm()).unwrap_or(u32::MAX),
            window: self.window(),
            pacing_rate: self.pacing_rate(),
        }
    }
}
