//! Two paths through one bottleneck beside a flow that has one path.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::{Event, Handle, Service, StreamId, TransportConfig};
use whimbrel_proto::session::Outgoing;
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{MS, SECOND, active, announce, config};

/// Another client behind the first one's link, with one path.
struct Rival {
    node: usize,
    near: Handle,
    far: Handle,
}

/// Two paths over one link, the second `more` longer each way.
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

/// Both send all they can for `time`: payload bytes that arrived, ours and the rival's.
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
        theirs += std::iter::from_fn(|| far.recv(now)).map(|message| message.payload.len() as u64).sum::<u64>();
        pair.now() >= end
    });
    (ours, theirs)
}

/// Our part of what both got, once both have settled.
fn part(seed: u64, transport: TransportConfig, theirs: Congestion, link: &str, more: Duration) -> f64 {
    let mut pair = behind_one(seed, transport, link, more);
    let rival = rival(&mut pair, theirs, 0);
    contest(&mut pair, &rival, 10 * SECOND);
    let mut parts = Vec::new();
    for _ in 0..3 {
    let (ours, theirs) = contest(&mut pair, &rival, 10 * SECOND);
    parts.push(ours as f64 / (ours + theirs) as f64);
    }
    let stats: Vec<_> = pair.stats(End::Client).paths.iter().map(|p| (p.congestion.bandwidth / 1000, p.rtt, p.congestion.queue)).collect();
    println!("{link} +{more:?} seed {seed} against {theirs:?}: {parts:.2?} {stats:?}");
    parts.iter().sum::<f64>() / 3.0
}

#[test]
fn explore() {
    for (link, more) in [("rate=10mbit,delay=15ms,queue=100ms", Duration::ZERO), ("rate=10mbit,delay=15ms,queue=100ms", 15 * MS), ("rate=20mbit,delay=5ms,queue=50ms", 0*MS)] {
        for seed in 0..1 {
            for (ours, theirs) in [(Congestion::Bbr, Congestion::Bbr), (Congestion::Bbr, Congestion::Cubic), (Congestion::Cubic, Congestion::Cubic)] {
                let mut transport = config();
                transport.congestion = ours;
                let mut single = transport.clone();
                single.max_paths = 1;
                transport.coupled = std::env::var("UNCOUPLED").is_err();
                print!("{ours:?} two paths ");
                part(seed, transport, theirs, link, more);
                if more.is_zero() {
                    let mut pair = Pair::connected(seed, single, link);
                    let rival = rival(&mut pair, theirs, 0);
                    contest(&mut pair, &rival, 10 * SECOND);
                    let (ours, theirs) = contest(&mut pair, &rival, 30 * SECOND);
                    println!("      single: {:.2}", ours as f64 / (ours + theirs) as f64);
                }
            }
        }
    }
}
