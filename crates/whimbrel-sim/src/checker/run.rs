//! A run: settings, operations, an end, and the questions to the model.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::session::{
    CreditPolicy, OpenError, Outcome, Outgoing, Read, SendError, SessionEvent, StreamError, StreamKind,
    StreamOptions, TagSettings, URGENT_BEYOND, URGENT_LEN,
};
use whimbrel_proto::{
    CloseReason, CostPolicy, Event, LocalAddress, PathId, PathState, PathStats, PrimaryRule, Scheduling,
    StreamId, Tag, Time, TransportConfig,
};

use super::operation::{DEAR, Draft};
use super::{Dice, Finale, Model, NetworkChange, Operation};
use crate::link::LinkConfig;
use crate::pair::{End, Pair};
use crate::world::SERVER;

/// Operations of a run by seed.
pub const OPERATIONS: usize = 200;
/// A link without faults, on which everything comes to rest.
pub(super) const GOOD: &str = "rate=50mbit,delay=10ms,queue=200ms";
/// As long as that may take, whatever was before: it bounds every stall.
const REST: Duration = Duration::from_secs(15);
/// Message streams an end opens.
const MESSAGE_STREAMS: usize = 4;

/// What a run came by, so that one can see whether runs go where faults may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Messages sent.
    pub sent: u64,
    /// Messages read.
    pub delivered: u64,
    /// Outcomes by kind.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Byte streams opened.
    pub streams: u64,
    /// Packets sent, both ends.
    pub packets: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Key updates.
    pub key_updates: u64,
    /// Address changes.
    pub moves: u64,
    /// Address changes of the server's.
    pub server_moves: u64,
    /// Paths opened beside the first.
    pub paths: u64,
    /// Times that data went on another path first.
    pub changeovers: u64,
    /// Runs that sent on several paths, by what was drawn for them.
    pub drawn: BTreeMap<String, u64>,
    /// Times that a session went on from bytes.
    pub resumed: u64,
    /// Operations.
    pub operations: u64,
}

impl Coverage {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        for (outcome, count) in &other.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
        self.streams += other.streams;
        self.packets += other.packets;
        self.lost += other.lost;
        self.key_updates += other.key_updates;
        self.moves += other.moves;
        self.server_moves += other.server_moves;
        self.paths += other.paths;
        self.changeovers += other.changeovers;
        for (drawn, count) in &other.drawn {
            *self.drawn.entry(drawn.clone()).or_default() += count;
        }
        self.resumed += other.resumed;
        self.operations += other.operations;
    }
}

#[derive(Debug, Default)]
struct Desk {
    messages: Vec<StreamId>,
    bytes: Vec<StreamId>,
    claimed: BTreeSet<StreamId>,
    opened: usize,
    /// Messages or pieces read each time.
    most: usize,
    /// When a queue was last found empty: what is in it came later.
    empty: BTreeMap<Option<StreamId>, Time>,
}

pub(super) struct Run {
    pub(super) pair: Pair,
    model: Model,
    desks: BTreeMap<End, Desk>,
    pub(super) config: TransportConfig,
    link: String,
    /// There is a second network.
    pub(super) second: bool,
    /// What paths from the address of each end on each network cost, and whether they are in reserve.
    values: BTreeMap<End, [(u32, bool); 2]>,
    /// An end is suspended.
    pub(super) away: bool,
    over: bool,
    pub(super) coverage: Coverage,
}

