//! A polite close delivers what was queued, also through an outage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use whimbrel_proto::{CloseReason, Event, Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

const SECOND: Duration = Duration::from_secs(1);
const LINK: &str = "rate=4mbit,delay=25ms,queue=200ms";

fn config() -> TransportConfig {
    TransportConfig::default()
}

/// Queues a second of data at `from`, closes at `closer`, and cuts the link for `outage` in the midst of it; what arrived.
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
    // More than the packets of the handshake hold, and on some seeds those are lost.
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
