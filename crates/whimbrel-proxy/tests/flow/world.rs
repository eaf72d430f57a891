//! Flows of two proxies over the simulated transport: lossy links, outages, refusals, stalls and resets, rules that change,
//! and peers that are restarted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::TransportConfig;
use whimbrel_proto::session::SessionEvent;
use whimbrel_proxy::compress::Method;
use whimbrel_proxy::flow::{Channel, Ended, Flow, HoldBudget};
use whimbrel_proxy::policy::{FlowKey, Origin, Protocol, Rule, Rules};
use whimbrel_proxy::protocol::{Answer, AnswerReader, Manner, Opening, Outcome, Target, codes};
use whimbrel_sim::pair::{End as Side, Pair};

use crate::half::Half;
use crate::pipes::{End, connected};
use crate::talker::Talker;
use crate::wire::{SimChannel, Wire, World};

/// Memory for what flows hold.
const HOLD: usize = 1 << 20;
/// After this step, rules change no more, and nobody is restarted: everything can end.
const QUIET: u32 = 600;

/// A flow in the world.
struct Case {
    key: FlowKey,
    method: Option<Method>,
    opens_at: u32,
    near: Option<Half>,
    far: Option<Half>,
    /// The proxies' ends of the connections, until they are used.
    ends: (End, End),
    program: Talker,
    server: Talker,
    /// The server neither reads nor writes until the others are done.
    stalls: bool,
    refused: bool,
    resets_at: Option<u32>,
    /// A rule has ended it.
    by_rule: bool,
    /// Its peer was restarted.
    is_lost: bool,
}

impl Case {
    fn new(number: usize, rng: &mut ChaCha20Rng) -> Self {
        let mut room = || [500, 4_000, 100_000][rng.random_range(0..3)];
        let ((program, near), (server, far)) = (connected(room()), connected(room()));
        let methods = [None, None, Some("zstd:1"), Some("zlib:1"), Some("xz:1")];
        let method = methods[rng.random_range(0..methods.len())];
        let refused = rng.random_ratio(1, 6);
        let (mut program, mut server) = (Talker::new(program, rng), Talker::new(server, rng));
        if rng.random() {
            [&mut program, &mut server].into_iter().for_each(Talker::write_records);
        }
        Self {
            key: FlowKey {
                protocol: Protocol::Tcp,
                target: target(number),
                source: ([10, 0, 0, 1], 1_000 + number as u16).into(),
                origin: Origin::default(),
            },
            method: method.map(|method| method.parse().unwrap()),
            opens_at: if rng.random() { 0 } else { rng.random_range(0..300) },
            near: None,
            far: None,
            ends: (near, far),
            program,
            server,
            stalls: !refused && rng.random_ratio(1, 5),
            refused,
            resets_at: (!refused && rng.random_ratio(1, 6)).then(|| rng.random_range(0..300)),
            by_rule: false,
            is_lost: false,
        }
    }

    fn open(&mut self, world: &World, now: &Now) {
        let opening = Opening { target: self.key.target.clone(), source: None, manner: Manner::default() };
        let mut pair = world.pair.borrow_mut();
        let at = pair.now();
        let id = pair.session(Side::Client).open_stream_with(at, &opening.to_bytes()).unwrap();
        drop(pair);
        let channel = SimChannel::new(world, Side::Client, id);
        let mut near = Half::Asking(channel, AnswerReader::default(), self.ends.0.clone(), self.method);
        near.follow(&now.rules.decide(&self.key), &now.budget);
        self.near = Some(near);
    }

    fn is_done(&self) -> bool {
        let Some(near) = &self.near else { return false };
        if self.refused || self.far.is_none() && self.is_lost {
            return near.has_ended();
        }
        let ended = near.has_ended() && self.far.as_ref().is_some_and(Half::has_ended);
        ended && self.program.is_done() && self.server.is_done()
    }

    /// Takes over what the rules say now.
    fn follow(&mut self, now: &Now) {
        if let Some(near) = &mut self.near {
            self.by_rule |= near.follow(&now.rules.decide(&self.key), &now.budget);
        }
    }

    fn act(&mut self, step: u32, may_go_on: bool, rng: &mut ChaCha20Rng) {
        let resets = self.resets_at == Some(step) && self.far.is_some();
        if resets && !self.program.is_done() {
            self.program.end.abort(0);
            self.program.was_reset = true;
        } else if self.resets_at == Some(step) {
            self.resets_at = None;
        }
        self.program.act(rng);
        if may_go_on {
            self.server.act(rng);
        }
        [&mut self.near, &mut self.far].into_iter().flatten().for_each(Half::go);
    }
}

fn target(number: usize) -> Target {
    format!("host-{number}.example:80").parse().unwrap()
}