fn settings(dice: &mut dyn Dice) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.idle_timeout = Duration::from_secs(60);
    config.reattach = Some(Duration::from_secs(60));
    let session = &mut config.session;
    session.cross_sequencing = dice.chance(25);
    if dice.chance(40) {
        session.session_window = 262_144 + u64::from(dice.below(100_000));
        session.stream_window = 262_144;
    }
    if dice.chance(30) {
        session.send_queue_messages = dice.between(1, 200) as usize;
        session.send_queue_bytes = dice.between(1_000, 300_000).into();
        session.stream_send_buffer = dice.between(100, 100_000).into();
    }
    if dice.chance(30) {
        let longest = if dice.chance(50) { 10 } else { 300 };
        session.gap_wait = Duration::from_millis(dice.between(1, longest).into());
    }
    session.max_streams = [2, 8, 128][dice.below(3) as usize];
    if dice.chance(50) {
        config.key_update_packets = dice.between(10, 200).into();
    }
    config.repeats = match dice.below(3) {
        0 => whimbrel_proto::Repeats::Adaptive,
        other => whimbrel_proto::Repeats::Fixed(other as u8 - 1),
    };
    config.congestion = match dice.below(5) {
        0..3 => Congestion::Bbr,
        3 => Congestion::Cubic,
        // More than some links carry, and enough for what is queued to be through in time.
        _ => Congestion::Fixed { bytes_per_s: dice.between(300_000, 1_000_000).into() },
    };
    config.scheduler = match dice.below(4) {
        0 | 1 => Scheduling::Aggregate,
        2 => Scheduling::Primary,
        _ => Scheduling::Redundant,
    };
    config.primary_rule = if dice.chance(70) { PrimaryRule::LossAndRtt } else { PrimaryRule::MostReceived };
    config.cost_policy = match dice.below(4) {
        0 => CostPolicy::Ignore,
        1 => CostPolicy::NeverAbove(DEAR),
        _ => CostPolicy::CheapFirst,
    };
    config
}

/// Runs what the dice decide; panics where the system and the model differ.
pub fn run(dice: &mut dyn Dice, seed: u64) -> Coverage {
    let config = settings(dice);
    let link = format!("rate=10mbit,delay={}ms,loss={}%", dice.between(1, 100), dice.below(15));
    let mut desks = BTreeMap::new();
    for end in End::BOTH {
        let desk = Desk { messages: vec![StreamId(0)], most: 10_000, ..Desk::default() };
        desks.insert(end, desk);
    }
    let mut run = Run {
        pair: Pair::new(seed, config.clone(), &link),
        model: Model::new(config.session.cross_sequencing),
        desks,
        config,
        link,
        second: false,
        values: End::BOTH.map(|end| (end, [(0, false); 2])).into(),
        away: false,
        over: false,
        coverage: Coverage::default(),
    };
    run.play(dice);
    run.coverage
}

impl Run {
    fn play(&mut self, dice: &mut dyn Dice) {
        for _ in 0..dice.below(4) {
            if let Operation::Send { draft, .. } = Operation::draw(dice) {
                self.send(End::Client, &draft);
            }
        }
        assert!(self.pair.settle(Duration::from_secs(15)), "no connection over {}", self.link);
        for _ in 0..OPERATIONS {
            if dice.is_over() {
                break;
            }
            self.coverage.operations += 1;
            self.perform(Operation::draw(dice));
            self.pump();
        }
        let finale = Finale::draw(dice);
        self.finale(finale);
    }

    fn desk(&mut self, end: End) -> &mut Desk {
        self.desks.get_mut(&end).expect("both ends have one")
    }

    fn message_stream(&mut self, end: End, nth: u32) -> StreamId {
        let streams = &self.desk(end).messages;
        streams[nth as usize % streams.len()]
    }

    fn byte_stream(&mut self, end: End, nth: u32) -> Option<StreamId> {
        let streams = &self.desk(end).bytes;
        (!streams.is_empty()).then(|| streams[nth as usize % streams.len()])
    }

