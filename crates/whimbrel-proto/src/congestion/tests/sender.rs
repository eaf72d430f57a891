//! A bulk sender with simple loss detection, and its receiver.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::Time;
use crate::congestion::{AckSample, Congestion, Controller, Pacer, RateSampler, Snapshot};

pub(super) const SIZE: u64 = 1500;

#[derive(Clone, Copy)]
struct Record {
    number: u64,
    unit: u64,
    sent_at: Time,
    snapshot: Snapshot,
    state: SentState,
}

#[derive(Clone, Copy, PartialEq)]
enum SentState {
    Out,
    Lost,
    Acked,
}

/// A packet that crosses the link.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) number: u64,
    pub(super) unit: u64,
}

/// The largest number received, and which of the 512 up to it were received.
#[derive(Clone, Debug)]
pub(super) struct Ack {
    largest: u64,
    seen: [u64; 8],
    delay: Duration,
}

pub(super) struct Sender {
    pub(super) control: Box<dyn Controller>,
    sampler: RateSampler,
    pacer: Pacer,
    records: VecDeque<Record>,
    next: u64,
    again: VecDeque<u64>,
    next_unit: u64,
    units: u64,
    in_flight: u64,
    srtt: Option<Duration>,
    variance: Duration,
    min_rtt: Duration,
    largest_acked: Option<u64>,
    heard_at: Time,
    probe_at: Time,
    dark: bool,
    pub(super) spurious: u64,
}

impl Sender {
    pub(super) fn new(kind: Congestion, rtt: Duration, units: Option<u64>, now: Time) -> Self {
        let mut control = kind.build(SIZE, now);
        control.on_rtt(now, rtt);
        Self {
            control,
            sampler: RateSampler::new(),
            pacer: Pacer::new(SIZE),
            records: VecDeque::new(),
            next: 0,
            again: VecDeque::new(),
            next_unit: 0,
            units: units.unwrap_or(u64::MAX),
            in_flight: 0,
            srtt: Some(rtt),
            variance: rtt / 2,
            min_rtt: rtt,
            largest_acked: None,
            heard_at: now,
            probe_at: Time::MAX,
            dark: false,
            spurious: 0,
        }
    }

    fn has_data(&self) -> bool {
        !self.again.is_empty() || self.next_unit < self.units
    }

    fn probe_timeout(&self) -> Duration {
        let srtt = self.srtt.unwrap();
        (srtt + self.variance * 4).max(srtt * 5 / 4) + Duration::from_millis(10)
    }

    /// The next packet that may be sent now, or when to ask again.
    pub(super) fn poll(&mut self, now: Time) -> Result<Packet, Time> {
        self.detect_losses(now);
        if !self.records.is_empty() && now >= self.probe_at {
            return Ok(self.probe(now));
        }
        let timer = self.probe_at.min(self.loss_at());
        if self.dark || self.in_flight + SIZE > self.control.window() {
            return Err(timer);
        }
        if !self.has_data() {
            self.sampler.on_app_limited(self.in_flight);
            return Err(timer);
        }
        let ready = self.pacer.ready_at(now, SIZE);
        if ready > now { Err(ready.min(timer)) } else { Ok(self.send(now)) }
    }

    /// Sends a probe. After two timeouts without an acknowledgement the path counts as silent.
    fn probe(&mut self, now: Time) -> Packet {
        if now.since(self.heard_at) > self.probe_timeout() * 2 && !self.dark {
            self.dark = true;
            let mut lost = 0;
            for record in self.records.iter_mut().filter(|record| record.state == SentState::Out) {
                record.state = SentState::Lost;
                self.again.push_back(record.unit);
                lost += SIZE;
            }
            self.in_flight = 0;
            self.control.on_loss(now, lost, 0, true);
        }
        self.send(now)
    }

    fn send(&mut self, now: Time) -> Packet {
        let unit = self.again.pop_front().unwrap_or_else(|| {
            self.next_unit += 1;
            (self.next_unit - 1).min(self.units - 1)
        });
        let snapshot = self.sampler.on_sent(now, self.in_flight, SIZE);
        self.control.on_sent(now, SIZE, self.in_flight);
        self.pacer.on_sent(now, SIZE, self.control.pacing_rate());
        let number = self.next;
        self.next += 1;
        self.in_flight += SIZE;
        self.records.push_back(Record { number, unit, sent_at: now, snapshot, state: SentState::Out });
        // The backoff is capped, so that a link that comes back is used at once.
        let cap = Duration::from_millis(250).max(self.srtt.unwrap());
        self.probe_at = now + if self.dark { cap } else { self.probe_timeout() };
        Packet { number, unit }
    }

