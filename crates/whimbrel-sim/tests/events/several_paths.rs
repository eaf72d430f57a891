//! Paths that die and come back, and the primary that follows them.

use bytes::Bytes;
use tracing::Level;
use whimbrel_proto::{PathId, PathState, Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::collected::{Collected, Told};
use super::{LINK, SECOND, id, link, of, one};

const DARK: &str = "rate=10mbit, delay=10ms, loss=100%";
const SLOWER: &str = "rate=10mbit, delay=12ms, queue=100ms";

/// A pair with two networks, of which the first is the better one, and the ids of its ends' connections.
fn two(seed: u64) -> (Pair, [String; 2]) {
    let mut pair = Pair::connected(seed, TransportConfig::default(), LINK);
    let ids = End::BOTH.map(|end| id(&mut pair, end));
    pair.world.add_network(pair.client, link(SLOWER), link(SLOWER));
    let (client, server) = (pair.handle(End::Client), pair.handle(End::Server));
    pair.world.announce(SERVER, server);
    pair.world.announce(pair.client, client);
    assert!(pair.run_until(5 * SECOND, |pair| End::BOTH.iter().all(|end| active(pair, *end) == 2)));
    (pair, ids)
}

fn active(pair: &mut Pair, end: End) -> usize {
    pair.stats(end).paths.iter().filter(|path| path.state == PathState::Active).count()
}

fn talk(pair: &mut Pair, seconds: u32) {
    for _ in 0..seconds * 100 {
        for end in End::BOTH {
            pair.send(end, Service::ReliableUnsequenced, Bytes::from_static(&[3; 500]));
            pair.recv(end);
        }
        pair.run(SECOND / 100);
    }
}

fn primary(pair: &mut Pair) -> PathId {
    pair.stats(End::Client).paths.iter().find(|path| path.primary).expect("there is one").id
}

/// Returns the states of one path of a connection that the events tell, each with its reason.
fn states<'a>(events: &'a [Told], connection: &str, path: PathId) -> Vec<(&'a str, &'a str)> {
    let of_path = of(events, connection, "path changed")
        .into_iter()
        .filter(|told| told.field("path") == path.0.to_string());
    of_path.map(|told| (told.field("new"), told.field("reason"))).collect()
}

#[test]
fn a_path_that_dies_and_comes_back_and_the_primary_that_changes_twice() {
    let ((first, other, ids), events) = Collected::during(|| {
        let (mut pair, ids) = two(1);
        talk(&mut pair, 1);
        let first = primary(&mut pair);
        pair.relink_over(0, DARK);
        talk(&mut pair, 2);
        let other = primary(&mut pair);
        pair.relink_over(0, LINK);
        talk(&mut pair, 8);
        assert_eq!(primary(&mut pair), first, "it is back");
        (first, other, ids)
    });
    assert_ne!(first, other);
    for id in &ids {
        let states = states(&events, id, first);
        let at = |state| states.iter().position(|(new, _)| *new == state);
        assert!(at("Suspect").is_some() && at("Suspect") < at("Down"), "{states:?}");
        assert!(states.contains(&("Suspect", "packets are overdue and another path works")), "{states:?}");
        assert!(states.contains(&("Down", "three probes were not answered")), "{states:?}");
        assert_eq!(states.last(), Some(&("Active", "the peer answers again")));
        let lost: Vec<_> = of(&events, id, "packet lost");
        let on_first = lost.iter().filter(|told| told.field("path") == first.0.to_string());
        assert!(on_first.clone().any(|told| told.field("reason") == "its deadline has passed"), "{lost:?}");
        assert!(lost.iter().all(|told| told.level == Level::TRACE && !told.field("number").is_empty()));
        assert!(
            of(&events, id, "what is in flight goes another way")
                .iter()
                .any(|told| told.field("path") == first.0.to_string())
        );
    }
    let changes: Vec<_> = of(&events, &ids[0], "primary path changed");
    let said =
        |told: &&Told| [told.field("old"), told.field("path"), told.field("reason")].map(str::to_owned);
    let expected =
        |old: PathId, new: PathId, reason: &str| [old.0.to_string(), new.0.to_string(), reason.to_owned()];
    assert!(changes[1..].iter().all(|told| told.level == Level::INFO));
    let last: Vec<_> = changes.iter().rev().take(2).map(said).collect();
    assert_eq!(
        last,
        [
            expected(other, first, "the earlier primary works again"),
            expected(first, other, "the former primary does not work")
        ]
    );
}

#[test]
fn a_path_that_the_application_closes_says_so_at_both_ends() {
    let ((closed, ids), events) = Collected::during(|| {
        let (mut pair, ids) = two(2);
        let closed = primary(&mut pair);
        let now = pair.now();
        pair.connection(End::Client).close_path(now, closed);
        talk(&mut pair, 2);
        (closed, ids)
    });
    assert_eq!(states(&events, &ids[0], closed).last(), Some(&("Closed", "the application closed it")));
    assert_eq!(states(&events, &ids[1], closed).last(), Some(&("Closed", "the peer closed it")));
    let change = of(&events, &ids[0], "primary path changed").pop().expect("another is primary now");
    assert_eq!(change.field("reason"), "the former primary is closed or being left");
}

#[test]
fn a_wish_for_a_primary_path_is_the_reason_at_both_ends() {
    let (ids, events) = Collected::during(|| {
        let (mut pair, ids) = two(3);
        talk(&mut pair, 1);
        let before = primary(&mut pair);
        let paths = pair.stats(End::Client).paths;
        let other = paths.iter().find(|path| path.id != before).expect("there are two").id;
        let now = pair.now();
        pair.connection(End::Client).set_primary(now, other).expect("it is there");
        talk(&mut pair, 1);
        ids
    });
    let reason =
        |id: &str| of(&events, id, "primary path changed").pop().map(|told| told.field("reason").to_owned());
    assert_eq!(reason(&ids[0]).as_deref(), Some("this end asked for it"));
    assert_eq!(reason(&ids[1]).as_deref(), Some("the peer asked for it"));
}

#[test]
fn an_outage_begins_and_ends_and_is_persistent_congestion() {
    let (ids, events) = Collected::during(|| {
        let mut pair = Pair::connected(4, TransportConfig::default(), LINK);
        let ids = End::BOTH.map(|end| id(&mut pair, end));
        talk(&mut pair, 1);
        pair.relink(DARK);
        talk(&mut pair, 3);
        pair.relink(LINK);
        talk(&mut pair, 3);
        ids
    });
    for id in &ids {
        one(&events, id, "the peer is out of reach");
        let outage = one(&events, id, "the peer is within reach again").field("outage_ms");
        assert!((1000..4000).contains(&outage.parse().unwrap_or(0)), "{outage}");
        let spells: Vec<_> = of(&events, id, "persistent congestion");
        let begins: Vec<_> = spells.iter().map(|told| told.field("begins")).collect();
        assert_eq!(begins, ["true", "false"]);
    }
}