    fn perform(&mut self, operation: Operation) {
        let now = self.pair.now();
        match operation {
            Operation::Send { from, count, draft } => {
                for _ in 0..count {
                    self.send(from, &draft);
                }
            }
            Operation::Trickle { from, count, apart, draft } => {
                for _ in 0..count {
                    self.send(from, &draft);
                    self.pass(apart);
                }
            }
            Operation::Replace { from, tag, draft } => self.replace(from, tag, draft),
            Operation::Cancel { from, stream, tag } => {
                let stream = self.message_stream(from, stream);
                self.pair.session(from).cancel(now, stream, Tag(tag));
                self.model.on_cancel(now, from, stream, tag);
            }
            Operation::Settings { from, stream, tag, settings } => {
                let stream = self.message_stream(from, stream);
                self.pair.session(from).tag_settings(now, stream, Tag(tag), settings).expect("few tags");
                self.model.on_settings(from, stream, tag, settings);
            }
            Operation::Open { from, kind } => self.open(from, kind),
            Operation::Claim { at, stream } => {
                let stream = self.message_stream(at, stream);
                if stream != StreamId(0) && self.pair.session(at).claim_stream(stream) {
                    self.desk(at).claimed.insert(stream);
                }
            }
            Operation::OpenMessages { from, options } => self.open_messages(from, options),
            Operation::Release { at, stream } => {
                let stream = self.message_stream(at, stream);
                self.pair.session(at).release_stream(stream);
                self.desk(at).claimed.remove(&stream);
            }
            Operation::Options { at, stream, options } => self.set_options(at, stream, options),
            Operation::Write { from, stream, length } => self.write(from, stream, length),
            Operation::Finish { from, stream } => {
                let Some(stream) = self.byte_stream(from, stream) else { return };
                match self.pair.session(from).finish(now, stream) {
                    Ok(()) => self.model.on_finished(from, stream),
                    Err(_) => self.model.check_ended(from, stream),
                }
            }
            Operation::Reset { from, stream, code } => {
                let Some(stream) = self.byte_stream(from, stream) else { return };
                match self.pair.session(from).reset(stream, code) {
                    Ok(()) => self.model.on_reset(from, stream, code),
                    Err(_) => self.model.check_ended(from, stream),
                }
            }
            Operation::Stop { at, stream, code } => {
                let Some(stream) = self.byte_stream(at, stream) else { return };
                if self.pair.session(at).stop(stream, code).is_ok() {
                    self.model.on_stop(at, stream, code);
                }
            }
            Operation::Reading { at, most } => self.desk(at).most = most,
            Operation::Flood { from } => {
                self.desk(from.other()).most = 0;
                for _ in 0..9 {
                    self.send(from, &Draft::plain(60_000));
                }
            }
            Operation::Relink { link } => {
                self.link = link;
                self.pair.relink(&self.link);
            }
            Operation::Down { time } => {
                self.pair.relink("loss=100%");
                self.pass(time);
                self.pair.relink(&self.link);
            }
            Operation::Rebind { end: End::Client } => {
                let client = self.pair.client;
                self.pair.world.rebind(client);
            }
            Operation::Rebind { end: End::Server } => self.rebind_server(),
            Operation::Network(change) => {
                self.add_network();
                self.change_network(change);
            }
            Operation::Away(away) => self.leave(away),
            Operation::Pass { time } => self.pass(time),
        }
    }

    /// The server has another address on the first network, and the client hears of it: if both moved at a time neither would find the
    /// other.
    fn rebind_server(&mut self) {
        self.proven();
        let [client, server] = [self.pair.client, SERVER].map(|node| self.pair.world.address(node));
        self.send(End::Client, &Draft::plain(100));
        self.pass(Duration::from_secs(2));
        if let Some(path) = self.works(End::Client, server)
            && self.works(End::Server, client).is_some()
        {
            self.pair.world.rebind(SERVER);
            self.send(End::Server, &Draft::plain(100));
            self.follow(path, server);
        }
        let link = self.link.clone();
        self.pair.relink(&link);
    }

    /// A path of `at` to this address that works.
    fn works(&mut self, at: End, remote: SocketAddr) -> Option<PathId> {
        let works = |path: &&PathStats| matches!(path.state, PathState::Active | PathState::Standby);
        let paths = self.pair.stats(at).paths;
        paths.iter().filter(works).find(|path| path.remote == remote).map(|path| path.id)
    }

    /// Until the client sends there no more on this path: by then it has heard of the server, if only by a keep-alive.
    fn follow(&mut self, id: PathId, old: SocketAddr) {
        let until = self.pair.now() + self.config.keep_alive.unwrap_or_default() * 2;
        while self.pair.stats(End::Client).paths.iter().any(|path| path.id == id && path.remote == old) {
            assert!(self.pair.now() < until, "the client has not followed: {:?}", self.state());
            self.pass(Duration::from_millis(50));
        }
    }

    /// The second network, once.
    fn add_network(&mut self) {
        if !self.second {
            self.second = true;
            let link: LinkConfig = GOOD.parse().expect("it is well written");
            self.pair.world.add_network(self.pair.client, link.clone(), link);
            self.announce();
        }
    }

