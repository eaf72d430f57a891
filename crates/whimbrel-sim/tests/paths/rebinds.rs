//! NAT rebindings while a path is half open or half closed: one end knows what the other does not know yet.

use std::cell::Cell;
use std::rc::Rc;

use whimbrel_proto::ConnectionId;

use super::*;
use whimbrel_sim::world::TapVerdict;

const LINK: &str = "delay=10ms";

/// The packets that get through to the server on paths other than its first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    All,
    /// The packets that ask, and nothing after them.
    First,
}

/// Filters packets by `rule`. While anything is held back, nothing gets to the server on the first path.
fn hold(pair: &mut Pair, first: ConnectionId, rule: &Rc<Cell<Through>>) {
    let (client, rule) = (pair.world.address(pair.client), Rc::clone(rule));
    let mut passed = 0;
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        if from != client || rule.get() == Through::All {
            return TapVerdict::Pass;
        }
        let on_first = bytes[1..9] == first.0.to_be_bytes();
        passed += usize::from(!on_first);
        if on_first || passed > 1 { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
}

fn delivered_both_ways(pair: &mut Pair, limit: Duration) -> bool {
    for end in End::BOTH {
        pair.recv(end);
        pair.send(end, Service::ReliableSequenced, "are you there?");
    }
    let mut got = [0, 0];
    pair.run_until(limit, |pair| {
        for (got, end) in got.iter_mut().zip(End::BOTH) {
            *got += pair.recv(end).len();
        }
        got.iter().all(|got| *got > 0)
    })
}

/// The server's NAT rebound twice. The client had opened a path to the first new address and closed the old one. The
/// server had not proven the new path and kept using the old one. Its probes arrived there and showed the client its
/// address, but a closed path follows no address. So both sent to addresses that no longer existed until the idle
/// timeout.
#[test]
fn regression_a_peer_is_followed_that_has_not_heard_that_its_path_is_closed() {
    let mut pair = Pair::connected(1, config(), LINK);
    announce(&mut pair);
    pair.run(SECOND);
    let (first, rule) = (pair.connection(End::Server).local_id(), Rc::new(Cell::new(Through::First)));
    hold(&mut pair, first, &rule);
    pair.world.rebind(SERVER);
    announce(&mut pair);
    // The client keeps the old path until the server may send on the new one. Formerly it closed the old path before
    // that.
    pair.run(5 * SECOND);
    // The server's challenges are spent, and its allowance covers no further one.
    pair.run(3 * SECOND);
    pair.world.rebind(SERVER);
    rule.set(Through::All);
    let done = delivered_both_ways(&mut pair, 5 * SECOND);
    assert!(done, "{:?} {:?}", pair.stats(End::Client).paths, pair.stats(End::Server).paths);
}

/// A path over the second network that answered the client, while the server gets no answer to its own challenge.
/// Everything that the server sends there except its answer is lost until the cell says otherwise.
fn half_open(seed: u64) -> (Pair, Rc<Cell<bool>>) {
    let mut pair = Pair::connected(seed, config(), LINK);
    pair.world.add_network(pair.client, link(LINK), link(LINK));
    let second = pair.world.addresses(SERVER)[1];
    let (dark, mut heard) = (Rc::new(Cell::new(true)), 0);
    let darkness = Rc::clone(&dark);
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        // It also has a SACK, and is longer than a challenge.
        let is_answer = bytes.len() > 40;
        heard += usize::from(from == second && is_answer);
        let lost = from == second && darkness.get() && !(is_answer && heard == 1);
        if lost { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    announce(&mut pair);
    let up = |pair: &mut Pair| pair.events(End::Client).iter().any(|event| matches!(event, Event::PathUp(_)));
    assert!(pair.run_until(5 * SECOND, up), "{:?}", pair.events(End::Client));
    (pair, dark)
}

/// The server had one path that it had not proven, and no other that worked; the client sent there. When the server's
/// NAT rebound, it heard nothing more. A server did not probe then: it waited for the client to send something.
#[test]
fn regression_a_server_asks_on_its_only_path_after_its_nat_rebound() {
    let (mut pair, dark) = half_open(2);
    let server = pair.handle(End::Server);
    pair.relink_over(0, DARK);
    bulk(&mut pair, 2 * SECOND);
    assert_eq!(active(&mut pair, End::Server), 0, "{:?}", pair.stats(End::Server).paths);
    pair.world.rebind_over(1, SERVER);
    pair.world.announce(SERVER, server);
    dark.set(false);
    let done = delivered_both_ways(&mut pair, 10 * SECOND);
    assert!(done, "{:?} {:?}", pair.stats(End::Client).paths, pair.stats(End::Server).paths);
}

/// The client closed its old path as soon as the new one answered, and reported that there. The server had not proven
/// the new path and forgot the old one. Then it had no path to send or probe on.
#[test]
fn regression_a_path_is_not_closed_that_the_server_cannot_do_without() {
    let (mut pair, dark) = half_open(4);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    pair.world.take_down(client, 0);
    pair.world.announce(client, handle);
    pair.run(2 * SECOND);
    let left = pair.events(End::Client).iter().any(|event| matches!(event, Event::PathClosed(_)));
    assert!(left, "the client uses it no more");
    let paths =
        |pair: &mut Pair| pair.stats(End::Server).paths.iter().map(|path| path.id.0).collect::<Vec<_>>();
    assert!(paths(&mut pair).contains(&0), "{:?}", pair.events(End::Server));
    dark.set(false);
    assert!(delivered_both_ways(&mut pair, 5 * SECOND));
    pair.run(2 * SECOND);
    assert!(!paths(&mut pair).contains(&0), "then it is told: {:?}", pair.stats(End::Server).paths);
}

/// Packets on one path were acknowledged over another, seconds later because there was no other before. The delay was
/// taken for the round trip of a path that had no measurement yet. The path then waited long to retransmit, and ids
/// were held for half a minute after the end.
#[test]
fn regression_a_report_that_waited_for_a_way_is_no_round_trip() {
    let mut pair = Pair::connected(3, config(), LINK);
    pair.world.add_network(pair.client, link(LINK), link(LINK));
    let second = pair.world.addresses(pair.client)[1];
    let mut passed = 0;
    pair.world.set_tap(Box::new(move |_, from, _, _| {
        passed += usize::from(from == second);
        if from == second && passed > 1 { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    announce(&mut pair);
    let up = |pair: &mut Pair| pair.events(End::Client).iter().any(|event| matches!(event, Event::PathUp(_)));
    assert!(pair.run_until(5 * SECOND, up), "{:?}", pair.events(End::Client));
    pair.relink_over(0, DARK);
    pair.run(6 * SECOND);
    pair.relink_over(0, LINK);
    assert!(delivered_both_ways(&mut pair, 5 * SECOND));
    pair.run(SECOND);
    let rtts: Vec<Duration> = pair.stats(End::Server).paths.iter().map(|path| path.rtt).collect();
    assert!(rtts.iter().all(|rtt| *rtt < SECOND), "{rtts:?}");
    pair.close(End::Client, 0, "");
    assert!(pair.run_until(5 * SECOND, Pair::both_closed));
    pair.run(3 * SECOND);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 0, "ids are free");
}

/// The client's NAT rebound, and the server's while it was challenging. Each end heard the other from an unknown
/// address, and answered challenges at the other's old address. So they challenged each other without end, and the
/// silence that ends a session never came.
#[test]
fn regression_both_ends_move_within_a_round_trip() {
    let mut pair = Pair::connected(5, config(), LINK);
    pair.run(SECOND);
    pair.world.rebind(pair.client);
    pair.send(End::Client, Service::ReliableSequenced, "from elsewhere");
    // It has arrived, but the server's challenge of the new address has not.
    pair.run(15 * MS);
    pair.world.rebind(SERVER);
    assert!(delivered_both_ways(&mut pair, 5 * SECOND), "{:?}", pair.events(End::Server));
    let moved = |event: &Event| matches!(event, Event::PeerAddressChanged { .. });
    assert!(End::BOTH.iter().all(|end| pair.events(*end).iter().any(moved)));
}

/// A network was gone for a moment while its path was being opened: the client had closed the path, and the server
/// had proven it. When the only other path failed at both ends, no new path could be opened on the same addresses,
/// and the server could not be told its id.
#[test]
fn regression_a_network_is_gone_for_a_moment_while_its_path_opens() {
    let mut pair = Pair::connected(6, config(), LINK);
    pair.world.add_network(pair.client, link(LINK), link(LINK));
    announce(&mut pair);
    let opens = |pair: &mut Pair| pair.stats(End::Client).paths.len() > 2;
    assert!(pair.run_until(SECOND, opens));
    pair.run(5 * MS);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    pair.world.take_down(client, 1);
    pair.world.announce(client, handle);
    pair.world.rebind(client);
    pair.world.rebind(SERVER);
    pair.world.set_up(client, 1);
    pair.world.announce(client, handle);
    let done = delivered_both_ways(&mut pair, 5 * SECOND);
    assert!(done, "{:?} {:?}", pair.stats(End::Client).paths, pair.stats(End::Server).paths);
}

/// The application closed the only working path, because it was not known yet that the other had failed.
#[test]
fn regression_a_path_that_was_closed_is_opened_again_if_nothing_else_works() {
    let mut pair = two(7, config(), LINK, LINK);
    pair.run(2 * SECOND);
    pair.world.rebind(pair.client);
    pair.world.rebind(SERVER);
    let now = pair.now();
    let second = pair.stats(End::Client).paths.iter().map(|path| path.id).max().expect("there are two");
    pair.connection(End::Client).close_path(now, second);
    assert!(delivered_both_ways(&mut pair, 10 * SECOND), "{:?}", pair.events(End::Client));
    // As soon as another path works, this one is closed again.
    announce(&mut pair);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    let alone = |pair: &mut Pair| {
        let paths = pair.stats(End::Client).paths;
        paths.len() == 1 && paths[0].remote == server && paths[0].local == Some(client.ip())
    };
    assert!(pair.run_until(60 * SECOND, alone), "{:?}", pair.stats(End::Client).paths);
    pair.run(10 * SECOND);
    assert!(alone(&mut pair), "and stays away: {:?}", pair.stats(End::Client).paths);
    assert!(delivered_both_ways(&mut pair, 5 * SECOND));
}

/// Packets that were held for seconds caused a long round-trip estimate. A lost challenge was not repeated for twice
/// that time, although packets kept arriving from the new address.
#[test]
fn regression_a_challenge_is_made_again_soon_however_long_the_round_trip_was() {
    let mut pair = Pair::connected(8, config(), LINK);
    pair.relink("delay=3s");
    for _ in 0..10 {
        assert!(delivered_both_ways(&mut pair, 30 * SECOND));
    }
    pair.run(20 * SECOND);
    pair.relink(LINK);
    pair.world.rebind(pair.client);
    pair.send(End::Client, Service::ReliableSequenced, "from elsewhere");
    // It is in flight; the challenge that it causes gets lost.
    pair.run(5 * MS);
    pair.relink(DARK);
    pair.run(500 * MS);
    pair.relink(LINK);
    let moved = |pair: &mut Pair| {
        pair.events(End::Server).iter().any(|event| matches!(event, Event::PeerAddressChanged { .. }))
    };
    assert!(pair.run_until(3 * SECOND, moved), "{:?}", pair.events(End::Server));
}
