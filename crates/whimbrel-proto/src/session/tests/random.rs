//! Random operations checked against a model outside the session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::{MessageId, Service, StreamId, Tag};

#[derive(Debug)]
struct Sent {
    side: usize,
    stream: StreamId,
    service: Service,
    /// Set if the message is tracked.
    id: Option<MessageId>,
    /// Whether the message may be given up.
    mortal: bool,
    confirm: bool,
    /// Whether the message may have taken the place of an older one.
    replacement: bool,
}

#[derive(Debug, Default)]
struct Model {
    sent: Vec<Sent>,
    tagged: BTreeMap<(usize, StreamId, Tag), Vec<usize>>,
    got: BTreeSet<u64>,
    last: BTreeMap<(usize, StreamId, Service), u64>,
    last_id: BTreeMap<(usize, StreamId, Service), u64>,
    last_cross: BTreeMap<(usize, StreamId), u64>,
    outcomes: [BTreeMap<MessageId, Outcome>; 2],
    streams: [Vec<StreamId>; 2],
    written: BTreeMap<(usize, StreamId), (u64, bool)>,
    read: BTreeMap<(usize, StreamId), (u64, bool)>,
    byte_streams: Vec<StreamId>,
}

impl Model {
    fn read(&mut self, pipe: &mut Pipe, cross: bool, seed: u64) {
        for side in 0..2 {
            let mut batch = std::collections::VecDeque::new();
            let now = pipe.now;
            pipe.ends[side].recv_many(now, &mut batch, 50);
            for message in batch {
                let number = number_of(&message);
                assert!(self.got.insert(number), "seed {seed}: {number} came twice");
                let sent = &self.sent[number as usize];
                assert_eq!(
                    (sent.side, sent.stream, sent.service),
                    (1 - side, message.stream, message.service)
                );
                if message.service.is_sequenced() {
                    let last = self.last_id.insert((side, message.stream, message.service), message.id);
                    assert!(last < Some(message.id), "seed {seed}: number {} after {last:?}", message.id);
                }
                if message.service.is_sequenced() && !sent.replacement {
                    let last = self.last.insert((side, message.stream, message.service), number);
                    assert!(last < Some(number), "seed {seed}: {number} after {last:?}");
                    if cross {
                        let last = self.last_cross.insert((side, message.stream), number);
                        assert!(last < Some(number), "seed {seed}: {number} after {last:?}, cross-sequenced");
                    }
                }
                if message.confirm {
                    pipe.ends[side].confirm(&message);
                }
            }
            while let Some(event) = pipe.ends[side].poll_event() {
                match event {
                    SessionEvent::Outcome(id, outcome) => {
                        let before = self.outcomes[side].insert(id, outcome);
                        assert_eq!(before, None, "seed {seed}: two outcomes of {id:?}");
                    }
                    SessionEvent::StreamOpened(id, StreamKind::Messages)
                        if !self.streams[side].contains(&id) =>
                    {
                        self.streams[side].push(id);
                    }
                    _ => {}
                }
            }
            for id in self.byte_streams.clone() {
                let entry = self.read.entry((side, id)).or_default();
                while let Ok(read) = pipe.ends[side].read(id, 3000) {
                    match read {
                        Read::Data(bytes) => {
                            for byte in &bytes {
                                assert_eq!(*byte, (entry.0 % 251) as u8, "seed {seed}");
                                entry.0 += 1;
                            }
                        }
                        Read::Finished => {
                            entry.1 = true;
                            break;
                        }
                        Read::Blocked => break,
                        Read::Reset(_) => panic!("nobody reset"),
                    }
                }
            }
        }
    }
}

/// Sends many small untracked messages of one kind.
fn send_burst(pipe: &mut Pipe, model: &mut Model, rng: &mut Rng, side: usize, stream: StreamId) {
    let service = Service::ALL[rng.below(4) as usize];
    let priority = if rng.chance(80) { 100 } else { rng.below(256) as u8 };
    let (longest, copied) = (8 + rng.below(120), rng.chance(50));
    for _ in 0..1 + rng.below(60) {
        let message = numbered(service, model.sent.len() as u64, rng.below(longest) as usize);
        let message = Outgoing { stream, priority, ..message };
        let taken = if copied {
            pipe.ends[side].send_copy(pipe.now, &message, &message.payload)
        } else {
            pipe.ends[side].send(pipe.now, message).is_ok()
        };
        if taken {
            let (id, mortal, confirm, replacement) = (None, false, false, false);
            model.sent.push(Sent { side, stream, service, id, mortal, confirm, replacement });
        }
    }
}