    pub(super) fn announce(&mut self) {
        for end in End::BOTH {
            if let Some((node, handle)) = self.pair.place(end)
                && self.pair.try_connection(end).is_some()
            {
                let values = self.values[&end];
                self.pair.world.announce_as(node, handle, |network, address| {
                    let (cost, standby) = values[network];
                    LocalAddress { address, cost, standby }
                });
            }
        }
    }

    pub(super) fn relink_second(&mut self, up: &str, down: &str) {
        let client = self.pair.client;
        for (from, to, link) in [(client, SERVER, up), (SERVER, client, down)] {
            let link = link.parse().expect("links are drawn well written");
            self.pair.world.link_over(1, from, to).reconfigure(link);
        }
    }

    fn change_network(&mut self, change: NetworkChange) {
        match change {
            NetworkChange::Relink { link } => self.relink_second(&link, &link),
            NetworkChange::Dark { up, down } => {
                let way = |dark: bool| if dark { "loss=100%" } else { GOOD };
                self.relink_second(way(up), way(down));
            }
            NetworkChange::Leave { end } => {
                let node = self.node_of(end);
                self.pair.world.take_down(node, 1);
                self.announce();
            }
            NetworkChange::Return { end } => {
                let node = self.node_of(end);
                self.pair.world.set_up(node, 1);
                self.announce();
            }
            NetworkChange::Close { end, nth } => {
                let (now, paths) = (self.pair.now(), self.pair.stats(end).paths);
                let id = paths[nth as usize % paths.len()].id;
                self.pair.connection(end).close_path(now, id);
            }
            NetworkChange::Value { end, network, cost, standby } => {
                self.values.get_mut(&end).expect("both ends have them")[network] = (cost, standby);
                self.announce();
            }
            NetworkChange::Primary { end, nth } => {
                let (now, paths) = (self.pair.now(), self.pair.stats(end).paths);
                let id = paths[nth as usize % paths.len()].id;
                self.pair.connection(end).set_primary(now, id).expect("it is there");
            }
        }
    }

    fn node_of(&self, end: End) -> usize {
        if end == End::Client { self.pair.client } else { SERVER }
    }

    /// Time passes, and readers read now and then.
    pub(super) fn pass(&mut self, time: Duration) {
        const SLICE: Duration = Duration::from_millis(50);
        let end = self.pair.now() + time;
        while self.pair.now() < end {
            self.pair.run(end.since(self.pair.now()).min(SLICE));
            self.pump();
        }
    }

    fn outgoing(&mut self, from: End, draft: &Draft) -> Outgoing {
        let stream = self.message_stream(from, draft.stream);
        Outgoing {
            tag: draft.tag.map(Tag),
            priority: draft.priority,
            ppid: draft.ppid.then(|| self.model.next()),
            lifetime: draft.lifetime,
            tracked: draft.tracked,
            confirm: draft.confirm,
            ..Outgoing::new(stream, draft.service, self.model.payload(draft.length))
        }
    }

    pub(super) fn send(&mut self, from: End, draft: &Draft) {
        let message = self.outgoing(from, draft);
        let stream = message.stream;
        let now = self.pair.now();
        let room = self.pair.session(from).queue_room();
        match self.pair.try_send(from, message) {
            Ok(id) => self.model.on_sent(now, from, id, stream, draft),
            Err(SendError::QueueFull(back)) => {
                let full = room.0 == 0 || room.1 < draft.length.max(1) as u64;
                let unconfirmed = draft.confirm;
                assert!(full || unconfirmed, "refused with room for {room:?}: {} bytes", draft.length);
                assert_eq!(back.payload.len(), draft.length, "the message is handed back");
            }
            Err(error) => panic!("{from:?} cannot send: {error}"),
        }
    }

    fn replace(&mut self, from: End, tag: u64, draft: Draft) {
        let draft = Draft { tag: Some(tag), ..draft };
        let message = self.outgoing(from, &draft);
        let stream = message.stream;
        let now = self.pair.now();
        match self.pair.session(from).replace(now, stream, Tag(tag), message) {
            Ok(id) => {
                self.model.on_sent(now, from, id, stream, &draft);
                self.model.on_replace(now, from, stream, tag);
            }
            Err(SendError::QueueFull(_)) => {}
            Err(error) => panic!("{from:?} cannot replace: {error}"),
        }
    }

