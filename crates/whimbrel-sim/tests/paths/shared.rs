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
    let bbr = Congestion::Bbr;
    for (ours, theirs, link, more) in [
        (bbr, Congestion::Cubic, "rate=10mbit,delay=15ms,queue=100ms", 0),
        (bbr, Congestion::Cubic, "rate=20mbit,delay=5ms,queue=50ms", 0),
        (bbr, Congestion::Cubic, "rate=10mbit,delay=15ms,queue=40ms", 0),
        (bbr, bbr, "rate=10mbit,delay=15ms,queue=100ms", 0),
        (bbr, bbr, "rate=10mbit,delay=15ms,queue=100ms", 15),
        (bbr, bbr, "rate=10mbit,delay=15ms,queue=100ms", 85),
        (bbr, bbr, "rate=10mbit,delay=15ms,queue=100ms,loss=2%", 0),
        (bbr, bbr, "rate=10mbit,delay=15ms,queue=100ms,jitter=5ms", 0),
        (bbr, bbr, "rate=2mbit,delay=25ms,queue=200ms", 0),
        (bbr, bbr, "rate=50mbit,delay=10ms,queue=50ms", 5),
        (Congestion::Cubic, Congestion::Cubic, "rate=10mbit,delay=15ms,queue=100ms", 0),
        (Congestion::Cubic, Congestion::Cubic, "rate=10mbit,delay=15ms,queue=50ms", 15),
    ] {
        for seed in 0..3u64 {
            let mut transport = config();
            transport.congestion = ours;
            let mut pair = behind_one(seed, transport, link, more * MS);
            super::bulk(&mut pair, 137 * MS * (seed as u32 + 1));
            let rival = rival(&mut pair, theirs, 0);
            let parts: Vec<f64> = (0..6).map(|_| {
                let (ours, theirs) = contest(&mut pair, &rival, 10 * SECOND);
                ours as f64 / (ours + theirs) as f64
            }).collect();
            let coupled: Vec<_> = pair.stats(End::Client).paths.iter().map(|p| (p.coupled, p.rtt, p.congestion.queue)).collect();
            println!("{ours:?} {theirs:?} {link} +{more} {parts:.2?} {coupled:?}");
        }
    }
}

#[test]
fn apart() {
    for (first, second) in [
        ("rate=10mbit,delay=15ms,queue=100ms", "rate=5mbit,delay=30ms,queue=100ms"),
        ("rate=10mbit,delay=15ms,queue=100ms", "rate=10mbit,delay=15ms,queue=100ms"),
        ("rate=20mbit,delay=10ms,queue=100ms", "rate=4mbit,delay=100ms,queue=100ms"),
    ] {
        for kind in 0..4 {
            let mut transport = config();
            transport.coupled = kind % 2 == 1;
            if kind >= 2 { transport.congestion = Congestion::Cubic; }
            let mut pair = super::two(1, transport.clone(), first, second);
            let mut seen = Vec::new();
            let mut got = 0;
            for _ in 0..20 {
                got += super::bulk(&mut pair, SECOND).0;
                seen.push(u8::from(pair.stats(End::Client).paths[0].coupled));
            }
            println!("{first} {second} {:?} coupled {} {got} {seen:?}", transport.congestion, transport.coupled);
            // The same beside a rival on the first.
            let mut pair = super::two(1, transport.clone(), first, second);
            let rival = rival(&mut pair, transport.congestion, 0);
            let mut seen = Vec::new();
            let parts: Vec<u64> = (0..6).map(|_| {
                let (ours, theirs) = contest(&mut pair, &rival, 5 * SECOND);
                seen.push(u8::from(pair.stats(End::Client).paths[0].coupled));
                ours / 625
            }).collect();
            println!("        with a rival on the first: kbit/s {parts:?} {seen:?}");
        }
    }
}