fn run(seed: u64, operations: u64, suspends: u64) {
    let mut rng = Rng(seed ^ 0x5eed);
    let cross = rng.chance(30);
    let config = SessionConfig {
        session_window: (262_144 << rng.below(4)) * rng.below(2),
        stream_window: 65_536 << rng.below(5),
        cross_sequencing: cross,
        send_queue_messages: 50 + rng.below(1000) as usize,
        ..SessionConfig::default()
    };
    let mut pipe = Pipe {
        loss: [0, 2, 10, 30][rng.below(4) as usize],
        spurious: rng.below(10),
        jitter: rng.below(12),
        mtu: 200 + rng.below(1300) as usize,
        window: 4 + rng.below(60) as usize,
        repeats: rng.below(3) as u8,
        ..Pipe::new(seed, config)
    };
    let mut model = Model { streams: [vec![StreamId(0)], vec![StreamId(0)]], ..Model::default() };
    for _ in 0..operations {
        let side = rng.below(2) as usize;
        let stream = model.streams[side][rng.below(model.streams[side].len() as u64) as usize];
        if suspends > 0 && rng.chance(suspends) {
            pipe.suspend(1 + rng.below(3), Duration::from_millis(rng.below(200)));
        }
        let now = pipe.now;
        match rng.below(100) {
            0..10 => send_burst(&mut pipe, &mut model, &mut rng, side, stream),
            10..60 => {
                let number = model.sent.len() as u64;
                let size = match rng.below(20) {
                    0 => rng.below(60_000),
                    1..4 => rng.below(3000),
                    _ => rng.below(150),
                } as usize;
                let service = Service::ALL[rng.below(4) as usize];
                let tag = rng.chance(30).then(|| Tag(rng.below(4)));
                let lifetime = rng.chance(15).then(|| Duration::from_millis(rng.below(80)));
                let priority = if rng.chance(80) { 100 } else { rng.below(256) as u8 };
                let confirm = rng.chance(5);
                let message = Outgoing {
                    stream,
                    tag,
                    lifetime,
                    priority,
                    tracked: true,
                    confirm,
                    ..numbered(service, number, size)
                };
                let replace = tag.is_some() && rng.chance(20);
                let result = match tag {
                    Some(tag) if replace => pipe.ends[side].replace(now, stream, tag, message),
                    _ => pipe.ends[side].send(now, message),
                };
                match result {
                    Ok(id) => {
                        if let Some(tag) = tag {
                            let group = model.tagged.entry((side, stream, tag)).or_default();
                            if replace {
                                group.drain(..).for_each(|old| model.sent[old].mortal = true);
                            }
                            group.push(model.sent.len());
                        }
                        model.sent.push(Sent {
                            side,
                            stream,
                            service,
                            id: Some(id),
                            mortal: lifetime.is_some(),
                            confirm,
                            replacement: replace,
                        });
                    }
                    Err(SendError::QueueFull(_)) => {}
                    Err(other) => panic!("seed {seed}: {other}"),
                }
            }
            60..65 => {
                let tag = Tag(rng.below(4));
                pipe.ends[side].cancel(now, stream, tag);
                let group = model.tagged.entry((side, stream, tag)).or_default();
                group.drain(..).for_each(|old| model.sent[old].mortal = true);
            }
            65..68 => {
                if let Ok(id) = pipe.ends[side].open_stream(StreamKind::Messages) {
                    model.streams[side].push(id);
                }
            }
            68..70 => {
                if let Ok(id) = pipe.ends[side].open_stream(StreamKind::Bytes) {
                    model.byte_streams.push(id);
                    model.written.insert((side, id), (0, false));
                }
            }
            70..78 => {
                let open: Vec<_> =
                    model.written.iter().filter(|(_, state)| !state.1).map(|(key, _)| *key).collect();
                if !open.is_empty() {
                    let key = open[rng.below(open.len() as u64) as usize];
                    let state = model.written.get_mut(&key).unwrap();
                    if rng.chance(15) {
                        pipe.ends[key.0].finish(now, key.1).unwrap();
                        state.1 = true;
                    } else {
                        let bytes: Vec<u8> =
                            (0..rng.below(9000)).map(|at| ((state.0 + at) % 251) as u8).collect();
                        state.0 += pipe.ends[key.0].write(now, key.1, bytes.into()).unwrap() as u64;
                    }
                }
            }
            78..80 => {
                let settings = TagSettings {
                    bandwidth: rng.chance(50).then(|| 20_000 + rng.below(1 << 20)),
                    ..TagSettings::default()
                };
                pipe.ends[side].tag_settings(now, stream, Tag(rng.below(4)), settings).unwrap();
            }
            80..82 => pipe.blackout = rng.chance(50),
            82..84 => pipe.mtu = 200 + rng.below(1300) as usize,
            84..92 => model.read(&mut pipe, cross, seed),
            _ => pipe.run_for(Duration::from_millis(rng.below(30))),
        }
    }
    pipe.blackout = false;
    // Everything is read, for as long as anything still moves.
    for round in 0.. {
        let before = (model.got.len(), pipe.packets);
        pipe.settle();
        model.read(&mut pipe, cross, seed);
        if before == (model.got.len(), pipe.packets) {
            break;
        }
        assert!(round < 10_000, "seed {seed}: no end");
    }
    check(&pipe, &model, seed);
}