    fn open(&mut self, from: End, kind: StreamKind) {
        if kind == StreamKind::Messages && self.desk(from).opened >= MESSAGE_STREAMS {
            return;
        }
        match self.pair.session(from).open_stream(kind) {
            Ok(stream) if kind == StreamKind::Messages => {
                self.desk(from).opened += 1;
                self.desk(from).messages.push(stream);
            }
            Ok(stream) => {
                self.coverage.streams += 1;
                self.desk(from).bytes.push(stream);
            }
            Err(OpenError::Limit) => {}
            Err(error) => panic!("{from:?} cannot open a stream: {error}"),
        }
    }

    fn open_messages(&mut self, from: End, options: StreamOptions) {
        if self.desk(from).opened >= MESSAGE_STREAMS {
            return;
        }
        let Ok(stream) = self.pair.session(from).open_messages(options) else { return };
        self.model.on_opened(from, stream, &options);
        self.desk(from).opened += 1;
        self.desk(from).messages.push(stream);
        if matches!(options.credit, CreditPolicy::Latest { .. }) {
            self.desk(from).claimed.insert(stream);
        }
    }

    fn set_options(&mut self, at: End, nth: u32, options: StreamOptions) {
        let stream = self.message_stream(at, nth);
        if stream != StreamId(0) && self.pair.session(at).claim_stream(stream) {
            self.desk(at).claimed.insert(stream);
        }
        // Who opened it has said that.
        let before = self.pair.session(at).stream_options(stream).expect("it is open");
        let options = StreamOptions { cross_sequencing: before.cross_sequencing, ..options };
        match self.pair.session(at).set_stream_options(stream, options) {
            Ok(()) => self.model.on_options(at, stream, &options),
            Err(error) => assert_eq!((error, stream), (StreamError::SharedInbox, StreamId(0))),
        }
    }

    fn write(&mut self, from: End, nth: u32, length: usize) {
        let Some(stream) = self.byte_stream(from, nth) else { return };
        let bytes = self.model.stream_bytes(from, stream, length);
        let now = self.pair.now();
        match self.pair.session(from).write(now, stream, bytes) {
            Ok(taken) => self.model.on_written(from, stream, taken),
            Err(StreamError::Ended | StreamError::Stopped(_) | StreamError::UnknownStream) => {
                self.model.check_ended(from, stream);
            }
            Err(error) => panic!("{from:?} cannot write: {error}"),
        }
    }

    // --- What comes out ---

    /// Hears and reads what there is.
    pub(super) fn pump(&mut self) {
        if !self.over && !self.away {
            let closed = End::BOTH.map(|end| self.pair.closed(end));
            assert_eq!(closed, [None, None], "nobody closed");
        }
        for end in End::BOTH {
            self.hear(end);
            if !self.away || self.pair.closed(end).is_none() {
                self.read(end);
                self.check_limits(end);
            }
        }
    }

    fn hear(&mut self, at: End) {
        let now = self.pair.now();
        for news in self.pair.news(at) {
            match news {
                SessionEvent::Outcome(id, outcome) => self.model.on_outcome(now, at, id, outcome, self.over),
                SessionEvent::StreamOpened(stream, StreamKind::Messages) if stream != StreamId(0) => {
                    self.desk(at).messages.push(stream);
                }
                SessionEvent::StreamOpened(stream, StreamKind::Bytes) => self.desk(at).bytes.push(stream),
                SessionEvent::StreamStopped(stream, code) => self.model.on_stopped(at, stream, code),
                _ => {}
            }
        }
    }

