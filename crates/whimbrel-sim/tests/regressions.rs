//! Faults that the checkers found, each as the smallest case that shows it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Event, Service, StreamId, Tag, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

const MS: Duration = Duration::from_millis(1);

/// Probes through a blackout brought lost messages in turn, not the oldest each time: when the link came back, the first probe that
/// arrived held one that had to wait for another round trip.
#[test]
fn regression_probes_bring_the_oldest_lost_message() {
    let mut pair = Pair::connected(1, TransportConfig::default(), "delay=25ms");
    pair.relink("delay=25ms,loss=100%");
    for number in 0..8u8 {
        pair.send(End::Client, Service::ReliableSequenced, Bytes::from(vec![number; 60]));
        pair.run(100 * MS);
    }
    assert!(pair.recv(End::Server).is_empty());
    pair.relink("delay=25ms");
    let begin = pair.now();
    assert!(pair.run_until(MS * 1000, |pair| !pair.recv(End::Server).is_empty()));
    assert!(pair.now().since(begin) <= 275 * MS, "one probe is enough: {:?}", pair.now().since(begin));
}

/// SKIP entries that were lost and came up again out of order did not join, and at last filled each probe so that the newest message
/// did not fit.
#[test]
fn regression_replacements_through_a_blackout_stay_one_entry() {
    let mut pair = Pair::connected(2, TransportConfig::default(), "delay=25ms");
    pair.relink("delay=25ms,loss=100%");
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let out = sizes.clone();
    pair.world.set_tap(Box::new(move |_, _, _, bytes| {
        out.borrow_mut().push(bytes.len());
        TapVerdict::Pass
    }));
    for number in 0..40u8 {
        let now = pair.now();
        let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![number; 60].into());
        pair.session(End::Client).replace(now, StreamId(0), Tag(1), message).unwrap();
        pair.run(100 * MS);
    }
    let sizes = sizes.borrow();
    let (early, late) = (sizes[3], sizes[sizes.len() - 1]);
    assert!(late >= 93, "a message in each probe: {sizes:?}");
    assert!(late < early + 20, "and no more with time: {sizes:?}");
}

/// A damaged SYN-ACK (nothing proves it) led to a PING that no server could answer, repeated until the handshake timed out.
#[test]
fn regression_a_damaged_syn_ack_does_not_end_the_handshake() {
    let mut pair = Pair::new(3, TransportConfig::default(), "delay=25ms");
    let server = pair.world.address(SERVER);
    let mut first = true;
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        if from == server && bytes[0] == 0x83 && std::mem::take(&mut first) {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }
        TapVerdict::Pass
    }));
    pair.send(End::Client, Service::ReliableSequenced, "early");
    assert!(pair.settle(3000 * MS), "{:?}", pair.events(End::Client));
    assert_eq!(pair.recv(End::Server).len(), 1);
}

/// A client whose PING was answered too late begins another connection; the first stayed in the server for the whole idle timeout.
#[test]
fn regression_an_unproven_connection_does_not_wait_for_the_idle_timeout() {
    let mut pair = Pair::new(4, TransportConfig::default(), "delay=25ms");
    assert!(pair.run_until(1000 * MS, |pair| pair.place(End::Server).is_some()));
    let client = pair.client;
    pair.world.kill(client);
    pair.run(15_000 * MS);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 0);
    assert!(!pair.events(End::Server).contains(&Event::Connected));
}
