//! Captures a connection and the two ends of a suspended session. README.md says how to run it in an older revision.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use whimbrel_proto::session::{Outgoing, StreamKind};
use whimbrel_proto::{Service, StreamId, SuspendMode, Tag, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::TapVerdict;

const RS: Service = Service::ReliableSequenced;
const MS: Duration = Duration::from_millis(1);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn handshake() {
    let mut pair = Pair::new(7, TransportConfig::default(), "rate=10mbit, delay=20ms");
    let server = pair.world.address(0);
    let log = Rc::new(RefCell::new(Vec::new()));
    let into = Rc::clone(&log);
    pair.world.set_tap(Box::new(move |now, _from, to, bytes| {
        into.borrow_mut().push((now, to == server, bytes.clone()));
        TapVerdict::Pass
    }));
    pair.send(End::Client, RS, "in PING");
    let accepted = pair.run_until(1000 * MS, |pair| pair.place(End::Server).is_some());
    assert!(accepted);
    for text in ["first", "second", "third", "fourth"] {
        pair.send(End::Server, RS, text);
        pair.run(MS);
    }
    pair.run(50 * MS);
    let now = pair.now();
    pair.send(End::Client, RS, "reliable");
    pair.send(End::Client, Service::UnreliableUnsequenced, "unreliable");
    let message = Outgoing {
        tag: Some(Tag(5)),
        ppid: Some(99),
        priority: 200,
        ..Outgoing::new(StreamId(0), Service::ReliableUnsequenced, vec![7; 3000].into())
    };
    pair.try_send(End::Client, message).unwrap();
    let stream = pair.session(End::Client).open_stream(StreamKind::Bytes).unwrap();
    pair.session(End::Client).write(now, stream, b"a byte stream".as_slice().into()).unwrap();
    pair.session(End::Client).finish(now, stream).unwrap();
    pair.run(100 * MS);
    let got: Vec<_> = pair
        .recv(End::Server)
        .iter()
        .map(|m| {
            (m.payload.len(), String::from_utf8_lossy(&m.payload[..m.payload.len().min(20)]).into_owned())
        })
        .collect();
    println!("SERVER {got:?}");
    let got: Vec<_> =
        pair.recv(End::Client).iter().map(|m| String::from_utf8_lossy(&m.payload).into_owned()).collect();
    println!("CLIENT {got:?}");
    for (at, to_server, bytes) in log.borrow().iter() {
        println!(
            "PACKET {} {} {}",
            at.since(whimbrel_proto::Time::ZERO).as_micros(),
            if *to_server { "to_server" } else { "to_client" },
            hex(bytes)
        );
    }
}

#[test]
fn snapshots() {
    let mut pair = Pair::connected(11, TransportConfig::default(), "rate=2mbit, delay=20ms, loss=5%");
    let now = pair.now();
    for end in End::BOTH {
        let who = if end == End::Client { "client" } else { "server" };
        for number in 0..20 {
            pair.send(end, RS, format!("{number} of the {who}"));
        }
        pair.send(end, Service::ReliableUnsequenced, vec![7; 4000]);
        let message = Outgoing {
            tag: Some(Tag(5)),
            lifetime: Some(Duration::from_secs(3600)),
            tracked: true,
            ..Outgoing::new(StreamId(0), RS, "tagged".into())
        };
        pair.try_send(end, message).unwrap();
    }
    let stream = pair.session(End::Client).open_stream(StreamKind::Bytes).unwrap();
    pair.session(End::Client)
        .write(now, stream, (0..6000).map(|at| at as u8).collect::<Vec<_>>().into())
        .unwrap();
    pair.session(End::Client).finish(now, stream).unwrap();
    pair.run(35 * MS);
    let now = pair.now();
    for end in End::BOTH {
        pair.connection(end).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    }
    assert!(pair.run_until(Duration::from_secs(25), Pair::both_closed));
    for end in End::BOTH {
        let (node, handle) = pair.place(end).unwrap();
        let state = pair.world.take_suspended(node, handle).unwrap();
        println!("{state:?}");
        println!("STATE {end:?} {}", hex(&state.to_bytes()));
    }
}
