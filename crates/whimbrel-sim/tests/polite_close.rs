//! Tests that a graceful close delivers what was queued, even through an outage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::{CloseReason, Event, Service, SuspendMode, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

const SECOND: Duration = Duration::from_secs(1);
const LINK: &str = "rate=4mbit,delay=25ms,queue=200ms";

fn config() -> TransportConfig {
    TransportConfig::default()
}

/// Queues a second of data at `from`, closes at `closer`, and cuts the link for `outage` meanwhile. Returns the
/// number of messages that arrived.
fn close_through(outage: Duration, from: End, closer: End) -> (Pair, usize) {
    let mut pair = Pair::connected(4, config(), LINK);
    for _ in 0..500 {
        pair.send(from, Service::ReliableSequenced, vec![7; 1000]);
    }
    pair.close(closer, 3, "done");
    pair.run(SECOND / 2);
    pair.relink("loss=100%");
    pair.run(outage);
    let mut got = pair.recv(from.other()).len();
    pair.relink(LINK);
    pair.run_until(20 * SECOND, |pair| {
        got += pair.recv(from.other()).len();
        End::BOTH.iter().all(|end| pair.closed(*end).is_some())
    });
    (pair, got)
}

#[test]
fn an_outage_longer_than_close_timeout_does_not_end_a_close() {
    for from in End::BOTH {
        for closer in End::BOTH {
            let (mut pair, got) = close_through(3 * config().close_timeout, from, closer);
            assert_eq!(got, 500, "from {from:?}, closed by {closer:?}");
            assert_eq!(pair.closed(closer), Some(CloseReason::Local));
            let other = pair.closed(closer.other());
            assert!(matches!(other, Some(CloseReason::Peer(reason)) if reason.code == 3));
            assert!(pair.events(closer).contains(&Event::PeerReachable), "the outage was noticed");
        }
    }
}