fn check(pipe: &Pipe, model: &Model, seed: u64) {
    pipe.assert_credit_agrees();
    for (side, end) in pipe.ends.iter().enumerate() {
        assert!(end.is_drained(), "seed {seed}: side {side} stalled: {:?}", end.stats());
        assert_eq!(end.poll_timeout(), None, "seed {seed}");
        let stats = end.stats();
        assert_eq!((stats.unread, stats.queue_messages, stats.queue_bytes), (0, 0, 0), "seed {seed}");
        let total = stats.total;
        let ended = total.delivered + total.lost + total.expired + total.cancelled + total.replaced;
        assert_eq!(total.queued, ended, "seed {seed}: {total:?}");
    }
    for (number, sent) in model.sent.iter().enumerate() {
        let here = model.got.contains(&(number as u64));
        let outcome = sent.id.and_then(|id| model.outcomes[sent.side].get(&id));
        let story = || format!("seed {seed}: {number} {sent:?} arrived {here}, outcome {outcome:?}");
        assert!(here || sent.mortal || !sent.service.is_reliable(), "{}", story());
        if sent.id.is_none() {
            continue;
        }
        let late = sent.service == Service::UnreliableSequenced;
        if outcome.is_none() && late && sent.confirm && !here {
            // The message arrived after its gap was passed over, so nobody can take it.
            continue;
        }
        let outcome = *outcome.unwrap_or_else(|| panic!("{}", story()));
        match outcome {
            Outcome::Delivered | Outcome::Taken => assert!(here || late, "{}", story()),
            Outcome::Lost => assert!(!here && !sent.service.is_reliable(), "{}", story()),
            Outcome::Expired | Outcome::Cancelled | Outcome::Replaced => {
                assert!(sent.mortal && !here, "{}", story());
            }
            Outcome::Unknown => panic!("{}", story()),
        }
    }
    for ((side, id), written) in &model.written {
        let read = model.read.get(&(1 - side, *id)).copied().unwrap_or_default();
        assert_eq!(read, *written, "seed {seed}: stream {id:?}");
    }
}

fn over_seeds(suspends: u64) {
    let (first, count) = match std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed, 1),
        None => (0, std::env::var("WHIMBREL_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(300)),
    };
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| run(seed, 250, suspends));
        assert!(outcome.is_ok(), "seed {seed} failed; WHIMBREL_SEED={seed} reruns it alone");
    }
}

#[test]
fn random_operations_keep_every_promise() {
    over_seeds(0);
}

#[test]
fn they_do_when_either_end_or_both_become_bytes_in_between() {
    over_seeds(4);
}