    fn read(&mut self, at: End) {
        let now = self.pair.now();
        let most = self.desk(at).most;
        let queues: Vec<Option<StreamId>> =
            self.desk(at).claimed.iter().copied().map(Some).chain([None]).collect();
        for queue in queues {
            for _ in 0..most {
                let Some(connection) = self.pair.try_connection(at) else { return };
                let session = connection.session();
                let message = match queue {
                    Some(stream) => session.recv_on(now, stream),
                    None => session.recv(now),
                };
                let Some(message) = message else {
                    self.desk(at).empty.insert(queue, now);
                    break;
                };
                let since = self.desk(at).empty.get(&queue).copied().unwrap_or_default();
                self.model.on_message(now, since, at, &message);
                if message.confirm {
                    self.pair.session(at).confirm(&message);
                    self.model.on_confirmed(&message);
                }
            }
        }
        for stream in self.desk(at).bytes.clone() {
            self.read_stream(at, stream, most);
        }
    }

    fn read_stream(&mut self, at: End, stream: StreamId, most: usize) {
        for _ in 0..most {
            if self.model.has_ended(at, stream) {
                return;
            }
            let Some(connection) = self.pair.try_connection(at) else { return };
            match connection.session().read(stream, 4_000) {
                Ok(Read::Data(bytes)) => self.model.on_stream_data(at, stream, &bytes),
                Ok(Read::Finished) => self.model.on_stream_end(at, stream),
                Ok(Read::Reset(code)) => self.model.on_stream_reset(at, stream, code),
                Ok(Read::Blocked) => return,
                Err(error) => panic!("{at:?} cannot read {stream:?}: {error}"),
            }
        }
    }

    fn check_limits(&mut self, at: End) {
        let config = self.config.session;
        let read = self.model.read_bytes(at);
        let Some(connection) = self.pair.try_connection(at) else { return };
        let stats = connection.session_ref().stats();
        // One message or write may exceed a limit that the others have not reached.
        const LONGEST: u64 = 65_000;
        let queue = stats.queue_bytes;
        let urgent = URGENT_BEYOND as u64 * URGENT_LEN;
        assert!(queue <= config.send_queue_bytes + LONGEST * 5 + urgent, "{queue} bytes in the send queue");
        let most = config.send_queue_messages + 5 + URGENT_BEYOND;
        assert!(stats.queue_messages <= most, "{} queued", stats.queue_messages);
        let unread = stats.received_bytes.saturating_sub(read + stats.discarded_bytes);
        let latest = self.model.latest_streams(at) * (config.stream_window.max(262_144) + LONGEST);
        let most = config.session_window.max(262_144) + LONGEST + latest;
        assert!(unread <= most, "{unread} bytes unread");
        if self.second {
            self.check_openings(at);
        }
    }

    /// Challenges, their answers and SACKs are short.
    fn check_openings(&mut self, at: End) {
        const SHORT: u64 = 400;
        let paths = self.pair.stats(at).paths;
        for path in paths.iter().filter(|path| path.state == PathState::Opening) {
            let (packets, bytes) = (path.sent_packets, path.sent_bytes);
            assert!(
                bytes <= packets * SHORT,
                "{at:?}: {bytes} bytes in {packets} packets before {:?} is proven",
                path.id
            );
        }
    }

    // --- The end ---