#[test]
fn a_peer_that_never_comes_back_ends_a_close_by_the_idle_timeout() {
    let mut pair = Pair::connected(4, config(), LINK);
    pair.send(End::Client, Service::ReliableSequenced, "something");
    pair.close(End::Client, 0, "");
    pair.relink("loss=100%");
    assert!(!pair.run_until(config().idle_timeout - 2 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert!(pair.run_until(4 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::TimedOut));
}

#[test]
fn a_peer_that_does_not_read_holds_a_close_for_close_timeout_only() {
    let mut pair = Pair::connected(4, config(), "rate=100mbit,delay=5ms,queue=100ms");
    for _ in 0..200 {
        pair.send(End::Client, Service::ReliableSequenced, vec![7; 100_000]);
    }
    pair.run(5 * SECOND);
    pair.close(End::Client, 0, "");
    assert!(!pair.run_until(9 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert!(pair.run_until(2 * SECOND, |pair| pair.closed(End::Client).is_some()));
}

#[test]
fn what_was_sent_before_the_handshake_was_done_is_delivered() {
    // More than the packets of the handshake can hold; on some seeds those are lost.
    for seed in 0..20 {
        let mut pair = Pair::new(seed, config(), "rate=4mbit,delay=25ms,queue=200ms,loss=20%");
        let sent: Vec<Vec<u8>> = (0..50).map(|number| vec![number; 1000]).collect();
        for payload in &sent {
            pair.send(End::Client, Service::ReliableSequenced, payload.clone());
        }
        pair.run(seed as u32 * SECOND / 200);
        pair.close(End::Client, 3, "done");
        let mut got = Vec::new();
        pair.run_until(20 * SECOND, |pair| {
            got.extend(pair.recv(End::Server));
            End::BOTH.iter().all(|end| pair.closed(*end).is_some())
        });
        assert_eq!(Vec::from_iter(got.iter().map(|message| message.payload.to_vec())), sent, "seed {seed}");
        assert_eq!(pair.closed(End::Client), Some(CloseReason::Local));
        let other = pair.closed(End::Server);
        assert!(matches!(other, Some(CloseReason::Peer(reason)) if reason.code == 3));
    }
}

#[test]
fn a_peer_that_never_answers_ends_a_close_by_the_handshake_timeout() {
    let mut hasty = config();
    hasty.close_timeout = SECOND;
    let mut pair = Pair::new(4, hasty, "rate=4mbit,loss=100%");
    pair.send(End::Client, Service::ReliableSequenced, "something");
    pair.close(End::Client, 0, "");
    let limit = config().handshake_timeout;
    assert!(!pair.run_until(limit - SECOND, |pair| pair.closed(End::Client).is_some()));
    assert!(pair.run_until(2 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::HandshakeTimedOut));
}

#[test]
fn with_nothing_sent_nobody_waits_for_the_handshake() {
    let mut pair = Pair::new(4, config(), "rate=4mbit,loss=100%");
    pair.close(End::Client, 0, "");
    pair.run(Duration::from_millis(1));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::Local));
}

/// A client that suspended unheard comes back. Its SYN-ACK and PONG pass; its packets are `held` until the cell says
/// otherwise. Its end continues with the new handle.
fn come_back(pair: &mut Pair, held: &Rc<Cell<bool>>, reset_passes: bool) {
    let client = pair.client;
    let now = pair.now();
    pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    assert!(pair.run_until(15 * SECOND, |pair| pair.closed(End::Client).is_some()));
    let handle = pair.handle(End::Client);
    let state = pair.world.take_suspended(client, handle).expect("the state is there");
    pair.world.restart(client);
    let (own, server) = (pair.world.address(client), pair.world.address(SERVER));
    let (holds, mut id) = (Rc::clone(held), None);
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        if from == server && bytes[0] == 0x85 {
            id = Some(bytes[9..17].to_vec());
        }
        let fresh = id.as_ref().is_some_and(|id| bytes[1..9] == id[..]);
        let reset = from == own && bytes[0] & 0x80 == 0 && !fresh;
        let lost = fresh && holds.get() || reset && !reset_passes;
        if lost { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    pair.relink(LINK);
    let handle = pair.world.resume(client, &state, Some(server)).expect("it can be resumed");
    pair.adopt(End::Client, handle);
    assert!(pair.run_until(5 * SECOND, |pair| pair.events(End::Client).contains(&Event::Connected)));
}

/// Adds a second network with a path over it.
fn second_network(pair: &mut Pair) {
    let link: LinkConfig = LINK.parse().expect("it is well written");
    pair.world.add_network(pair.client, link.clone(), link);
    for end in [End::Server, End::Client] {
        let (node, handle) = pair.place(end).expect("it is there");
        pair.world.announce(node, handle);
    }
    pair.run(3 * SECOND);
    assert_eq!(pair.stats(End::Server).paths.len(), 2);
}

/// Checks that everything sent arrives, and that both ends close gracefully.
fn closes_politely(pair: &mut Pair, text: &str) {
    let mut got = 0;
    let done = pair.run_until(8 * SECOND, |pair| {
        got += pair.recv(End::Client).len();
        pair.both_closed()
    });
    let ends = End::BOTH.map(|end| pair.closed(end));
    assert!(done && got == 1, "{text}: {got} of 1 arrived, {ends:?}");
    let polite = |why: &Option<CloseReason>| matches!(why, Some(CloseReason::Local | CloseReason::Peer(_)));
    assert!(ends.iter().all(polite), "{text}: {ends:?}");
}

/// A server had closed while its peer was on its way back. The peer's endpoint told it that the old connection was
/// lost, which is how coming back begins. The server took that for the end and lost what was queued, and the peer
/// found no session.
#[test]
fn regression_a_close_that_meets_a_resuming_peer_is_a_close() {
    for both in [false, true] {
        let mut pair = Pair::connected(21, TransportConfig::default(), LINK);
        // The server has no reset token of the client's first path.
        second_network(&mut pair);
        pair.relink("loss=100%");
        pair.relink_over(1, "loss=100%");
        let held = Rc::new(Cell::new(true));
        come_back(&mut pair, &held, true);
        pair.relink_over(1, LINK);
        pair.send(End::Server, Service::ReliableSequenced, "to be delivered");
        pair.close(End::Server, 1, "here");
        if both {
            pair.close(End::Client, 1, "here, too");
        }
        pair.run(Duration::from_millis(500));
        assert_eq!(pair.closed(End::Server), None, "both: {both}");
        held.set(false);
        closes_politely(&mut pair, &format!("both: {both}"));
    }
}

/// The same where the server knew that its peer was away: closing ended the session at once, although the peer
/// considered it resumed.
#[test]
fn regression_a_close_in_waiting_meets_a_resuming_peer() {
    let mut pair = Pair::connected(22, TransportConfig::default(), LINK);
    pair.run(SECOND);
    let held = Rc::new(Cell::new(true));
    come_back(&mut pair, &held, true);
    assert!(pair.events(End::Server).contains(&Event::PeerSuspended));
    pair.send(End::Server, Service::ReliableSequenced, "to be delivered");
    pair.close(End::Server, 1, "here");
    pair.run(Duration::from_millis(500));
    held.set(false);
    closes_politely(&mut pair, "waiting");
}

/// The patience with a close does not count time while the peer is out of reach. After the peer came back over a new
/// connection, it did.
#[test]
fn regression_a_close_through_an_outage_keeps_its_patience() {
    let mut pair = Pair::connected(23, TransportConfig::default(), LINK);
    pair.run(SECOND);
    pair.relink("loss=100%");
    pair.send(End::Server, Service::ReliableSequenced, "to be delivered");
    pair.close(End::Server, 1, "here");
    // Suspending takes as long as a close may.
    come_back(&mut pair, &Rc::new(Cell::new(false)), false);
    closes_politely(&mut pair, "patience");
}
