//! Sessions that move: with traffic in both directions, one end is suspended and resumed on another host, sometimes a
//! second time from the same state. Each message must arrive once and in order, and a state must work once.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_proto::session::{self, Outgoing};
use whimbrel_proto::{
    CloseReason, Event, Handle, Service, StreamId, SuspendMode, Suspended, TransportConfig,
};

use super::dice::{Dice, Seeded};
use crate::pair::{End, Pair};
use whimbrel_link::LinkConfig;

/// The rounds of messages before the suspension, during it and after it: this many each.
const ROUNDS: usize = 20;
/// The longest time until everything has arrived.
const REST: Duration = Duration::from_secs(60);
const SERVICES: [Service; 2] = [Service::ReliableSequenced, Service::ReliableUnsequenced];

/// The decisions for a session that moves.
#[derive(Debug)]
pub(super) struct MoveScript {
    seed: u64,
    link: String,
    before: Vec<Round>,
    mode: SuspendMode,
    /// The messages that the other end sends meanwhile.
    away: Vec<Round>,
    time: Duration,
    /// Whether the state is used a second time.
    again: bool,
    after: Vec<Round>,
}

/// Some messages, followed by some time.
#[derive(Debug)]
struct Round {
    from: End,
    messages: Vec<Message>,
    time: Duration,
    read: bool,
}

/// A message to send: its index in [`SERVICES`] and its length.
#[derive(Debug)]
struct Message {
    kind: usize,
    length: usize,
}

impl MoveScript {
    pub(super) fn draw(dice: &mut dyn Dice, seed: u64) -> Self {
        dice.part("begin");
        let link = format!("rate=5mbit,delay={}ms,loss={}%", dice.between(1, 80), dice.below(10));
        let before = Round::draw_all(dice, "before", &End::BOTH);
        dice.part("suspend");
        let mode = if dice.chance(80) { SuspendMode::Snapshot } else { SuspendMode::Flush };
        let away = Round::draw_all(dice, "away", &[End::Server]);
        dice.part("resume");
        let time = Duration::from_millis(dice.between(0, 20_000).into());
        let again = dice.chance(50);
        let after = Round::draw_all(dice, "after", &End::BOTH);
        Self { seed, link, before, mode, away, time, again, after }
    }

    /// Describes each part in a line, in their order.
    pub(super) fn describe(&self) -> Vec<String> {
        let Self { link, before, mode, away, time, again, after, .. } = self;
        let rounds = |rounds: &[Round]| rounds.iter().map(|round| format!("{round:?}")).collect::<Vec<_>>();
        let (suspend, resume) = (format!("{mode:?}"), format!("after {time:?}, again: {again}"));
        [vec![link.clone()], rounds(before), vec![suspend], rounds(away), vec![resume], rounds(after)]
            .concat()
    }
}

impl Round {
    fn draw_all(dice: &mut dyn Dice, part: &'static str, ends: &[End]) -> Vec<Self> {
        let mut rounds = Vec::new();
        while rounds.len() < ROUNDS && dice.part(part) {
            rounds.push(Self::draw(dice, ends));
        }
        rounds
    }

    fn draw(dice: &mut dyn Dice, ends: &[End]) -> Self {
        let from = ends[dice.below(ends.len() as u32) as usize];
        let messages = (0..dice.between(1, 8)).map(|_| Message::draw(dice)).collect();
        let time = Duration::from_millis(dice.between(0, 30).into());
        Self { from, messages, time, read: dice.chance(50) }
    }
}

impl Message {
    fn draw(dice: &mut dyn Dice) -> Self {
        let kind = dice.below(2) as usize;
        let length = if dice.chance(90) { dice.between(8, 300) } else { dice.between(300, 5000) };
        Self { kind, length: length as usize }
    }
}

struct Move {
    pair: Pair,
    link: LinkConfig,
    /// Where the client's end is since it was resumed.
    moved: Option<(usize, Handle)>,
    sent: BTreeMap<(End, usize), u64>,
    got: BTreeMap<(End, usize), Vec<u64>>,
}

/// Runs what `seed` decides. Panics if a guarantee is violated.
pub fn run_move(seed: u64) {
    play(MoveScript::draw(&mut Seeded::new(seed), seed));
}

/// Plays a script. Panics if a guarantee is violated.
pub(super) fn play(script: MoveScript) {
    let pair = Pair::connected(script.seed, TransportConfig::default(), &script.link);
    let link = script.link.parse().expect("it is well written");
    let mut run = Move { pair, link, moved: None, sent: BTreeMap::new(), got: BTreeMap::new() };
    run.play(script);
}

impl Move {
    fn play(&mut self, script: MoveScript) {
        self.talk(&script.before);
        let state = self.suspend(script.mode);
        self.talk(&script.away);
        self.pair.run(script.time);
        self.moved = Some(self.resume(&state));
        self.pair.run(Duration::from_secs(5));
        if script.again {
            let again = self.resume(&state);
            self.pair.run(Duration::from_secs(10));
            assert_eq!(self.closed(again), Some(CloseReason::AlreadyResumed), "a state is good once");
        }
        self.talk(&script.after);
        self.rest();
    }

    fn talk(&mut self, rounds: &[Round]) {
        for round in rounds {
            for message in &round.messages {
                self.send(round.from, message);
            }
            self.pair.run(round.time);
            if round.read {
                self.read();
            }
        }
    }

    fn send(&mut self, from: End, message: &Message) {
        let kind = message.kind;
        let number = self.sent.entry((from, kind)).or_default();
        let mut payload = number.to_be_bytes().to_vec();
        *number += 1;
        payload.resize(message.length, kind as u8);
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

    fn suspend(&mut self, mode: SuspendMode) -> Suspended {
        let now = self.pair.now();
        self.pair.connection(End::Client).suspend(now, mode, None).expect("it can be suspended");
        let over = self.pair.run_until(Duration::from_secs(15), |pair| pair.closed(End::Client).is_some());
        assert!(over && self.pair.closed(End::Client) == Some(CloseReason::Suspended));
        let (node, handle) = self.pair.place(End::Client).expect("it is there");
        let state = self.pair.world.take_suspended(node, handle).expect("the state is there");
        Suspended::from_bytes(&state.to_bytes()).expect("it was just written")
    }

    /// Resumes the session on a new host.
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
            let messages: Vec<session::Message> = match self.moved.filter(|_| end == End::Client) {
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

    fn take(&mut self, at: End, message: &session::Message) {
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