    fn finale(&mut self, finale: Finale) {
        let mut heard: BTreeSet<End> = End::BOTH.into();
        match finale {
            Finale::Rest => {
                self.rest();
                self.count();
                let discarded = self.discarded();
                self.model.check(true, &heard, &discarded);
                self.over = true;
                self.pair.close(End::Client, 5, "rest");
                self.end(Duration::from_secs(2), |run| {
                    let reasons = End::BOTH.map(|end| run.pair.closed(end));
                    let [Some(CloseReason::Local), Some(CloseReason::Peer(reason))] = reasons else {
                        panic!("a polite close ends otherwise: {reasons:?}")
                    };
                    assert_eq!((reason.code, reason.text.as_str()), (5, "rest"));
                });
                return;
            }
            Finale::Close(_) | Finale::Cross => {
                self.ease();
                self.over = true;
                for end in End::BOTH {
                    if finale == Finale::Cross || finale == Finale::Close(end) {
                        self.pair.close(end, 6, "close");
                    }
                }
                let begin = self.pair.now();
                self.end(self.config.close_timeout + Duration::from_secs(5), |_| {});
                // A polite close delivers what was queued, unless patience ran out.
                let ends = End::BOTH.map(|end| self.pair.timed_events(end).last().map(|(at, _)| *at));
                let in_time = begin + self.config.close_timeout;
                let discarded = self.discarded();
                self.model.check(ends.iter().all(|at| at.is_some_and(|at| at < in_time)), &heard, &discarded);
                return;
            }
            Finale::Abort(end) => {
                self.over = true;
                let now = self.pair.now();
                self.pair.connection(end).abort(now, 8, "abort");
                // If its last packet is lost and the peer has nothing to say, only silence tells.
                self.end(self.patience(), |_| {});
            }
            Finale::Kill(end) => {
                // What is read now is all that will be.
                self.over = true;
                heard.remove(&end);
                let (node, _) = self.pair.place(end).expect("it is there");
                self.count();
                self.pair.world.kill(node);
                self.end(self.patience(), |run| {
                    let why = run.pair.closed(end.other());
                    assert_eq!(why, Some(CloseReason::TimedOut));
                });
            }
            Finale::Restart => {
                self.over = true;
                heard.remove(&End::Server);
                self.pair.world.restart_server();
                self.restore_networks();
                // Of a connection that the server made, the client has no token by which to hear of it.
                let soon = self.config.keep_alive.unwrap_or_default() + Duration::from_secs(5);
                let limit = if self.coverage.resumed > 0 { self.patience() } else { soon };
                self.end(limit, |run| {
                    let why = run.pair.closed(End::Client);
                    assert_eq!(why, Some(CloseReason::PeerRestarted));
                });
            }
        }
        let discarded = self.discarded();
        // What the vanished end was owed or had asked is nobody's concern.
        if heard.len() == End::BOTH.len() {
            self.model.check(false, &heard, &discarded);
        }
    }

    /// As long as a session may last of which nobody hears any more.
    fn patience(&self) -> Duration {
        self.config.idle_timeout + self.config.reattach.unwrap_or_default() + Duration::from_secs(5)
    }

    pub(super) fn restore_links(&mut self) {
        self.pair.relink(GOOD);
        if self.second {
            self.relink_second(GOOD, GOOD);
        }
    }

    /// Every link is good, and everybody has every address.
    fn restore_networks(&mut self) {
        self.restore_links();
        if self.second {
            for node in [self.pair.client, SERVER] {
                self.pair.world.set_up(node, 1);
            }
            self.announce();
        }
    }

    /// The links are good, everybody reads, nothing is capped or costs too much.
    fn ease(&mut self) {
        self.values.values_mut().flatten().for_each(|(cost, _)| *cost = (*cost).min(DEAR));
        self.restore_networks();
        let now = self.pair.now();
        for (from, stream, tag) in self.model.tags() {
            let settings = TagSettings::default();
            self.pair.session(from).tag_settings(now, stream, Tag(tag), settings).expect("it exists");
            self.model.on_settings(from, stream, tag, settings);
        }
        for end in End::BOTH {
            self.desk(end).most = 100_000;
        }
        // Where a NAT rebound, only what the client says shows the server where it is now.
        self.send(End::Client, &Draft::plain(100));
    }

    /// Everything there is comes to its end.
    fn rest(&mut self) {
        self.ease();
        let now = self.pair.now();
        let until = now + REST;
        while !self.is_at_rest() {
            assert!(self.pair.now() < until, "stalled: {:?} {:?}", self.state(), self.model.unquiet());
            self.pair.run(Duration::from_millis(20));
            self.pump();
        }
        let [client, server] = End::BOTH.map(|end| self.pair.session(end).credit_used());
        assert_eq!((client.0, server.0), (server.1, client.1), "both ends agree on credit");
    }

    /// In few words, for a complaint.
    fn state(&mut self) -> Vec<String> {
        let words = End::BOTH.map(|end| {
            let (session, now) = (self.pair.session(end).stats(), self.pair.now());
            let stats = self.pair.connection(end).stats(now);
            let path = stats.paths[0];
            format!(
                "{end:?}: dropped {:?}, keys {}, {} sent in {} packets, {} lost, {} queued, {} outstanding, {} unread, in flight {}, silent {:?}, {:?}",
                stats.dropped,
                stats.key_updates,
                session.total.sent_bytes,
                path.sent_packets,
                path.lost_packets,
                session.queue_messages,
                session.outstanding,
                session.unread,
                path.in_flight,
                stats.silent_for,
                path.congestion
            )
        });
        words.into()
    }

