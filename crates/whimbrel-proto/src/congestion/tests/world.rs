//! The event loop of the tests, and the figures derived from a run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::link::{Bottleneck, Dice, Link, Weather};
use super::sender::{Ack, Packet, Receiver, SIZE, Sender};
use crate::Time;
use crate::congestion::{Congestion, Remembered};

/// One flow: its controller, when it starts, and how many packets' worth it sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) kind: Congestion,
    pub(super) start: Duration,
    pub(super) units: Option<u64>,
    /// The rate that a ticket remembered, in bytes a second.
    pub(super) remembered: Option<u64>,
}

impl Flow {
    pub(super) fn bulk(kind: Congestion) -> Self {
        Self { kind, start: Duration::ZERO, units: None, remembered: None }
    }
}

pub(super) struct World {
    pub(super) link: Link,
    dice: Dice,
    /// The state of burst loss in each direction.
    weather: [Weather; 2],
    pub(super) bottleneck: Bottleneck,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    kinds: Vec<Option<Event>>,
    free: Vec<usize>,
    order: u64,
    pub(super) flows: Vec<(Sender, Receiver)>,
    /// The wake-up that each flow waits for.
    wakes: Vec<Time>,
    /// The last arrival of each flow in each direction.
    arrived: Vec<[Time; 2]>,
    pub(super) log: Vec<String>,
    logging: bool,
}

enum Event {
    Wake(usize),
    Data(usize, Packet),
    AckTimer(usize),
    Ack(usize, Ack),
}

impl World {
    /// Runs `flows` over `link` for `span`.
    pub(super) fn run(link: &Link, flows: &[Flow], span: Duration, seed: u64) -> Self {
        Self::run_logged(link, flows, span, seed, false)
    }

    pub(super) fn run_logged(link: &Link, flows: &[Flow], span: Duration, seed: u64, logging: bool) -> Self {
        let mut world = Self {
            link: link.clone(),
            dice: Dice(seed),
            weather: [Weather::new(seed), Weather::new(!seed)],
            bottleneck: Bottleneck::default(),
            events: BinaryHeap::new(),
            kinds: Vec::new(),
            free: Vec::new(),
            order: 0,
            flows: Vec::new(),
            wakes: vec![Time::MAX; flows.len()],
            arrived: vec![[Time::ZERO; 2]; flows.len()],
            log: Vec::new(),
            logging,
        };
        for (index, flow) in flows.iter().enumerate() {
            // Data is sent in the third flight, one round trip after the connect call.
            let start = Time::ZERO + flow.start + link.rtt;
            let mut sender = Sender::new(flow.kind, link.rtt, flow.units, start);
            if let Some(rate) = flow.remembered {
                sender.control.recall(Remembered { rate, rtt: link.rtt });
            }
            world.flows.push((sender, Receiver::new(link.ack_every)));
            world.wake(index, start);
        }
        let end = Time::ZERO + span;
        let mut log_at = Time::ZERO;
        while let Some(Reverse((now, _, slot))) = world.events.pop() {
            if now > end {
                break;
            }
            if logging && now >= log_at {
                log_at = now + Duration::from_millis(25);
                world.write_log(now);
            }
            let event = world.kinds[slot].take().unwrap();
            world.free.push(slot);
            world.step(now, event);
        }
        world
    }

    fn write_log(&mut self, now: Time) {
        let queue = self.bottleneck.delays.last().map_or(0.0, |(_, d)| d.as_secs_f64() * 1e3);
        for (sender, _) in &self.flows {
            let s = sender.control.state();
            self.log.push(format!(
                "{now:?} real queue {queue:.1} ms; {} m {} bw {:.2} pace {:.2} Mbit/s window {} base {:?} queue {:?} loss {}",
                s.phase,
                state_of(&format!("{:?}", sender.control)),
                s.bandwidth as f64 * 8e-6,
                s.pacing_rate as f64 * 8e-6,
                s.window / SIZE,
                s.min_rtt,
                s.queue,
                s.baseline_loss_ppm
            ));
        }
        assert!(self.logging);
    }

