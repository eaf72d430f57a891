//! The ends of connections: graceful, abrupt, or because a peer vanished.

use whimbrel_proto::session::{Outcome, Outgoing, SessionEvent};
use whimbrel_proto::{Cause, CloseReason, Event, Service, StreamId};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{MS, SECOND, config, numbered};

#[test]
fn a_polite_close_delivers_what_both_sides_have_queued() {
    for seed in 0..20 {
        let mut pair = Pair::connected(seed, config(), "delay=20ms,rate=2mbit,queue=100ms,loss=10%");
        for number in 0..200 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
            pair.send(End::Server, Service::ReliableUnsequenced, numbered(number, 1000));
        }
        pair.close(End::Client, 9, "that was all");
        let mut got = [0, 0];
        let closed = pair.run_until(12 * SECOND, |pair| {
            got[0] += pair.recv(End::Client).len();
            got[1] += pair.recv(End::Server).len();
            pair.both_closed()
        });
        assert!(closed, "seed {seed}");
        assert_eq!(
            got,
            [200, 200],
            "seed {seed}: {:?}",
            (pair.closed(End::Client), pair.closed(End::Server))
        );
        assert_eq!(pair.closed(End::Client), Some(CloseReason::Local));
        let Some(CloseReason::Peer(reason)) = pair.closed(End::Server) else { panic!("seed {seed}") };
        assert_eq!((reason.code, reason.text.raw()), (9, "that was all"));
    }
}

#[test]
fn closes_that_cross_end_both_sides_with_everything_delivered() {
    for seed in 0..20 {
        let mut pair = Pair::connected(seed, config(), "delay=20ms,rate=2mbit,queue=100ms,loss=10%");
        for number in 0..50 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
            pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
        }
        pair.close(End::Client, 1, "here");
        pair.close(End::Server, 2, "there");
        let mut got = [0, 0];
        let begin = pair.now();
        let closed = pair.run_until(12 * SECOND, |pair| {
            got[0] += pair.recv(End::Client).len();
            got[1] += pair.recv(End::Server).len();
            pair.both_closed()
        });
        assert!(closed, "seed {seed}");
        assert_eq!(got, [50, 50], "seed {seed}");
        let took = pair.now().since(begin);
        assert!(took < 5 * SECOND, "seed {seed}: not by patience running out: {took:?}");
    }
}

#[test]
fn an_abort_ends_both_sides_at_once_and_says_why() {
    let mut pair = Pair::connected(23, config(), "delay=20ms,rate=2mbit");
    for number in 0..500 {
        let message = Outgoing {
            tracked: true,
            ..Outgoing::new(StreamId(0), Service::ReliableSequenced, numbered(number, 1000))
        };
        pair.try_send(End::Client, message).unwrap();
    }
    pair.run(100 * MS);
    let now = pair.now();
    pair.connection(End::Client).abort(now, 77, "enough");
    assert!(pair.run_until(SECOND, Pair::both_closed));
    // The link's queue is sent before the last packet.
    assert!(pair.now().since(now) <= 130 * MS, "{:?}", pair.now().since(now));
    let Some(CloseReason::Aborted(Cause::Application, reason)) = pair.closed(End::Server) else {
        panic!("{:?}", pair.closed(End::Server))
    };
    assert_eq!((reason.code, reason.text.raw()), (77, "enough"));
    let outcomes =
        pair.news(End::Client).into_iter().filter(|news| matches!(news, SessionEvent::Outcome(..)));
    assert_eq!(outcomes.count(), 500, "every tracked message has an outcome");
}

#[test]
fn a_peer_that_is_killed_is_unreachable_soon_and_given_up_in_the_end() {
    let mut config = config();
    config.idle_timeout = 20 * SECOND;
    config.reattach = None;
    let mut pair = Pair::connected(24, config, "delay=20ms,rate=2mbit,queue=100ms");
    for number in 0..2000 {
        let message = Outgoing {
            tracked: true,
            ..Outgoing::new(StreamId(0), Service::ReliableSequenced, numbered(number, 1000))
        };
        pair.try_send(End::Client, message).unwrap();
    }
    pair.run(2 * SECOND);
    pair.world.kill(SERVER);
    let killed = pair.now();
    assert!(pair.run_until(SECOND, |pair| pair.events(End::Client).contains(&Event::PeerUnreachable)));
    assert!(pair.run_until(25 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::TimedOut));
    let took = pair.now().since(killed);
    assert!(took <= 20 * SECOND + 40 * MS && took >= 19 * SECOND, "{took:?}");
    let outcomes: Vec<Outcome> = pair
        .news(End::Client)
        .into_iter()
        .filter_map(|news| match news {
            SessionEvent::Outcome(_, outcome) => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes.len(), 2000, "nothing is left without an outcome");
    assert!(outcomes.contains(&Outcome::Unknown));
    pair.run(60 * SECOND);
    let client = pair.client;
    assert_eq!(pair.world.endpoint(client).connections(), 0, "its ids are free");
}

#[test]
fn a_peer_is_unreachable_when_three_probes_went_unanswered_and_not_before() {
    for seed in 40..50 {
        let mut pair = Pair::connected(seed, config(), "delay=20ms");
        pair.run(5 * SECOND);
        pair.world.kill(SERVER);
        let sent = |pair: &mut Pair| {
            let now = pair.now();
            pair.connection(End::Client).stats(now).total.sent_packets
        };
        let before = sent(&mut pair);
        pair.send(End::Client, Service::ReliableSequenced, numbered(1, 100));
        let unreachable = |pair: &mut Pair| pair.events(End::Client).contains(&Event::PeerUnreachable);
        assert!(pair.run_until(2 * SECOND, unreachable));
        // The message, its repetition because it is small, and the probes.
        let packets = sent(&mut pair) - before;
        assert!((4..=5).contains(&packets), "seed {seed}: {packets} packets");
    }
}

#[test]
fn a_restarted_server_is_noticed_at_once() {
    let mut pair = Pair::connected(25, config(), "delay=20ms,rate=2mbit");
    pair.run(SECOND);
    pair.world.restart_server();
    pair.send(End::Client, Service::ReliableSequenced, numbered(1, 100));
    let begin = pair.now();
    assert!(pair.run_until(SECOND, |pair| pair.events(End::Client).contains(&Event::Detached)));
    assert!(pair.now().since(begin) <= 50 * MS, "one round trip: {:?}", pair.now().since(begin));
    // Then the client asks by a handshake whether the server has the session.
    assert!(pair.run_until(SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
    assert!(pair.now().since(begin) <= 130 * MS, "and two more: {:?}", pair.now().since(begin));
}

#[test]
fn a_restarted_server_ends_the_session_at_once_where_it_does_not_outlive_its_connection() {
    let mut config = config();
    config.reattach = None;
    let mut pair = Pair::connected(25, config, "delay=20ms,rate=2mbit");
    pair.run(SECOND);
    pair.world.restart_server();
    pair.send(End::Client, Service::ReliableSequenced, numbered(1, 100));
    let begin = pair.now();
    assert!(pair.run_until(SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
    assert!(pair.now().since(begin) <= 50 * MS, "one round trip: {:?}", pair.now().since(begin));
}
