//! The model: what was requested, what resulted, and whether they match.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{CreditPolicy, Message, Outcome, StreamOptions, TagSettings};
use whimbrel_proto::{MessageId, Service, StreamId, Tag, Time};

use super::draft::Draft;
use crate::pair::End;

/// The longest time in flight over the worst of the links. A packet sent before a deadline may arrive this much after
/// it.
const LONGEST_JOURNEY: Duration = Duration::from_secs(2);

/// A message that was sent.
#[derive(Debug)]
struct Sent {
    from: End,
    stream: StreamId,
    service: Service,
    tag: Option<u64>,
    priority: u8,
    length: usize,
    ppid: bool,
    tracked: bool,
    confirm: bool,
    expires: Option<Time>,
    /// The places in the order that it may have: its own, and that of a message it replaced.
    place: (u64, u64),
    cancelled: bool,
    replaced: bool,
    /// When it was cancelled or replaced.
    given_up: Option<Time>,
    outcome: Option<Outcome>,
    delivered: Option<Time>,
    confirmed: bool,
}

impl Sent {
    /// Returns whether it will have an outcome before the end. A message that may be discarded unread may never be
    /// confirmed.
    fn is_promised(&self) -> bool {
        !self.confirm || self.service.is_reliable()
    }
}

/// One direction of a byte stream.
#[derive(Debug, Default)]
struct Flow {
    written: u64,
    finished: bool,
    reset: Option<u64>,
    read: u64,
    stopped: Option<u64>,
    ended: bool,
}

/// The model; see the module documentation.
#[derive(Debug, Default)]
pub struct Model {
    sent: Vec<Sent>,
    ids: BTreeMap<(End, MessageId), u32>,
    settings: BTreeMap<(End, StreamId, u64), TagSettings>,
    flows: BTreeMap<(StreamId, End), Flow>,
    /// The openings of byte streams by stream and opener, and whether the other end received each.
    openings: BTreeMap<(StreamId, End), (Vec<u8>, bool)>,
    /// The latest place delivered in each order domain.
    last: BTreeMap<(End, StreamId, usize), u64>,
    cross_sequencing: bool,
    /// Streams whose cross-sequencing differs from the session's setting at an end; false also where it is not known.
    crossed: BTreeMap<(End, StreamId), bool>,
    /// The priority of messages that have the default one.
    priorities: BTreeMap<(End, StreamId), u8>,
    /// Streams of which an end kept only the latest messages at some time.
    latest: BTreeSet<(End, StreamId)>,
    /// Tracked messages without an outcome.
    open: usize,
    read_bytes: BTreeMap<End, u64>,
    outcomes: BTreeMap<Outcome, u64>,
    /// The longest time for which an attacker kept a packet that was finally delivered.
    held: Duration,
}

impl Model {
    /// Creates the model of a session whose streams are cross-sequenced or not.
    pub fn new(cross_sequencing: bool) -> Self {
        Self { cross_sequencing, ..Self::default() }
    }

    /// The payload of the next message to be sent.
    pub fn payload(&self, length: usize) -> Bytes {
        payload(self.sent.len() as u32, length).into()
    }

    /// The number of the next message to be sent, for its PPID.
    pub fn next(&self) -> u32 {
        self.sent.len() as u32
    }

    /// Notes that a message was accepted for sending.
    pub fn on_sent(&mut self, now: Time, from: End, id: MessageId, stream: StreamId, draft: &Draft) {
        let settings = draft.tag.and_then(|tag| self.settings.get(&(from, stream, tag))).copied();
        let settings = settings.unwrap_or_default();
        let lifetime = draft.lifetime.or(settings.lifetime);
        let priority = match settings.priority {
            Some(priority) if draft.priority == 100 => priority,
            _ => draft.priority,
        };
        let priority = match self.priorities.get(&(from, stream)) {
            Some(set) if priority == 100 => *set,
            _ => priority,
        };
        let number = self.sent.len() as u32;
        self.sent.push(Sent {
            from,
            stream,
            service: draft.service,
            tag: draft.tag,
            priority,
            length: draft.length,
            ppid: draft.ppid,
            tracked: draft.tracked,
            confirm: draft.confirm,
            expires: lifetime.map(|lifetime| now + lifetime),
            place: (number.into(), number.into()),
            cancelled: false,
            replaced: false,
            given_up: None,
            outcome: None,
            delivered: None,
            confirmed: false,
        });
        let before = self.ids.insert((from, id), number);
        assert!(before.is_none(), "{from:?}: {id:?} was given twice");
        self.open += usize::from(draft.tracked && self.sent[number as usize].is_promised());
    }

