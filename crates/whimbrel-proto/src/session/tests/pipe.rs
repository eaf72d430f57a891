//! Two sessions joined by a link that loses, delays and reorders packets, controlled by a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use crate::wire::{Reader, Writer};
use crate::{MessageId, PeerMisbehaved, Service, Side, StreamId, Time};

/// The SplitMix64 random number generator.
#[derive(Clone, Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug)]
pub(super) enum Event {
    Arrive { to: usize, packet: Vec<u8>, carried: Vec<Carried>, id: u64 },
    Acked { side: usize, carried: Vec<Carried>, id: u64 },
    Lost { side: usize, carried: Vec<Carried>, id: u64 },
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) ends: [Session; 2],
    pub(super) now: Time,
    pub(super) rng: Rng,
    /// Percentages: `loss` of packets and acknowledgements that are lost, `spurious` of packets declared lost that
    /// arrive after all.
    pub(super) loss: u64,
    pub(super) spurious: u64,
    pub(super) jitter: u64,
    pub(super) delay: Duration,
    pub(super) mtu: usize,
    pub(super) window: usize,
    pub(super) repeats: u8,
    pub(super) blackout: bool,
    pub(super) packets: u64,
    pub(super) events: BTreeMap<(Time, u64), Event>,
    pub(super) flying: [BTreeMap<u64, ()>; 2],
    pub(super) sequence: u64,
    pub(super) failure: Option<PeerMisbehaved>,
}

pub(super) fn limits(config: &SessionConfig) -> PeerLimits {
    PeerLimits {
        max_stream_data: config.share(),
        max_streams: config.streams().min(DEFAULT_STREAMS),
        max_message: config.max_message,
        cross_sequencing: config.cross_sequencing,
        openings: Some(true),
        small_shares: true,
    }
}

impl Pipe {
    pub(super) fn new(seed: u64, config: SessionConfig) -> Self {
        let mut ends = [Session::new(Side::Client, config), Session::new(Side::Server, config)];
        for end in &mut ends {
            end.set_peer_limits(limits(&config));
        }
        Self {
            ends,
            now: Time::ZERO,
            rng: Rng(seed),
            loss: 0,
            spurious: 0,
            jitter: 0,
            delay: Duration::from_millis(5),
            mtu: 1400,
            window: 64,
            repeats: 0,
            blackout: false,
            packets: 0,
            events: BTreeMap::new(),
            flying: [BTreeMap::new(), BTreeMap::new()],
            sequence: 0,
            failure: None,
        }
    }

    pub(super) fn plain() -> Self {
        Self::new(1, SessionConfig::default())
    }

