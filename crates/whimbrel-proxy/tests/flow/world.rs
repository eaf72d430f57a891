//! Flows of two proxies over the simulated transport: lossy links, outages, refusals, stalls and resets.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::session::{Read, SessionEvent, StreamError};
use whimbrel_proto::{StreamId, TransportConfig};
use whimbrel_proxy::flow::{Broken, Channel, Ended, Flow};
use whimbrel_proxy::protocol::{Answer, AnswerReader, Manner, Opening, Outcome, Target, codes};
use whimbrel_sim::pair::{End as Side, Pair};

use crate::pipes::{End, connected};
use crate::talker::Talker;

type World = Rc<RefCell<Pair>>;

/// A byte stream of the simulated session, at one end.
struct SimChannel {
    world: World,
    side: Side,
    id: StreamId,
    finished: bool,
}

impl SimChannel {
    fn read(&self, most: usize) -> Result<Read, StreamError> {
        self.world.borrow_mut().session(self.side).read(self.id, most)
    }
}

fn broken(error: StreamError) -> Broken {
    match error {
        StreamError::Stopped(code) => Broken::Reset(code),
        _ => Broken::Reset(codes::RESET),
    }
}

impl Channel for SimChannel {
    fn poll_read(&mut self, _: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        match self.read(3_000) {
            Ok(Read::Data(data)) => {
                bytes.push(data);
                Poll::Ready(Ok(true))
            }
            Ok(Read::Finished) => Poll::Ready(Ok(false)),
            Ok(Read::Reset(code)) => Poll::Ready(Err(Broken::Reset(code))),
            Ok(Read::Blocked) => Poll::Pending,
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        let mut world = self.world.borrow_mut();
        let now = world.now();
        match world.session(self.side).write(now, self.id, bytes.clone()) {
            Ok(0) => Poll::Pending,
            Ok(taken) => {
                drop(bytes.split_to(taken));
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        match self.world.borrow_mut().session(self.side).stopped(self.id) {
            Some(code) if !self.finished => Poll::Ready(Broken::Reset(code)),
            _ => Poll::Pending,
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        let mut world = self.world.borrow_mut();
        let now = world.now();
        world.session(self.side).finish(now, self.id).ok();
    }

    fn reset(&mut self, code: u64) {
        let mut world = self.world.borrow_mut();
        world.session(self.side).reset(self.id, code).ok();
        world.session(self.side).stop(self.id, code).ok();
    }
}

/// One end of a flow.
enum Half {
    /// The near end waits for the answer.
    Asking(SimChannel, AnswerReader, End),
    Flowing(Box<Flow<End, SimChannel>>),
    Ended(Ended),
    Refused(Outcome),
}

impl Half {
    /// Goes on. The near end reads its answer first.
    fn go(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let next = match self {
            Self::Asking(channel, reader, _) => match channel.read(reader.wants()) {
                Ok(Read::Data(bytes)) => match reader.take(&bytes).unwrap() {
                    Some(Answer { outcome: Outcome::Connected, .. }) => None,
                    Some(refused) => Some(Self::Refused(refused.outcome)),
                    None => return,
                },
                Ok(Read::Blocked) => return,
                other => panic!("no answer: {other:?}"),
            },
            Self::Flowing(flow) => match flow.poll(&mut cx) {
                Poll::Ready(ended) => Some(Self::Ended(ended)),
                Poll::Pending => return,
            },
            Self::Ended(_) | Self::Refused(_) => return,
        };
        let before = std::mem::replace(self, Self::Refused(Outcome::Failed));
        *self = match (next, before) {
            (Some(next), _) => next,
            (None, Self::Asking(channel, _, program)) => Self::Flowing(Box::new(Flow::new(program, channel))),
            (None, other) => other,
        };
    }

    fn has_ended(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Refused(_))
    }
}

/// A flow in the world.
struct Case {
    near: Half,
    far: Option<Half>,
    program: Talker,
    server: Talker,
    /// The server neither reads nor writes until the others are done.
    stalls: bool,
    refused: bool,
    resets_at: Option<u32>,
}

impl Case {
    fn is_done(&self) -> bool {
        if self.refused {
            return self.near.has_ended();
        }
        let ended = self.near.has_ended() && self.far.as_ref().is_some_and(Half::has_ended);
        ended && self.program.is_done() && self.server.is_done()
    }
}

fn target(number: usize) -> Target {
    format!("host-{number}.example:80").parse().unwrap()
}

/// The far end takes the streams that the peer has opened.
fn accept(world: &World, cases: &mut [Case], ends: &mut [Option<End>]) {
    let news = world.borrow_mut().news(Side::Server);
    for event in news {
        let SessionEvent::StreamOpened(id, _) = event else { continue };
        let opening = world.borrow_mut().session(Side::Server).take_opening(id).unwrap_or_default();
        // A stream that was reset before its first bytes came has no opening.
        let Ok(opening) = Opening::from_bytes(&opening) else { continue };
        let number = (0..cases.len()).find(|number| target(*number) == opening.target).unwrap();
        let mut channel = SimChannel { world: Rc::clone(world), side: Side::Server, id, finished: false };
        let outcome = if cases[number].refused { Outcome::Refused } else { Outcome::Connected };
        let mut answer = Bytes::from(Answer::of(outcome).to_bytes());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(channel.poll_write(&mut cx, &mut answer).is_ready() && answer.is_empty());
        if cases[number].refused {
            channel.finish();
            world.borrow_mut().session(Side::Server).stop(id, codes::RESET).ok();
            cases[number].far = Some(Half::Refused(outcome));
        } else {
            let end = ends[number].take().unwrap();
            cases[number].far = Some(Half::Flowing(Box::new(Flow::new(end, channel))));
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    finished: u32,
    refused: u32,
    reset: u32,
    stalled: u32,
}

fn run(seed: u64, tally: &mut Tally) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (loss, delay, rate) =
        (rng.random_range(0..20), rng.random_range(1..80), [1, 5, 50][rng.random_range(0..3)]);
    let outage = if rng.random_ratio(1, 3) { ",outage=at 1s for 4s" } else { "" };
    let link = format!("rate={rate}mbit,delay={delay}ms,queue=100ms,loss={loss}%{outage}");
    let world = Rc::new(RefCell::new(Pair::connected(seed, TransportConfig::default(), &link)));
    let count = rng.random_range(1..12);
    let (mut cases, mut ends) = (Vec::new(), Vec::new());
    for number in 0..count {
        let mut room = || [500, 4_000, 100_000][rng.random_range(0..3)];
        let ((program, near), (server, far)) = (connected(room()), connected(room()));
        let opening = Opening { target: target(number), source: None, manner: Manner::default() };
        let id = {
            let mut world = world.borrow_mut();
            let now = world.now();
            world.session(Side::Client).open_stream_with(now, &opening.to_bytes()).unwrap()
        };
        let channel = SimChannel { world: Rc::clone(&world), side: Side::Client, id, finished: false };
        let refused = rng.random_ratio(1, 6);
        cases.push(Case {
            near: Half::Asking(channel, AnswerReader::default(), near),
            far: None,
            program: Talker::new(program, &mut rng),
            server: Talker::new(server, &mut rng),
            stalls: !refused && rng.random_ratio(1, 5),
            refused,
            resets_at: (!refused && rng.random_ratio(1, 6)).then(|| rng.random_range(0..300)),
        });
        ends.push(Some(far));
    }
    for step in 0..60_000_u32 {
        world.borrow_mut().run(Duration::from_millis(rng.random_range(1..20)));
        accept(&world, &mut cases, &mut ends);
        let rest = cases.iter().filter(|case| !case.stalls).all(Case::is_done);
        for case in &mut cases {
            let resets = case.resets_at == Some(step) && case.far.is_some();
            if resets && !case.program.is_done() {
                case.program.end.abort(0);
                case.program.was_reset = true;
            } else if resets {
                case.resets_at = None;
            }
            case.program.act(&mut rng);
            if !case.stalls || rest {
                case.server.act(&mut rng);
            }
            case.near.go();
            if let Some(far) = &mut case.far {
                far.go();
            }
        }
        if cases.iter().all(Case::is_done) {
            break;
        }
    }
    for (number, case) in cases.iter().enumerate() {
        let at = format!("seed {seed}, flow {number} over {link}");
        let (program, server) = (&case.program, &case.server);
        assert!(case.is_done(), "{at}: it does not end");
        assert!(program.wants.starts_with(&server.read) && server.wants.starts_with(&program.read), "{at}");
        tally.stalled += u32::from(case.stalls);
        match (&case.near, &case.far) {
            (Half::Refused(outcome), _) => {
                assert!(case.refused && *outcome == Outcome::Refused, "{at}: {outcome:?}");
                tally.refused += 1;
            }
            (Half::Ended(Ended::Finished), Some(Half::Ended(Ended::Finished))) => {
                // A program that resets what it has not read yet does not read it.
                let read = (server.read.len(), program.read.len());
                assert!(
                    read == (program.wants.len(), server.wants.len()) || case.resets_at.is_some(),
                    "{at}: {read:?}"
                );
                tally.finished += 1;
            }
            (Half::Ended(near), Some(Half::Ended(far))) => {
                assert!(case.resets_at.is_some(), "{at}: disturbed by another: {near:?}, {far:?}");
                tally.reset += 1;
            }
            _ => panic!("{at}: half of it"),
        }
    }
}

#[test]
fn flows_over_bad_links_do_not_disturb_one_another() {
    let mut tally = Tally::default();
    for seed in 0..1_000 {
        run(seed, &mut tally);
    }
    println!("seeds 0 to 999: {tally:?}");
    let Tally { finished, refused, reset, stalled } = tally;
    assert!(finished > 4_000 && refused > 800 && reset > 200 && stalled > 800, "{tally:?}");
}
