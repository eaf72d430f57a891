//! Two paths through one bottleneck, competing with a flow that has one path.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Event, Handle, Scheduling, Service, StreamId, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{MS, SECOND, active, announce, bulk, config, two};

/// Another client behind the first one's link, with one path.
struct Rival {
    node: usize,
    near: Handle,
    far: Handle,
}

/// Two paths over one link, the second `more` longer in each direction.
fn behind_one(seed: u64, transport: TransportConfig, link: &str, more: Duration) -> Pair {
    let mut pair = Pair::connected(seed, transport, link);
    pair.world.add_network_behind(pair.client, more);
    announce(&mut pair);
    let both = pair.run_until(5 * SECOND, |pair| End::BOTH.iter().all(|end| active(pair, *end) == 2));
    assert!(both, "{:?}", pair.events(End::Client));
    pair
}

fn rival(pair: &mut Pair, congestion: Congestion, over: usize) -> Rival {
    let mut transport = config();
    transport.congestion = congestion;
    let node = pair.world.add_client_behind(transport, pair.client, over);
    let near = pair.world.connect(node);
    let up = pair.run_until(5 * SECOND, |pair| {
        pair.world.peer(node, near).events.iter().any(|(_, event)| *event == Event::Connected)
    });
    assert!(up);
    let far = pair.world.accept().expect("the server let it in");
    Rival { node, near, far }
}

/// Both send as much as they can for `time`. Returns the payload bytes that arrived, ours and the rival's.
fn contest(pair: &mut Pair, rival: &Rival, time: Duration) -> (u64, u64) {
    let (end, payload) = (pair.now() + time, Bytes::from(vec![7; 8192]));
    let (mut ours, mut theirs) = (0, 0);
    pair.run_until(time, |pair| {
        while pair.connection(End::Client).session_ref().queue_room().1 > 1_000_000 {
            pair.send(End::Client, Service::ReliableSequenced, payload.clone());
        }
        let now = pair.now();
        let near = pair.world.peer(rival.node, rival.near).connection.session();
        while near.queue_room().1 > 1_000_000 {
            let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, payload.clone());
            near.send(now, message).expect("there is room");
        }
        ours += pair.recv(End::Server).iter().map(|message| message.payload.len() as u64).sum::<u64>();
        let far = pair.world.peer(SERVER, rival.far).connection.session();
        theirs +=
            std::iter::from_fn(|| far.recv(now)).map(|message| message.payload.len() as u64).sum::<u64>();
        pair.now() >= end
    });
    (ours, theirs)
}

/// The number of runs, each with another start time of the rival and another seed.
const RUNS: u64 = 3;
/// Runs against CUBIC vary widely: shares range from 0.14 to 0.72.
const RUNS_BESIDE_CUBIC: u64 = 9;

/// Our share of what both got after the first ten seconds: the mean of several runs.
fn part(transport: &TransportConfig, theirs: Congestion, link: &str, more: Duration) -> f64 {
    let mut parts = Vec::new();
    let runs = if theirs == Congestion::Cubic { RUNS_BESIDE_CUBIC } else { RUNS };
    for seed in 0..runs {
        let mut pair = if transport.max_paths == 1 {
            Pair::connected(seed, transport.clone(), link)
        } else {
            behind_one(seed, transport.clone(), link, more)
        };
        bulk(&mut pair, 137 * MS * (seed as u32 + 1));
        let rival = rival(&mut pair, theirs, 0);
        contest(&mut pair, &rival, 10 * SECOND);
        let (ours, theirs) = contest(&mut pair, &rival, 40 * SECOND);
        parts.push(ours as f64 / (ours + theirs) as f64);
    }
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    println!(
        "{:?} on {} against {theirs:?}, {link}, {more:?} more: {parts:.2?}",
        transport.congestion, transport.max_paths
    );
    mean
}