    pub(super) fn lossy(seed: u64) -> Self {
        Self { loss: 10, spurious: 5, jitter: 6, ..Self::new(seed, SessionConfig::default()) }
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + after, self.sequence), event);
    }

    fn jittered(&mut self) -> Duration {
        self.delay + Duration::from_millis(self.rng.below(self.jitter + 1))
    }

    /// Sends everything that may be sent.
    pub(super) fn flush(&mut self) {
        for side in 0..2 {
            while self.flying[side].len() < self.window
                && (self.ends[side].wants_to_send() || self.ends[side].wants_repeat(self.repeats))
            {
                let (mut packet, mut carried) = (vec![0; 3], Vec::new());
                let mut out = Writer::new(&mut packet, self.mtu);
                let wrote = self.ends[side].fill(self.now, &mut out, &mut carried, self.repeats);
                assert!(packet.len() <= self.mtu, "packet of {} bytes", packet.len());
                assert_eq!(wrote, packet.len() > 3);
                if !wrote {
                    break;
                }
                packet.drain(..3);
                self.launch(side, packet, carried);
            }
        }
    }

    fn launch(&mut self, side: usize, packet: Vec<u8>, carried: Vec<Carried>) {
        let id = self.packets;
        self.packets += 1;
        self.flying[side].insert(id, ());
        let lost = self.blackout || self.rng.chance(self.loss);
        let there = self.jittered();
        if lost {
            let patience = there + self.delay * 2;
            self.schedule(patience, Event::Lost { side, carried, id });
        } else {
            self.schedule(there, Event::Arrive { to: 1 - side, packet, carried, id });
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { to, packet, carried, id } => {
                let mut reader = Reader::new(packet.into());
                while !reader.is_empty() {
                    let kind = reader.u8().unwrap();
                    if let Err(failure) = self.ends[to].handle_block(self.now, kind, &mut reader, false) {
                        self.failure = Some(failure);
                        panic!("{failure}");
                    }
                }
                let back = self.jittered();
                if self.rng.chance(self.loss) {
                    self.schedule(back * 2, Event::Lost { side: 1 - to, carried, id });
                } else if self.rng.chance(self.spurious) {
                    self.schedule(back, Event::Lost { side: 1 - to, carried: carried.clone(), id });
                    let late = back + self.delay * (1 + self.rng.below(5) as u32);
                    self.schedule(late, Event::Acked { side: 1 - to, carried, id });
                } else {
                    self.schedule(back, Event::Acked { side: 1 - to, carried, id });
                }
            }
            Event::Acked { side, carried, id } => {
                self.flying[side].remove(&id);
                for item in &carried {
                    self.ends[side].on_acked(self.now, item);
                }
            }
            Event::Lost { side, carried, id } => {
                self.flying[side].remove(&id);
                for item in &carried {
                    self.ends[side].on_lost(self.now, item);
                }
            }
        }
    }

    /// Handles one event or timer. Returns false if nothing more happens before `until`.
    pub(super) fn step(&mut self, until: Time) -> bool {
        self.flush();
        let timer = self.ends.iter().filter_map(|end| end.poll_timeout()).min();
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let Some(next) = timer.into_iter().chain(event).min().filter(|next| *next <= until) else {
            return false;
        };
        assert!(next >= self.now || timer.is_some());
        self.now = self.now.max(next);
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        if event.is_some_and(|at| at <= self.now)
            && let Some((_, event)) = self.events.pop_first()
        {
            self.handle(event);
        }
        true
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
        self.now = until;
        self.flush();
    }

    /// Runs until nothing happens any more. An hour of activity counts as a stall.
    pub(super) fn settle(&mut self) {
        let until = self.now + Duration::from_secs(3600);
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < 3_000_000, "no end in sight");
        }
    }

    /// Cuts the connection. The ends named by the bits of `who` resume from their snapshots after `away`.
    pub(super) fn suspend(&mut self, who: u64, away: Duration) {
        for (_, event) in std::mem::take(&mut self.events) {
            let (side, carried) = match event {
                Event::Arrive { to, carried, .. } => (1 - to, carried),
                Event::Acked { side, carried, .. } | Event::Lost { side, carried, .. } => (side, carried),
            };
            carried.iter().for_each(|item| self.ends[side].on_lost(self.now, item));
        }
        self.flying = [BTreeMap::new(), BTreeMap::new()];
        let snapshots: Vec<_> = self.ends.iter_mut().map(|end| end.snapshot(self.now)).collect();
        self.now += away;
        for (side, bytes) in snapshots.into_iter().enumerate().filter(|(side, _)| who >> side & 1 == 1) {
            let end = Session::restore(self.now, away, bytes.into()).unwrap();
            // Stalls are detected again after a restore.
            let stats = self.ends[side].stats();
            assert_eq!(end.stats(), SessionStats { unread_streams: 0, blocked_streams: 0, ..stats });
            self.ends[side] = end;
        }
    }

    pub(super) fn send(&mut self, side: usize, message: Outgoing) -> MessageId {
        self.ends[side].send(self.now, message).unwrap()
    }

    pub(super) fn recv_all(&mut self, side: usize) -> Vec<Message> {
        std::iter::from_fn(|| self.ends[side].recv(self.now)).collect()
    }

    pub(super) fn outcomes(&mut self, side: usize) -> Vec<(MessageId, Outcome)> {
        let events = std::iter::from_fn(|| self.ends[side].poll_event());
        events
            .filter_map(
                |event| if let SessionEvent::Outcome(id, what) = event { Some((id, what)) } else { None },
            )
            .collect()
    }

    /// Checks that both ends agree on what was charged.
    pub(super) fn assert_credit_agrees(&self) {
        assert_eq!(self.ends[0].credit_used().0, self.ends[1].credit_used().1, "client to server");
        assert_eq!(self.ends[1].credit_used().0, self.ends[0].credit_used().1, "server to client");
    }
}

pub(super) fn numbered(service: Service, number: u64, size: usize) -> Outgoing {
    Outgoing::new(StreamId(0), service, body(number, size))
}

/// Returns `size` bytes (at least 8) that begin with `number` and continue in a pattern that reveals misplaced bytes.
pub(super) fn body(number: u64, size: usize) -> Bytes {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((8..size.max(8)).map(|at| (at as u64 * 31 + number + (at as u64 >> 8)) as u8));
    bytes.into()
}

pub(super) fn number_of(message: &Message) -> u64 {
    let number = u64::from_be_bytes(*message.payload.first_chunk().unwrap());
    assert!(message.payload == body(number, message.payload.len()), "message {number} is damaged");
    number
}
