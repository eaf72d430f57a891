//! Sessions that move: traffic both ways, one end suspended in the midst of it and resumed on another host, at times a second time from
//! the same state. Whatever is drawn, each message arrives once and in its order, and a state is good once.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_proto::session::{Message, Outgoing};
use whimbrel_proto::{
    CloseReason, Event, Handle, Service, StreamId, SuspendMode, Suspended, TransportConfig,
};

use super::{Dice, Seeded};
use crate::link::LinkConfig;
use crate::pair::{End, Pair};

/// What is sent before the end is suspended, then while it is away, then after its return: so many times each.
const ROUNDS: u32 = 20;
/// As long as everything may take to arrive.
const REST: Duration = Duration::from_secs(60);
const SERVICES: [Service; 2] = [Service::ReliableSequenced, Service::ReliableUnsequenced];

struct Move {
    pair: Pair,
    dice: Seeded,
    link: LinkConfig,
    /// Where the client's end is since it was resumed.
    moved: Option<(usize, Handle)>,
    sent: BTreeMap<(End, usize), u64>,
    got: BTreeMap<(End, usize), Vec<u64>>,
}

/// Runs what `seed` decides; panics where a promise is broken.
pub fn run_move(seed: u64) {
    let mut dice = Seeded::new(seed);
    let link = format!("rate=5mbit,delay={}ms,loss={}%", dice.between(1, 80), dice.below(10));
    let pair = Pair::connected(seed, TransportConfig::default(), &link);
    let link = link.parse().expect("it is well written");
    let mut run = Move { pair, dice, link, moved: None, sent: BTreeMap::new(), got: BTreeMap::new() };
    run.play();
}

impl Move {
    fn play(&mut self) {
        self.talk(&End::BOTH);
        let state = self.suspend();
        self.talk(&[End::Server]);
        let away = Duration::from_millis(self.dice.between(0, 20_000).into());
        self.pair.run(away);
        self.moved = Some(self.resume(&state));
        self.pair.run(Duration::from_secs(5));
        if self.dice.chance(50) {
            let again = self.resume(&state);
            self.pair.run(Duration::from_secs(10));
            assert_eq!(self.closed(again), Some(CloseReason::AlreadyResumed), "a state is good once");
        }
        self.talk(&End::BOTH);
        self.rest();
    }

    /// Some messages, and some time.
    fn talk(&mut self, ends: &[End]) {
        for _ in 0..ROUNDS {
            let end = ends[self.dice.below(ends.len() as u32) as usize];
            for _ in 0..self.dice.between(1, 8) {
                self.send(end);
            }
            let time = Duration::from_millis(self.dice.between(0, 30).into());
            self.pair.run(time);
            if self.dice.chance(50) {
                self.read();
            }
        }
    }

    fn send(&mut self, from: End) {
        let kind = self.dice.below(2) as usize;
        let number = self.sent.entry((from, kind)).or_default();
        let mut payload = number.to_be_bytes().to_vec();
        *number += 1;
        let length =
            if self.dice.chance(90) { self.dice.between(8, 300) } else { self.dice.between(300, 5000) };
        payload.resize(length as usize, kind as u8);
        let message = Outgoing::new(StreamId(0), SERVICES[kind], payload.into());
        let now = self.pair.now();
        match self.moved.filter(|_| from == End::Client) {
            Some((node, handle)) => {
                let session = self.pair.world.peer(node, handle).connection.session();
                session.send(now, message).expect("there is room");
            }
            None => drop(self.pair.try_send(from, message).expect("there is room")),
        }
    }

    fn suspend(&mut self) -> Suspended {
        let mode = if self.dice.chance(80) { SuspendMode::Snapshot } else { SuspendMode::Flush };
        let now = self.pair.now();
        self.pair.connection(End::Client).suspend(now, mode, None).expect("it can be suspended");
        let over = self.pair.run_until(Duration::from_secs(15), |pair| pair.closed(End::Client).is_some());
        assert!(over && self.pair.closed(End::Client) == Some(CloseReason::Suspended));
        let (node, handle) = self.pair.place(End::Client).expect("it is there");
        let state = self.pair.world.take_suspended(node, handle).expect("the state is there");
        Suspended::from_bytes(&state.to_bytes()).expect("it was just written")
    }

    /// On a host of its own.
    fn resume(&mut self, state: &Suspended) -> (usize, Handle) {
        let client = self.pair.client;
        let host = self.pair.world.add_host_of(client, self.link.clone(), self.link.clone());
        (host, self.pair.world.resume(host, state, None).expect("it can be resumed"))
    }

    fn closed(&mut self, (node, handle): (usize, Handle)) -> Option<CloseReason> {
        let events = &self.pair.world.try_peer(node, handle)?.events;
        events.iter().find_map(|(_, event)| match event {
            Event::Closed(why) => Some(why.clone()),
            _ => None,
        })
    }

    fn read(&mut self) {
        let now = self.pair.now();
        for end in End::BOTH {
            let messages: Vec<Message> = match self.moved.filter(|_| end == End::Client) {
                Some((node, handle)) => {
                    let session = self.pair.world.peer(node, handle).connection.session();
                    std::iter::from_fn(|| session.recv(now)).collect()
                }
                None => self.pair.recv(end),
            };
            for message in messages {
                self.take(end, &message);
            }
        }
    }

    fn take(&mut self, at: End, message: &Message) {
        let kind = SERVICES.iter().position(|service| *service == message.service).expect("one of ours");
        let number = message.payload.first_chunk().map(|number| u64::from_be_bytes(*number));
        let number = number.expect("a message has its number");
        let got = self.got.entry((at, kind)).or_default();
        assert!(!got.contains(&number), "{at:?} got message {number} of kind {kind} twice");
        if SERVICES[kind].is_sequenced() {
            assert_eq!(number, got.len() as u64, "{at:?} gets them in order");
        }
        got.push(number);
    }

    fn rest(&mut self) {
        let until = self.pair.now() + REST;
        while !self.is_all_there() && self.pair.now() < until {
            self.pair.run(Duration::from_millis(50));
            self.read();
        }
        let counts: Vec<_> = self.got.iter().map(|(who, got)| (*who, got.len())).collect();
        assert!(self.is_all_there(), "of {:?} came {counts:?}", self.sent);
    }

    fn is_all_there(&self) -> bool {
        self.sent.iter().all(|((from, kind), sent)| {
            self.got.get(&(from.other(), *kind)).map_or(0, Vec::len) as u64 == *sent
        })
    }
}