    fn unresolved(&mut self, from: End, stream: StreamId, tag: u64) -> impl Iterator<Item = &mut Sent> {
        self.sent.iter_mut().filter(move |sent| {
            sent.from == from && sent.stream == stream && sent.tag == Some(tag) && sent.outcome.is_none()
        })
    }

    /// Notes that all messages of a tag were cancelled.
    pub fn on_cancel(&mut self, now: Time, from: End, stream: StreamId, tag: u64) {
        for sent in self.unresolved(from, stream, tag) {
            sent.cancelled = true;
            sent.given_up.get_or_insert(now);
        }
    }

    /// Notes that the message sent last replaces earlier ones with its tag.
    pub fn on_replace(&mut self, now: Time, from: End, stream: StreamId, tag: u64) {
        let Some(mut newest) = self.sent.pop() else { return };
        for old in self.unresolved(from, stream, tag) {
            old.replaced = true;
            old.given_up.get_or_insert(now);
            newest.place.0 = newest.place.0.min(old.place.0);
        }
        self.sent.push(newest);
    }

    /// Notes the settings of a tag.
    pub fn on_settings(&mut self, from: End, stream: StreamId, tag: u64, settings: TagSettings) {
        self.settings.insert((from, stream, tag), settings);
    }

    /// All tags that have settings.
    pub fn tags(&self) -> Vec<(End, StreamId, u64)> {
        self.settings.keys().copied().collect()
    }

    /// Notes that a stream was opened with options.
    pub fn on_opened(&mut self, from: End, stream: StreamId, options: &StreamOptions) {
        if let Some(cross) = options.cross_sequencing {
            self.crossed.insert((from, stream), cross);
            // The other end follows only what it has seen by then, so nothing beyond the order of each service is
            // guaranteed.
            self.crossed.insert((from.other(), stream), false);
        }
        self.on_options(from, stream, options);
    }

    /// Notes new options of a stream at an end.
    pub fn on_options(&mut self, at: End, stream: StreamId, options: &StreamOptions) {
        self.priorities.insert((at, stream), options.priority);
        if matches!(options.credit, CreditPolicy::Latest { .. }) {
            self.latest.insert((at, stream));
        }
    }

    /// The number of streams that keep only the latest. Each may have a window of unread bytes beyond the session's.
    pub fn latest_streams(&self, at: End) -> u64 {
        self.latest.iter().filter(|(end, _)| *end == at).count() as u64
    }

    /// Checks a message that was read and had arrived after `since`.
    pub fn on_message(&mut self, now: Time, since: Time, at: End, message: &Message) {
        *self.read_bytes.entry(at).or_default() += message.payload.len() as u64;
        let in_payload = message.payload.first_chunk().map(|number| u32::from_be_bytes(*number));
        let number = message.ppid.or(in_payload).expect("a message has its number");
        let from = at.other();
        let place = {
            let sent = self.sent.get_mut(number as usize).filter(|sent| sent.from == from);
            let sent = sent.unwrap_or_else(|| panic!("{at:?} got a message nobody sent: {message:?}"));
            assert!(
                message.payload == payload(number, sent.length),
                "message {number} was changed: {} bytes of {}",
                message.payload.len(),
                sent.length
            );
            let told = (message.stream, message.service, message.tag, message.priority, message.confirm);
            let right = (sent.stream, sent.service, sent.tag.map(Tag), sent.priority, sent.confirm);
            assert_eq!(told, right, "what is said of message {number}");
            assert_eq!(message.ppid.is_some(), sent.ppid, "PPID of message {number}");
            assert_eq!(sent.delivered, None, "message {number} was delivered twice: {sent:?}");
            sent.delivered = Some(now);
            // A sequenced message may have waited behind a gap.
            let ends = [sent.expires, sent.given_up].into_iter().flatten().min();
            let ends = ends.filter(|_| !sent.service.is_sequenced());
            assert!(
                ends.is_none_or(|end| since <= end + LONGEST_JOURNEY + self.held),
                "message {number} was sent on after its end: {sent:?}"
            );
            sent.place
        };
        if message.service.is_sequenced() {
            let crossed = self.crossed.get(&(from, message.stream)).copied();
            let domain = if crossed.unwrap_or(self.cross_sequencing) { 0 } else { message.service.index() };
            let last = self.last.entry((at, message.stream, domain)).or_default();
            *last = place.0.max(*last);
            assert!(*last <= place.1, "message {number} came after {last}, which was sent later");
        }
    }

