//! How a session ends that has no connection, or never gets another.

use whimbrel_proto::{CloseReason, Event, SuspendMode};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{DARK, LINK, SECOND, config, darken, detached, link, received, send};

#[test]
fn where_it_is_turned_off_the_session_ends_with_its_connection() {
    let mut config = config();
    config.reattach = None;
    let mut pair = Pair::connected(5, config, LINK);
    pair.relink(DARK);
    assert!(pair.run_until(20 * SECOND, Pair::both_closed));
    for end in End::BOTH {
        assert_eq!(pair.closed(end), Some(CloseReason::TimedOut));
    }
}

#[test]
fn a_peer_that_does_not_come_back_is_given_up_in_the_end() {
    let mut config = config();
    config.reattach = Some(60 * SECOND);
    let mut pair = Pair::connected(6, config, LINK);
    send(&mut pair, End::Client, 0..10);
    darken(&mut pair);
    pair.run(49 * SECOND);
    assert!(End::BOTH.iter().all(|end| pair.closed(*end).is_none()));
    assert!(pair.run_until(12 * SECOND, Pair::both_closed));
    for end in End::BOTH {
        assert_eq!(pair.closed(end), Some(CloseReason::TimedOut));
        assert!(matches!(pair.events(end).last(), Some(Event::Closed(_))));
    }
}

#[test]
fn a_peer_that_has_no_session_any_more_says_so() {
    let mut pair = Pair::connected(7, config(), LINK);
    darken(&mut pair);
    pair.world.restart_server();
    pair.relink(LINK);
    pair.run(3 * SECOND);
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
    // An end that waited less long also reports it.
    let mut pair = Pair::connected(8, config(), LINK);
    darken(&mut pair);
    let now = pair.now();
    pair.connection(End::Server).abort(now, 0, "");
    pair.run(SECOND);
    pair.relink(LINK);
    pair.run(6 * SECOND);
    assert!(matches!(pair.closed(End::Client), Some(CloseReason::TimedOut | CloseReason::Aborted(..))));
}

#[test]
fn one_peer_may_not_have_any_number_waiting() {
    let mut few = config();
    few.max_waiting = 0;
    let mut pair = Pair::connected(9, few, LINK);
    pair.relink(DARK);
    assert!(pair.run_until(20 * SECOND, |pair| pair.closed(End::Server).is_some()));
    assert_eq!(pair.closed(End::Server), Some(CloseReason::TimedOut));
}

#[test]
fn a_close_under_way_goes_on_afterwards() {
    for fin_sent in [false, true] {
        let mut pair = Pair::connected(10, config(), LINK);
        // Only the server hears: it closes, while the client has given the connection up and dials.
        send(&mut pair, End::Server, 0..20);
        if fin_sent {
            pair.run(SECOND);
            assert_eq!(received(&mut pair, End::Client).len(), 20);
        }
        let client = pair.client;
        pair.world.link(SERVER, client).reconfigure(link(DARK));
        pair.run(7 * SECOND);
        pair.close(End::Server, 3, "done");
        assert!(pair.run_until(20 * SECOND, |pair| detached(pair, End::Client)), "{fin_sent}");
        assert_eq!(pair.closed(End::Server), None, "{fin_sent}");
        pair.relink(LINK);
        pair.run(5 * SECOND);
        assert_eq!(received(&mut pair, End::Client).len(), if fin_sent { 0 } else { 20 });
        let closed = pair.closed(End::Client);
        assert!(matches!(&closed, Some(CloseReason::Peer(reason)) if reason.code == 3), "{closed:?}");
        assert_eq!(pair.closed(End::Server), Some(CloseReason::Local), "{fin_sent}");
    }
}

#[test]
fn a_session_without_a_connection_can_be_suspended_and_closed() {
    let mut pair = Pair::connected(11, config(), LINK);
    send(&mut pair, End::Client, 0..10);
    darken(&mut pair);
    send(&mut pair, End::Client, 10..20);
    let now = pair.now();
    pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("there is nobody to ask");
    let (node, handle) = pair.place(End::Client).expect("it is there");
    let state = pair.world.take_suspended(node, handle).expect("the state is there");
    pair.relink(LINK);
    let host = pair.world.add_host_of(node, link(LINK), link(LINK));
    pair.world.resume(host, &state, None).expect("it can be resumed");
    pair.run(3 * SECOND);
    assert_eq!(received(&mut pair, End::Server), (0..20).collect::<Vec<_>>());

    let mut pair = Pair::connected(12, config(), LINK);
    darken(&mut pair);
    pair.close(End::Client, 0, "");
    pair.run(SECOND);
    assert_eq!(pair.closed(End::Client), Some(CloseReason::Local));
}