    fn is_at_rest(&mut self) -> bool {
        self.model.open() == 0
            && self.model.streams_are_quiet()
            && End::BOTH.into_iter().all(|end| {
                let connection = self.pair.connection(end);
                let idle = connection.is_idle();
                let session = connection.session();
                idle && !session.wants_to_send() && session.is_drained() && session.stats().unread == 0
            })
    }

    fn discarded(&mut self) -> BTreeMap<End, u64> {
        let ends = End::BOTH.into_iter();
        ends.filter_map(|end| Some((end, self.pair.try_connection(end)?.session_ref().stats().discarded)))
            .collect()
    }

    /// Both ends (those that are left) end within `limit`, tell so once and last, and free everything.
    fn end(&mut self, limit: Duration, check: impl FnOnce(&mut Self)) {
        for end in End::BOTH {
            self.desk(end).most = 100_000;
        }
        let begin = self.pair.now();
        let mut left = Vec::new();
        for end in End::BOTH {
            if self.pair.try_connection(end).is_some() {
                left.push(end);
            }
        }
        while !left.iter().all(|end| self.pair.closed(*end).is_some()) {
            if self.pair.now() >= begin + limit {
                let events = End::BOTH
                    .map(|end| self.pair.timed_events(end).into_iter().rev().take(4).collect::<Vec<_>>());
                let state = if left.len() == End::BOTH.len() { self.state() } else { Vec::new() };
                panic!("no end after {limit:?}: {state:?} {events:?}");
            }
            self.pair.run(Duration::from_millis(100));
            self.pump();
        }
        self.pump();
        self.count();
        check(self);
        let drained = |time: Time| time + Duration::from_secs(20);
        let until = drained(self.pair.now());
        while self.pair.now() < until {
            self.pair.run(Duration::from_secs(1));
        }
        for end in left {
            let events = self.pair.events(end);
            let ends = events.iter().filter(|event| matches!(event, Event::Closed(_))).count();
            assert_eq!(ends, 1, "{end:?}: {events:?}");
            assert!(matches!(events.last(), Some(Event::Closed(_))), "Closed is last: {events:?}");
            let node = if end == End::Client { self.pair.client } else { SERVER };
            let connections = self.pair.world.endpoint(node).connections();
            assert_eq!(connections, 0, "{end:?} still holds ids");
        }
    }

    /// Notes what there was.
    fn count(&mut self) {
        let (sent, delivered) = self.model.counts();
        self.coverage.sent = sent;
        self.coverage.delivered = delivered;
        self.coverage.outcomes = self.model.outcomes().clone();
        (self.coverage.packets, self.coverage.lost, self.coverage.key_updates) = (0, 0, 0);
        for end in End::BOTH {
            if self.pair.try_connection(end).is_none() {
                continue;
            }
            let stats = self.pair.stats(end);
            self.coverage.packets += stats.paths[0].sent_packets;
            self.coverage.lost += stats.paths[0].lost_packets;
            self.coverage.key_updates += stats.key_updates;
        }
        let ups = self.pair.events(End::Server);
        self.coverage.paths = ups.iter().filter(|event| matches!(event, Event::PathUp(_))).count() as u64;
        let count =
            |events: &[Event], is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count() as u64;
        let moved = |event: &Event| matches!(event, Event::PeerAddressChanged { .. });
        let changed = |event: &Event| matches!(event, Event::PrimaryChanged(_));
        let [client, server] = End::BOTH.map(|end| self.pair.events(end));
        self.coverage.moves = count(&server, moved);
        self.coverage.server_moves = count(&client, moved);
        self.coverage.changeovers = count(&client, changed) + count(&server, changed);
        if self.coverage.paths > 0 {
            let config = &self.config;
            let drawn = [
                format!("{:?}", config.scheduler),
                format!("{:?}", config.primary_rule),
                format!("{:?}", config.cost_policy),
            ];
            self.coverage.drawn = drawn.map(|drawn| (drawn, 1)).into();
        }
    }
}