    /// Notes that a message was confirmed.
    pub fn on_confirmed(&mut self, message: &Message) {
        let in_payload = message.payload.first_chunk().map(|number| u32::from_be_bytes(*number));
        if let Some(number) = message.ppid.or(in_payload) {
            self.sent[number as usize].confirmed = true;
        }
    }

    /// Checks an outcome that the sender was told.
    pub fn on_outcome(&mut self, now: Time, at: End, id: MessageId, outcome: Outcome, over: bool) {
        let number = *self.ids.get(&(at, id)).expect("an outcome is of a message that was sent");
        let sent = &mut self.sent[number as usize];
        assert!(sent.tracked, "nobody asked what became of message {number}");
        assert_eq!(sent.outcome, None, "message {number} has a second outcome, {outcome:?}: {sent:?}");
        sent.outcome = Some(outcome);
        self.open -= usize::from(sent.is_promised());
        *self.outcomes.entry(outcome).or_default() += 1;
        let reason = match outcome {
            Outcome::Delivered => !sent.confirm,
            Outcome::Taken => sent.confirmed,
            Outcome::Expired => sent.expires.is_some_and(|at| at <= now),
            Outcome::Cancelled => sent.cancelled,
            Outcome::Replaced => sent.replaced,
            Outcome::Lost => !sent.service.is_reliable(),
            Outcome::Unknown => over,
        };
        assert!(reason, "message {number} has no reason to be {outcome:?} at {now:?}: {sent:?}");
    }

    /// Returns whether the message with this number was read.
    pub fn is_delivered(&self, number: u32) -> bool {
        self.sent.get(number as usize).is_some_and(|sent| sent.delivered.is_some())
    }

    /// Notes that a packet is delivered that an attacker kept for this long.
    pub fn on_held(&mut self, time: Duration) {
        self.held = self.held.max(time);
    }

    /// The number of tracked messages without an outcome.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The payload bytes of messages that an end has read.
    pub fn read_bytes(&self, at: End) -> u64 {
        self.read_bytes.get(&at).copied().unwrap_or_default()
    }

    /// Outcomes by their kind.
    pub fn outcomes(&self) -> &BTreeMap<Outcome, u64> {
        &self.outcomes
    }

    /// The numbers of messages sent and delivered.
    pub fn counts(&self) -> (u64, u64) {
        let delivered = self.sent.iter().filter(|sent| sent.delivered.is_some()).count();
        (self.sent.len() as u64, delivered as u64)
    }

    // --- Byte streams ---

    /// The next bytes to write to a stream.
    pub fn stream_bytes(&self, from: End, stream: StreamId, length: usize) -> Bytes {
        let offset = self.flows.get(&(stream, from)).map_or(0, |flow| flow.written);
        stream_bytes(stream, from, offset, length).into()
    }

    /// An opening that differs from those of all other streams.
    pub fn opening(&self, length: usize) -> Vec<u8> {
        pattern(&STEPS_29, self.openings.len() as u8, 7, length)
    }

    /// Notes that a stream was opened with this opening.
    pub fn on_opened_with(&mut self, from: End, stream: StreamId, opening: Vec<u8>) {
        self.openings.insert((stream, from), (opening, false));
    }

    /// Checks the opening that the other end received when it accepted a stream.
    pub fn on_opening(&mut self, at: End, stream: StreamId, opening: Option<&[u8]>) {
        let from = at.other();
        let given_up = self.is_given_up(from, stream);
        let Some((right, shown)) = self.openings.get_mut(&(stream, from)) else {
            assert_eq!(opening, None, "{stream:?} was opened without");
            return;
        };
        if std::mem::replace(shown, true) {
            // A session restored from bytes reports its streams again.
            assert_eq!(opening, None, "the opening of {stream:?} was shown twice");
            return;
        }
        assert!(
            opening == Some(&right[..]) || (opening.is_none() && given_up),
            "the opening of {stream:?}: {opening:?}"
        );
    }

    fn is_given_up(&self, from: End, stream: StreamId) -> bool {
        let flow = self.flows.get(&(stream, from));
        flow.is_some_and(|flow| flow.reset.is_some() || flow.stopped.is_some())
    }

    /// Checks the report that the peer has everything written.
    pub fn on_stream_delivered(&mut self, at: End, stream: StreamId) {
        let flow = self.flow(at, stream);
        assert!(flow.finished, "{stream:?} is said to be delivered and goes on: {flow:?}");
    }