/// The near end's rules at present.
struct Now {
    rules: Rules,
    budget: HoldBudget,
}

/// Rules that a seed makes. Those of the end let everything go on.
fn random_rules(rng: &mut ChaCha20Rng, is_last: bool) -> Rules {
    let mut all = String::new();
    for number in 0..12 {
        let what = match rng.random_range(0..if is_last { 3 } else { 5 }) {
            0 => format!("priority = {}", rng.random_range(0..255)),
            1 => "hold_bytes = '40kB'".to_owned(),
            2 => String::new(),
            3 => "action = 'hold'".to_owned(),
            _ if rng.random_ratio(1, 4) => "action = 'reject'\nexisting = true".to_owned(),
            _ => "action = 'reject'".to_owned(),
        };
        all += &format!("[[rule]]\nname = 'r{number}'\nto = ['host-{number}.example:*']\n{what}\n");
    }
    #[derive(serde::Deserialize)]
    struct File {
        rule: Vec<Rule>,
    }
    let File { rule } = whimbrel_service::parse_config("x.toml", &all).unwrap();
    Rules::new(rule).unwrap()
}

/// The far end takes the streams that the peer has opened.
fn accept(world: &World, cases: &mut [Case]) {
    let news = world.pair.borrow_mut().news(Side::Server);
    for event in news {
        let SessionEvent::StreamOpened(id, _) = event else { continue };
        let opening = world.pair.borrow_mut().session(Side::Server).take_opening(id).unwrap_or_default();
        // A stream that was reset before its first bytes came has no opening.
        let Ok(opening) = Opening::from_bytes(&opening) else { continue };
        let case = cases.iter_mut().find(|case| case.key.target == opening.target).unwrap();
        let mut channel = SimChannel::new(world, Side::Server, id);
        let outcome = if case.refused { Outcome::Refused } else { Outcome::Connected };
        let mut answer = Bytes::from(Answer::of(outcome).to_bytes());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(channel.poll_write(&mut cx, &mut answer).is_ready() && answer.is_empty());
        if case.refused {
            channel.finish();
            world.pair.borrow_mut().session(Side::Server).stop(id, codes::RESET).ok();
            case.far = Some(Half::Refused(outcome));
        } else {
            let flow = Flow::new(case.ends.1.clone(), Wire::new(channel, case.method));
            case.far = Some(Half::Flowing(Box::new(flow)));
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    finished: u32,
    compressed: u32,
    refused: u32,
    reset: u32,
    by_rule: u32,
    lost: u32,
    stalled: u32,
    reloads: u32,
}

fn world(seed: u64, link: &str) -> World {
    let pair = Pair::connected(seed, TransportConfig::default(), link);
    let (is_cut, is_lost) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    World { pair: Rc::new(RefCell::new(pair)), is_cut, is_lost }
}

fn run(seed: u64, tally: &mut Tally) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (loss, delay, rate) =
        (rng.random_range(0..20), rng.random_range(1..80), [1, 5, 50][rng.random_range(0..3)]);
    let outage = if rng.random_ratio(1, 3) { ",outage=at 1s for 4s" } else { "" };
    let link = format!("rate={rate}mbit,delay={delay}ms,queue=100ms,loss={loss}%{outage}");
    let mut here = world(seed, &link);
    let mut now = Now { rules: Rules::default(), budget: HoldBudget::new(HOLD) };
    let mut cases: Vec<_> = (0..rng.random_range(1..12)).map(|number| Case::new(number, &mut rng)).collect();
    let restart_at = rng.random_ratio(1, 6).then(|| rng.random_range(0..QUIET));
    let reloads = rng.random_ratio(1, 2);
    for step in 0..60_000_u32 {
        if restart_at == Some(step) {
            for case in cases.iter_mut().filter(|case| case.near.is_some() && !case.is_done()) {
                case.is_lost = true;
                case.far.iter_mut().for_each(|far| far.kill(&case.ends.1));
            }
            here.is_lost.set(true);
            here = world(seed + 1_000_000, &link);
        }
        if step == QUIET || reloads && step < QUIET && rng.random_ratio(1, 40) {
            now.rules = random_rules(&mut rng, step == QUIET);
            tally.reloads += 1;
        }
        if rng.random_ratio(1, 20) {
            here.is_cut.set(step < QUIET && rng.random());
        }
        here.pair.borrow_mut().run(Duration::from_millis(rng.random_range(1..20)));
        accept(&here, &mut cases);
        let rest = cases.iter().filter(|case| !case.stalls).all(Case::is_done);
        for case in &mut cases {
            if case.near.is_none() && step >= case.opens_at {
                case.open(&here, &now);
            }
            case.follow(&now);
            case.act(step, !case.stalls || rest, &mut rng);
        }
        if step > QUIET && cases.iter().all(Case::is_done) {
            break;
        }
    }
    for (number, case) in cases.iter().enumerate() {
        check(case, &format!("seed {seed}, flow {number} over {link}"), tally);
    }
    drop(cases);
    assert_eq!(now.budget.left(), HOLD, "seed {seed}: what was held is given back");
}

fn check(case: &Case, at: &str, tally: &mut Tally) {
    let (program, server) = (&case.program, &case.server);
    assert!(case.is_done(), "{at}: it does not end");
    assert!(program.wants.starts_with(&server.read) && server.wants.starts_with(&program.read), "{at}");
    tally.stalled += u32::from(case.stalls);
    match (case.near.as_ref().unwrap(), &case.far) {
        (Half::Refused(outcome), _) => {
            assert!(case.refused && *outcome == Outcome::Refused, "{at}: {outcome:?}");
            tally.refused += 1;
        }
        (Half::Ended(Ended::Finished), Some(Half::Ended(Ended::Finished))) => {
            // A program that resets what it has not read yet does not read it.
            let read = (server.read.len(), program.read.len());
            let whole = (program.wants.len(), server.wants.len());
            assert!(read == whole || case.resets_at.is_some(), "{at}: {read:?} of {whole:?}");
            tally.finished += 1;
            tally.compressed += u32::from(case.method.is_some());
        }
        (Half::Ended(_), _) if case.is_lost => tally.lost += 1,
        (Half::Ended(near), Some(Half::Ended(far))) if case.by_rule => {
            assert!(*near == Ended::GivenUp(codes::RULE), "{at}: {near:?}, {far:?}");
            tally.by_rule += 1;
        }
        (Half::Ended(near), Some(Half::Ended(far))) => {
            assert!(case.resets_at.is_some(), "{at}: disturbed by another: {near:?}, {far:?}");
            tally.reset += 1;
        }
        _ => panic!("{at}: half of it"),
    }
}

#[test]
fn flows_over_bad_links_do_not_disturb_one_another() {
    let mut tally = Tally::default();
    for seed in 0..2_000 {
        run(seed, &mut tally);
    }
    println!("seeds 0 to 1999: {tally:?}");
    let Tally { finished, compressed, refused, reset, by_rule, lost, stalled, reloads } = tally;
    assert!(finished > 6_000 && compressed > 2_000 && refused > 1_200 && stalled > 1_500, "{tally:?}");
    assert!(reset > 200 && by_rule > 100 && lost > 200 && reloads > 5_000, "{tally:?}");
}

#[test]
fn after_an_outage_the_urgent_flow_goes_first() {
    for seed in 0..20 {
        let here = world(seed, "rate=1mbit,delay=20ms,queue=100ms,outage=at 1s for 4s");
        let open = |number: usize, priority: u8| {
            let mut pair = here.pair.borrow_mut();
            let at = pair.now();
            let opening = Opening { target: target(number), source: None, manner: Manner::default() };
            let id = pair.session(Side::Client).open_stream_with(at, &opening.to_bytes()).unwrap();
            drop(pair);
            let mut channel = SimChannel::new(&here, Side::Client, id);
            channel.set_priority(Some(priority));
            channel
        };
        // The bulk was there first.
        let mut channels = [open(0, 50), open(1, 200)];
        here.pair.borrow_mut().run(Duration::from_millis(1_500));
        let mut cx = Context::from_waker(Waker::noop());
        for channel in &mut channels {
            let mut bytes = Bytes::from(vec![1; 60_000]);
            while !bytes.is_empty() {
                assert!(channel.poll_write(&mut cx, &mut bytes).is_ready(), "the window has room");
            }
            channel.finish();
        }
        // At the far end: when did the last byte of each come?
        let (mut ended, mut streams) = ([None, None], [None, None]);
        for step in 0..20_000 {
            here.pair.borrow_mut().run(Duration::from_millis(1));
            for event in here.pair.borrow_mut().news(Side::Server) {
                if let SessionEvent::StreamOpened(id, _) = event {
                    let at = channels.iter().position(|channel| channel.id == id).unwrap();
                    streams[at] = Some(SimChannel::new(&here, Side::Server, id));
                }
            }
            for (stream, ended) in streams.iter_mut().zip(&mut ended) {
                let Some(stream) = stream else { continue };
                let mut bytes = Vec::new();
                while let std::task::Poll::Ready(Ok(more)) = stream.poll_read(&mut cx, &mut bytes) {
                    if !more {
                        ended.get_or_insert(step);
                        break;
                    }
                }
            }
        }
        let [Some(bulk), Some(urgent)] = ended else { panic!("seed {seed}: {ended:?}") };
        // Each takes half a second on this link.
        assert!(urgent + 300 < bulk, "seed {seed}: urgent after {urgent} ms, bulk after {bulk} ms");
    }
}