    pub(super) fn handle_ack(&mut self, now: Time, ack: &Ack) {
        if self.dark {
            self.dark = false;
            self.control.on_restart(now);
        }
        self.heard_at = now;
        let prior = self.in_flight;
        let (mut acked, mut newest) = (0, None);
        for record in &mut self.records {
            if record.number > ack.largest || !ack.has(record.number) || record.state == SentState::Acked {
                continue;
            }
            if record.state == SentState::Out {
                self.in_flight -= SIZE;
            } else {
                self.spurious += 1;
                self.control.on_spurious_loss(now, SIZE);
            }
            record.state = SentState::Acked;
            acked += SIZE;
            newest = Some((record.number, record.sent_at));
            self.sampler.on_acked(now, record.sent_at, SIZE, &record.snapshot);
        }
        let Some((number, sent_at)) = newest else { return };
        let mut rtt = None;
        if self.largest_acked.is_none_or(|largest| number > largest) {
            self.largest_acked = Some(number);
            rtt = Some(self.measure(now.since(sent_at).saturating_sub(ack.delay)));
        }
        let lost = self.detect_losses(now);
        let sample = AckSample {
            now,
            acked,
            lost,
            in_flight: self.in_flight,
            prior_in_flight: prior,
            rtt,
            srtt: self.srtt.unwrap(),
            min_rtt: self.min_rtt,
            rate: self.sampler.finish(now),
            largest_sent_at: sent_at,
            ecn_ce: 0,
        };
        self.control.on_ack(&sample);
        self.probe_at =
            if self.in_flight > 0 || self.has_data() { now + self.probe_timeout() } else { Time::MAX };
        let horizon = self.next.saturating_sub(4096);
        while self.records.pop_front_if(|r| r.state == SentState::Acked || r.number < horizon).is_some() {}
    }

    fn measure(&mut self, rtt: Duration) -> Duration {
        let srtt = self.srtt.unwrap_or(rtt);
        self.variance = (self.variance * 3 + srtt.abs_diff(rtt)) / 4;
        self.srtt = Some((srtt * 7 + rtt) / 8);
        self.min_rtt = self.min_rtt.min(rtt);
        rtt
    }

    fn loss_at(&self) -> Time {
        let Some(largest) = self.largest_acked else { return Time::MAX };
        let after = self.srtt.unwrap() * 9 / 8;
        let mut out = self.records.iter().filter(|r| r.state == SentState::Out && r.number < largest);
        out.next().map_or(Time::MAX, |record| record.sent_at + after)
    }

    fn detect_losses(&mut self, now: Time) -> u64 {
        let Some(largest) = self.largest_acked else { return 0 };
        let after = self.srtt.unwrap() * 9 / 8;
        let mut lost = 0;
        for record in &mut self.records {
            if record.number >= largest {
                break;
            }
            let late = record.number + 3 <= largest || now >= record.sent_at + after;
            if record.state == SentState::Out && late {
                record.state = SentState::Lost;
                self.again.push_back(record.unit);
                self.in_flight -= SIZE;
                lost += SIZE;
            }
        }
        if lost > 0 {
            self.control.on_loss(now, lost, self.in_flight, false);
        }
        lost
    }
}

impl Ack {
    fn has(&self, number: u64) -> bool {
        let back = self.largest - number;
        back < 512 && self.seen[(back / 64) as usize] >> (back % 64) & 1 == 1
    }
}

/// Acknowledges every `ack_every` packets, a gap at once, and anything within 5 ms (25 ms if `ack_every` exceeds 2).
#[derive(Default)]
pub(super) struct Receiver {
    ack_every: u32,
    largest: u64,
    seen: BTreeSet<u64>,
    unacked: u32,
    largest_at: Time,
    pub(super) ack_at: Option<Time>,
    pub(super) units: BTreeSet<u64>,
    /// When each new unit arrived.
    pub(super) arrivals: Vec<Time>,
}

impl Receiver {
    pub(super) fn new(ack_every: u32) -> Self {
        Self { ack_every, ..Self::default() }
    }

    pub(super) fn handle(&mut self, now: Time, packet: &Packet) {
        let gap = packet.number > self.largest + 1 || packet.number < self.largest;
        if packet.number >= self.largest {
            self.largest = packet.number;
            self.largest_at = now;
        }
        self.seen.insert(packet.number);
        while self.seen.len() > 600 {
            self.seen.pop_first();
        }
        if self.units.insert(packet.unit) {
            self.arrivals.push(now);
        }
        self.unacked += 1;
        let at = if gap || self.unacked >= self.ack_every {
            now
        } else {
            now + Duration::from_millis(if self.ack_every > 2 { 25 } else { 5 })
        };
        self.ack_at = Some(self.ack_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(super) fn poll_ack(&mut self, now: Time) -> Option<Ack> {
        self.ack_at.take_if(|at| *at <= now)?;
        self.unacked = 0;
        let mut seen = [0; 8];
        for number in self.seen.iter().rev() {
            let back = self.largest - number;
            if back < 512 {
                seen[(back / 64) as usize] |= 1 << (back % 64);
            }
        }
        Some(Ack { largest: self.largest, seen, delay: now.since(self.largest_at) })
    }
}