    fn flow(&mut self, from: End, stream: StreamId) -> &mut Flow {
        self.flows.entry((stream, from)).or_default()
    }

    /// Notes that this many bytes were accepted for writing.
    pub fn on_written(&mut self, from: End, stream: StreamId, length: usize) {
        let flow = self.flow(from, stream);
        assert!(!flow.finished && flow.reset.is_none(), "written after the end of {stream:?}");
        flow.written += length as u64;
    }

    /// Notes that the direction was finished.
    pub fn on_finished(&mut self, from: End, stream: StreamId) {
        self.flow(from, stream).finished = true;
    }

    /// Notes that the direction was reset.
    pub fn on_reset(&mut self, from: End, stream: StreamId, code: u64) {
        self.flow(from, stream).reset = Some(code);
    }

    /// Notes that the reader stopped the stream.
    pub fn on_stop(&mut self, at: End, stream: StreamId, code: u64) {
        self.flow(at.other(), stream).stopped = Some(code);
    }

    /// Checks the report to the writer that the stream was stopped.
    pub fn on_stopped(&mut self, at: End, stream: StreamId, code: u64) {
        assert_eq!(self.flow(at, stream).stopped, Some(code), "{stream:?} was not stopped so");
    }

    /// Checks that the direction has ended, since writing was refused.
    pub fn check_ended(&mut self, from: End, stream: StreamId) {
        let flow = self.flow(from, stream);
        let ended = flow.finished || flow.reset.is_some() || flow.stopped.is_some();
        assert!(ended, "{from:?} cannot write to {stream:?}, which did not end: {flow:?}");
    }

    /// Checks bytes that were read.
    pub fn on_stream_data(&mut self, at: End, stream: StreamId, bytes: &[u8]) {
        let from = at.other();
        let flow = self.flow(from, stream);
        let offset = flow.read;
        flow.read += bytes.len() as u64;
        assert!(flow.read <= flow.written, "{stream:?} has more than was written");
        let right = stream_bytes(stream, from, offset, bytes.len());
        let differs = || bytes.iter().zip(&right).position(|(byte, right)| byte != right);
        assert!(bytes == right, "{stream:?} at {offset} + {:?}", differs());
    }

    /// Checks the report to the reader that everything was read.
    pub fn on_stream_end(&mut self, at: End, stream: StreamId) {
        let flow = self.flow(at.other(), stream);
        assert!(flow.finished && flow.read == flow.written, "{stream:?} ended early: {flow:?}");
        flow.ended = true;
    }

    /// Checks the report to the reader that the writer reset the stream.
    pub fn on_stream_reset(&mut self, at: End, stream: StreamId, code: u64) {
        let flow = self.flow(at.other(), stream);
        let right = [flow.reset, flow.stopped].contains(&Some(code));
        assert!(right, "{stream:?} was not reset with {code}: {flow:?}");
        flow.ended = true;
    }

    /// Returns whether the stream has ended for the reader.
    pub fn has_ended(&mut self, at: End, stream: StreamId) -> bool {
        let flow = self.flow(at.other(), stream);
        flow.ended || flow.stopped.is_some()
    }

    /// Returns whether everything written was read and ends were reported.
    pub fn streams_are_quiet(&self) -> bool {
        self.flows.values().all(|flow| {
            flow.ended
                || flow.stopped.is_some()
                || (flow.read == flow.written && !flow.finished && flow.reset.is_none())
        })
    }

    /// The streams and messages that are not at rest, for an error message.
    pub fn unquiet(&self) -> Vec<String> {
        let flows = self.flows.iter().filter(|(_, flow)| !flow.ended && flow.stopped.is_none());
        let flows = flows.filter(|(_, flow)| flow.read != flow.written || flow.finished);
        let flows = flows.map(|(name, flow)| format!("{name:?}: {flow:?}"));
        let open = self
            .sent
            .iter()
            .enumerate()
            .filter(|(_, sent)| sent.tracked && sent.is_promised() && sent.outcome.is_none());
        flows.chain(open.map(|(number, sent)| format!("{number}: {sent:?}"))).take(8).collect()
    }

    /// The bytes that may still have to go from one end to the other; the larger number of both directions.
    pub fn undelivered(&self) -> u64 {
        let bytes = |from: End| {
            let sent = self.sent.iter().filter(|sent| sent.from == from);
            let messages = sent.filter(|sent| sent.outcome.is_none() && sent.delivered.is_none());
            let flows = self.flows.iter().filter(|((_, at), _)| *at == from).map(|(_, flow)| flow);
            messages.map(|sent| sent.length as u64).sum::<u64>()
                + flows.map(|flow| flow.written.saturating_sub(flow.read)).sum::<u64>()
        };
        End::BOTH.into_iter().map(bytes).max().unwrap_or_default()
    }