fn of(congestion: Congestion, coupled: bool) -> TransportConfig {
    let mut transport = config();
    transport.congestion = congestion;
    transport.coupled = coupled;
    transport
}

const LINK: &str = "rate=10mbit,delay=15ms,queue=100ms";

#[test]
fn two_paths_through_one_bottleneck_take_one_share() {
    let (gauge, cubic) = (Congestion::Gauge, Congestion::Cubic);
    for (kind, link, more) in [
        (gauge, LINK, 0),
        (gauge, LINK, 15),
        (gauge, "rate=50mbit,delay=10ms,queue=50ms", 5),
        (gauge, "rate=10mbit,delay=15ms,queue=100ms,loss=2%", 0),
        (gauge, "rate=10mbit,delay=15ms,queue=100ms,jitter=5ms", 0),
        (cubic, LINK, 0),
        (cubic, "rate=10mbit,delay=15ms,queue=50ms", 15),
    ] {
        let ours = part(&of(kind, true), kind, link, more * MS);
        assert!(
            (0.35..=0.6).contains(&ours),
            "{kind:?}, {link}, {more} ms more: {ours:.2} of the bottleneck"
        );
    }
}

#[test]
fn uncoupled_they_take_two() {
    for kind in [Congestion::Gauge, Congestion::Cubic] {
        let ours = part(&of(kind, false), kind, LINK, Duration::ZERO);
        assert!(ours > 0.62, "{kind:?}: {ours:.2}");
    }
}

/// The rival is a flow that fills every queue.
#[test]
fn beside_cubic_two_paths_take_what_one_does() {
    for link in [LINK, "rate=10mbit,delay=15ms,queue=40ms"] {
        let coupled = of(Congestion::Gauge, true);
        let mut single = coupled.clone();
        single.max_paths = 1;
        let [two, one] =
            [coupled, single].map(|transport| part(&transport, Congestion::Cubic, link, Duration::ZERO));
        println!("{link}: {two:.2} of two, {one:.2} of one");
        // Nine runs show 0.10 and 0.11 more for two paths than for one; three runs showed almost anything.
        assert!(two <= 0.55 && two <= one + 0.15, "{link}: {two:.2} of two, {one:.2} of one");
    }
}

#[test]
fn paths_with_bottlenecks_of_their_own_are_seen_to_be_apart() {
    let slower = "rate=5mbit,delay=30ms,queue=100ms";
    let run = |seed, coupled| {
        let mut pair = two(seed, of(Congestion::Gauge, coupled), LINK, slower);
        let rival = rival(&mut pair, Congestion::Gauge, 0);
        contest(&mut pair, &rival, 10 * SECOND);
        let (ours, _) = contest(&mut pair, &rival, 20 * SECOND);
        (ours, pair.stats(End::Client).paths.iter().filter(|path| path.coupled).count())
    };
    // How two flows share a link depends on which began first, so several starts tell more than one. Until the two
    // paths are found to be apart, the rival gets ahead, and is caught up with slowly.
    let mut shares = [0, 0];
    for seed in 1..=5 {
        let ((ours, together), (free, _)) = (run(seed, true), run(seed, false));
        println!("seed {seed}: {ours} of {free}");
        assert_eq!(together, 0, "seed {seed}: one is beside a rival, the other is not");
        shares = [shares[0] + ours, shares[1] + free];
    }
    let [ours, free] = shares;
    assert!(ours as f64 >= 0.9 * free as f64, "{ours} of {free} bytes beside a rival on one of them");
}

#[test]
fn a_path_that_carries_nothing_is_no_company() {
    let mut transport = of(Congestion::Gauge, true);
    transport.scheduler = Scheduling::Primary;
    let mut pair = behind_one(1, transport, LINK, Duration::ZERO);
    bulk(&mut pair, 3 * SECOND);
    let paths = pair.stats(End::Client).paths;
    let carrying = paths.iter().find(|path| path.primary).expect("there is always one");
    assert!(!carrying.coupled, "the other carries nothing");
}