    fn push(&mut self, at: Time, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.kinds.push(None);
            self.kinds.len() - 1
        });
        self.kinds[slot] = Some(event);
        self.order += 1;
        self.events.push(Reverse((at, self.order, slot)));
    }

    fn wake(&mut self, flow: usize, at: Time) {
        if at < self.wakes[flow] {
            self.wakes[flow] = at;
            self.push(at, Event::Wake(flow));
        }
    }

    fn step(&mut self, now: Time, event: Event) {
        match event {
            Event::Wake(flow) => {
                if self.wakes[flow] <= now {
                    self.wakes[flow] = Time::MAX;
                    self.send(flow, now);
                }
            }
            Event::Data(flow, packet) => {
                let receiver = &mut self.flows[flow].1;
                receiver.handle(now, &packet);
                self.acknowledge(flow, now);
            }
            Event::AckTimer(flow) => self.acknowledge(flow, now),
            Event::Ack(flow, ack) => {
                self.flows[flow].0.handle_ack(now, &ack);
                self.send(flow, now);
            }
        }
    }

    fn acknowledge(&mut self, flow: usize, now: Time) {
        if let Some(ack) = self.flows[flow].1.poll_ack(now) {
            if !self.link.is_out(now) && !self.is_lost(1, now) {
                let at = self.arrival(flow, 1, now);
                self.push(at, Event::Ack(flow, ack));
            }
        } else if let Some(at) = self.flows[flow].1.ack_at {
            self.push(at, Event::AckTimer(flow));
        }
    }

    fn send(&mut self, flow: usize, now: Time) {
        loop {
            match self.flows[flow].0.poll(now) {
                Ok(packet) => self.transmit(flow, now, packet),
                Err(at) if at == Time::MAX => return,
                Err(at) => {
                    // Timers have a resolution of a millisecond.
                    let grain = 1_000_000;
                    let late = at.max(now).as_nanos().saturating_add(1).div_ceil(grain) * grain;
                    return self.wake(flow, Time::from_nanos(late));
                }
            }
        }
    }

    fn transmit(&mut self, flow: usize, now: Time, packet: Packet) {
        let Some(through) = self.bottleneck.take(&self.link, now, SIZE) else { return };
        if !self.link.is_out(through) && !self.is_lost(0, through) {
            let at = self.arrival(flow, 0, through);
            self.push(at, Event::Data(flow, packet));
        }
    }

    fn is_lost(&mut self, way: usize, now: Time) -> bool {
        match self.link.bursts {
            Some(bursts) => self.weather[way].takes(bursts, self.link.loss, now),
            None => self.dice.permille(self.link.loss),
        }
    }

    fn arrival(&mut self, flow: usize, way: usize, sent: Time) -> Time {
        let jitter = self.link.jitter.as_nanos() as u64;
        let late = if jitter > 0 { self.dice.next() % jitter } else { 0 };
        let least = sent + (self.link.rtt / 2 - self.link.early);
        let at = (least + Duration::from_nanos(late)).max(self.arrived[flow][way]);
        self.arrived[flow][way] = at;
        at
    }

    /// The payload that arrived by `span`, as a share of what the link could carry after its loss, from the connect
    /// call on.
    pub(super) fn goodput(&self, span: Duration) -> f64 {
        let arrived: usize = self.flows.iter().map(|(_, receiver)| receiver.arrivals.len()).sum();
        arrived as f64 * SIZE as f64 / self.capacity(span)
    }

    /// The wire bytes that the link could carry after its loss.
    pub(super) fn capacity(&self, span: Duration) -> f64 {
        let capacity: f64 = (0..1000)
            .map(|i| Time::ZERO + span * i / 1000)
            .filter(|at| !self.link.is_out(*at))
            .map(|at| self.link.bytes_per_s(at) as f64 * span.as_secs_f64() / 1000.0)
            .sum();
        capacity * (1.0 - self.link.mean_loss() / 1000.0)
    }

    /// The 95th percentile of queueing delay, as a share of the base round trip.
    pub(super) fn queue_p95(&self) -> f64 {
        let mut delays: Vec<_> = self.bottleneck.delays.iter().map(|(_, delay)| *delay).collect();
        delays.sort_unstable();
        delays[delays.len() * 95 / 100].as_secs_f64() / self.link.rtt.as_secs_f64()
    }

    pub(super) fn drop_share(&self) -> f64 {
        self.bottleneck.dropped as f64 / self.bottleneck.offered as f64
    }

    /// Units that each flow delivered between two times.
    pub(super) fn delivered(&self, from: Duration, to: Duration) -> Vec<f64> {
        let within = |at: &&Time| at.since(Time::ZERO) >= from && at.since(Time::ZERO) < to;
        self.flows
            .iter()
            .map(|(_, receiver)| receiver.arrivals.iter().filter(within).count() as f64)
            .collect()
    }
}

/// Jain's fairness index.
pub(super) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (squares * shares.len() as f64)
}

/// The multiple of the wanted queue, read from a controller's debug output.
fn state_of(debug: &str) -> &str {
    debug.split("target: ").nth(1).and_then(|rest| rest.split("spells").next()).unwrap_or("-")
}