    fn unheard(&self, at: End) -> Vec<(usize, &Sent)> {
        let claims = |sent: &Sent| {
            sent.from != at
                && matches!(sent.outcome, Some(Outcome::Delivered | Outcome::Taken))
                && sent.delivered.is_none()
        };
        self.sent.iter().enumerate().filter(|(_, sent)| claims(sent)).collect()
    }

    // --- At the end ---

    /// Compares the outcome of every message with what the receiver got. `alive` says that the session came to rest
    /// before it ended. `heard` holds the ends whose inbox was read to its end. `discarded` counts for each end the
    /// messages that it discarded for newer ones.
    pub fn check(&self, alive: bool, heard: &BTreeSet<End>, discarded: &BTreeMap<End, u64>) {
        let mut claimed = BTreeMap::<End, u64>::new();
        for (number, sent) in self.sent.iter().enumerate() {
            let at = sent.from.other();
            let complain = |what: &str| panic!("message {number} {what}: {sent:?}");
            match sent.outcome {
                Some(Outcome::Delivered | Outcome::Taken)
                    if sent.delivered.is_none() && heard.contains(&at) =>
                {
                    if !alive && sent.service.is_sequenced() {
                        // The end came while it waited behind a gap.
                    } else if !sent.service.is_reliable() && self.latest.contains(&(at, sent.stream)) {
                        *claimed.entry(at).or_default() += 1;
                    } else {
                        complain("is said to be delivered and was not");
                    }
                }
                Some(Outcome::Expired | Outcome::Cancelled | Outcome::Replaced | Outcome::Lost)
                    if sent.delivered.is_some() =>
                {
                    complain("was delivered, and Delivered wins");
                }
                None if sent.tracked && sent.is_promised() => complain("has no outcome"),
                _ => {}
            }
            let certain =
                sent.service.is_reliable() && sent.expires.is_none() && !sent.cancelled && !sent.replaced;
            if alive && certain && sent.delivered.is_none() {
                complain("was lost");
            }
        }
        for (at, count) in claimed {
            let discarded = discarded.get(&at).copied().unwrap_or_default();
            assert!(
                count <= discarded,
                "{count} messages to {at:?} are said to be delivered and were not, {discarded} made room: {:?}",
                self.unheard(at)
            );
        }
        if alive {
            assert!(self.streams_are_quiet(), "{:?}", self.unquiet());
            for ((stream, from), (_, shown)) in &self.openings {
                assert!(
                    *shown || self.is_given_up(*from, *stream),
                    "nobody was shown the opening of {stream:?}"
                );
            }
        }
    }
}

/// A message's payload: its number, then a pattern that no other message has.
fn payload(number: u32, length: usize) -> Vec<u8> {
    let salt = (number.wrapping_mul(0x9e37_79b9) >> 24) as u8;
    let mut bytes = pattern(&STEPS_29, salt, 0, length);
    if let Some(head) = bytes.first_chunk_mut().filter(|_| length >= 8) {
        *head = number.to_be_bytes();
    }
    bytes
}

/// The bytes of a byte stream from an offset on.
fn stream_bytes(stream: StreamId, from: End, offset: u64, length: usize) -> Vec<u8> {
    let salt = stream.0.wrapping_mul(37) as u8 ^ if from == End::Client { 0 } else { 0x5a };
    pattern(&STEPS_31, salt, offset, length)
}

/// Multiples of a number, as far as a byte can distinguish them.
const fn steps(of: u8) -> [u8; 256] {
    let mut steps = [0; 256];
    let mut at = 0;
    while at < steps.len() {
        steps[at] = (at as u8).wrapping_mul(of);
        at += 1;
    }
    steps
}

static STEPS_29: [u8; 256] = steps(29);
static STEPS_31: [u8; 256] = steps(31);

/// Bytes that depend on their position: a run of `steps` for each 256, changed by the number of the run.
fn pattern(steps: &[u8; 256], salt: u8, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = offset + bytes.len() as u64;
        let salt = salt ^ (at >> 8) as u8 ^ (at >> 16) as u8;
        let rest = &steps[usize::from(at as u8)..];
        let run = &rest[..rest.len().min(length - bytes.len())];
        bytes.extend(run.iter().map(|step| step ^ salt));
    }
    bytes
}
