//! A run of operations: the connection they act on, and the model that is told of each.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use whimbrel_proto::session::{
    CreditPolicy, OpenError, Outgoing, SendError, StreamError, StreamKind, StreamOptions,
};
use whimbrel_proto::{StreamId, Tag, Time, TransportConfig};

use super::attacker::Attacker;
use super::coverage::Coverage;
use super::dice::Dice;
use super::draft::Draft;
use super::model::Model;
use super::operation::Operation;
use super::script::Script;
use super::special::Special;
use crate::pair::{End, Pair};

/// The number of message streams that an end opens.
const MESSAGE_STREAMS: usize = 4;
/// The payload length of the messages of a flood.
const FLOOD: u64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) messages: Vec<StreamId>,
    pub(super) bytes: Vec<StreamId>,
    pub(super) claimed: BTreeSet<StreamId>,
    opened: usize,
    /// The messages or pieces read each time.
    pub(super) most: usize,
    /// When each queue was last found empty: its contents arrived later.
    pub(super) empty: BTreeMap<Option<StreamId>, Time>,
    /// Byte streams that are not read, and until when.
    pub(super) stalled: BTreeMap<StreamId, Time>,
}

impl Desk {
    /// Notes that the contents of one queue moved to another.
    fn on_moved(&mut self, from: Option<StreamId>, to: Option<StreamId>) {
        let since = |queue| self.empty.get(&queue).copied().unwrap_or_default();
        self.empty.insert(to, since(from).min(since(to)));
    }
}

pub(super) struct Run {
    pub(super) pair: Pair,
    pub(super) model: Model,
    desks: BTreeMap<End, Desk>,
    pub(super) config: TransportConfig,
    pub(super) link: String,
    /// Whether there is a second network.
    pub(super) second: bool,
    /// For each end, cost and standby of paths from its address on each network.
    pub(super) values: BTreeMap<End, [(u32, bool); 2]>,
    /// Whether an end is suspended.
    pub(super) away: bool,
    pub(super) over: bool,
    /// The attacker on the path, if the run has one, and the server's double that gets its strays.
    pub(super) attacker: Option<Rc<RefCell<Attacker>>>,
    pub(super) sibling: usize,
    pub(super) coverage: Coverage,
}

/// Runs the decisions of the dice. Panics if the system and the model differ.
pub fn run(dice: &mut dyn Dice, seed: u64) -> Coverage {
    play(Script::draw(dice, seed))
}

/// Plays a run. Panics if the system and the model differ.
pub fn play(script: Script) -> Coverage {
    let mut run = Run::new(&script);
    if script.operations.iter().any(|operation| matches!(operation, Operation::Attack(_))) {
        run.watch();
    }
    for draft in &script.early {
        run.send(End::Client, draft);
    }
    run.settle(script.rebind);
    for operation in script.operations {
        run.coverage.operations += 1;
        run.perform(operation);
        run.pump();
    }
    run.finale(script.finale);
    run.coverage.digest = run.pair.world.digest();
    run.coverage
}

impl Run {
    fn new(script: &Script) -> Self {
        let config = script.settings.clone();
        let mut desks = BTreeMap::new();
        for end in End::BOTH {
            let desk = Desk { messages: vec![StreamId(0)], most: 10_000, ..Desk::default() };
            desks.insert(end, desk);
        }
        Self {
            pair: Pair::new(script.seed, config.clone(), &script.link),
            model: Model::new(config.session.cross_sequencing),
            desks,
            config,
            link: script.link.clone(),
            second: false,
            values: End::BOTH.map(|end| (end, [(0, false); 2])).into(),
            away: false,
            over: false,
            attacker: None,
            sibling: 0,
            coverage: Coverage::default(),
        }
    }

    /// Waits until both ends are connected; the client's NAT may rebind meanwhile.
    fn settle(&mut self, rebind: Option<Duration>) {
        let mut limit = Duration::from_secs(15);
        if let Some(after) = rebind {
            self.coverage.special(Special::RebindEarly);
            self.pair.run(after);
            let client = self.pair.client;
            self.pair.world.rebind(client);
            // If the server answered the old address, the client must first find that out.
            limit += Duration::from_secs(30);
        }
        assert!(self.pair.settle(limit), "no connection over {}", self.link);
    }

    pub(super) fn desk(&mut self, end: End) -> &mut Desk {
        self.desks.get_mut(&end).expect("both ends have one")
    }

    fn message_stream(&mut self, end: End, nth: u32) -> StreamId {
        let streams = &self.desk(end).messages;
        streams[nth as usize % streams.len()]
    }

    pub(super) fn byte_stream(&mut self, end: End, nth: u32) -> Option<StreamId> {
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
                    let desk = self.desk(at);
                    desk.claimed.insert(stream);
                    desk.on_moved(None, Some(stream));
                }
            }
            Operation::OpenWith { from, length } => self.open_with(from, length),
            Operation::Tune { at, stream, priority, window } => {
                let Some(stream) = self.byte_stream(at, stream) else { return };
                // A stream may be over and forgotten.
                let session = self.pair.session(at);
                let set = session.set_priority(stream, priority);
                assert_eq!(set, session.set_window(stream, window), "the same stream");
            }
            Operation::OpenMessages { from, options } => self.open_messages(from, options),
            Operation::Release { at, stream } => {
                let stream = self.message_stream(at, stream);
                self.pair.session(at).release_stream(stream);
                let desk = self.desk(at);
                if desk.claimed.remove(&stream) {
                    desk.on_moved(Some(stream), None);
                }
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
                for _ in 0..self.flood() {
                    self.send(from, &Draft::plain(FLOOD as usize));
                }
            }
            Operation::Relink { link } => {
                self.link = link;
                self.pair.relink(&self.link);
            }
            Operation::Down { time } => {
                self.end_silence(time);
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
            Operation::Stall { at, stream, length, time } => self.stall(at, stream, length, time),
            Operation::Abandon { at, stream, code } => self.abandon(at, stream, code),
            Operation::Attack(attack) => self.attack(&attack),
            Operation::Pass { time } => self.pass(time),
        }
    }

    /// The number of messages that exceed a small window, if there is one; filling a large one would take most of a
    /// run's time.
    fn flood(&self) -> u64 {
        let needed = self.config.session.session_window / FLOOD + 2;
        if needed > 9 { 2 } else { needed }
    }

    /// Lets time pass, with reads now and then.
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

    fn open_with(&mut self, from: End, length: usize) {
        let now = self.pair.now();
        let opening = self.model.opening(length);
        match self.pair.session(from).open_stream_with(now, &opening) {
            Ok(stream) => {
                self.coverage.streams += 1;
                self.model.on_opened_with(from, stream, opening);
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
        // Cross-sequencing is set by the end that opened the stream.
        let before = self.pair.session(at).stream_options(stream).expect("it is open");
        let options = options.cross_sequencing(before.cross_sequencing);
        match self.pair.session(at).set_stream_options(stream, options) {
            Ok(()) => self.model.on_options(at, stream, &options),
            Err(error) => assert_eq!((error, stream), (StreamError::SharedInbox, StreamId(0))),
        }
    }

    fn write(&mut self, from: End, nth: u32, length: usize) {
        if let Some(stream) = self.byte_stream(from, nth) {
            self.write_to(from, stream, length);
        }
    }

    pub(super) fn write_to(&mut self, from: End, stream: StreamId, length: usize) {
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
}
