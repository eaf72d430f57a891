//! The primary path, and which end chooses it.

use bytes::Bytes;
use whimbrel_proto::{
    Event, PathId, PathState, PathStats, PrimaryRule, Service, SetPrimaryError, TransportConfig,
};
use whimbrel_sim::pair::{End, Pair};

use super::{ALIKE, DARK, SECOND, bulk, config, two};

/// The path over a network, with the id that both ends use.
pub(super) fn over(pair: &mut Pair, network: usize) -> PathId {
    let local = pair.world.addresses(pair.client)[network].ip();
    let stats = pair.stats(End::Client);
    let active = |path: &&PathStats| path.local == Some(local) && path.state == PathState::Active;
    stats.paths.iter().find(active).expect("it works").id
}

pub(super) fn primary(pair: &mut Pair, end: End) -> PathId {
    pair.stats(end).paths.iter().find(|path| path.primary).expect("there is always one").id
}

/// The server sends as much as it can for `time`.
fn download(pair: &mut Pair, time: std::time::Duration) {
    let (end, payload) = (pair.now() + time, Bytes::from(vec![7; 8192]));
    pair.run_until(time, |pair| {
        while pair.connection(End::Server).session_ref().queue_room().1 > 1_000_000 {
            pair.send(End::Server, Service::ReliableSequenced, payload.clone());
        }
        pair.recv(End::Client);
        pair.now() >= end
    });
}

fn with_rule(primary_rule: PrimaryRule) -> TransportConfig {
    let mut transport = config();
    transport.primary_rule = primary_rule;
    transport
}

/// A near network that carries little, and a far one that carries most.
fn near_and_far(rule: PrimaryRule) -> (Pair, PathId) {
    let thin = "rate=2mbit,delay=10ms,queue=100ms";
    let mut pair = two(1, with_rule(rule), thin, "rate=20mbit,delay=30ms,queue=100ms");
    let far = over(&mut pair, 1);
    download(&mut pair, 3 * SECOND);
    (pair, far)
}

#[test]
fn the_path_on_which_most_arrives_becomes_the_primary_where_that_is_the_rule() {
    let (mut pair, far) = near_and_far(PrimaryRule::MostReceived);
    assert_eq!(primary(&mut pair, End::Client), far, "the receiver sees it");
    assert_eq!(primary(&mut pair, End::Server), far, "the sender is told");
    let changes = |pair: &mut Pair, end| {
        pair.events(end).iter().filter(|event| matches!(event, Event::PrimaryChanged(_))).count()
    };
    let before = End::BOTH.map(|end| changes(&mut pair, end));
    download(&mut pair, 10 * SECOND);
    assert_eq!(End::BOTH.map(|end| changes(&mut pair, end)), before, "and it stays");
    let (mut pair, far) = near_and_far(PrimaryRule::LossAndRtt);
    assert_ne!(primary(&mut pair, End::Client), far, "the near one by default");
    assert_ne!(primary(&mut pair, End::Server), far);
}

/// A host moves out of one network into another: the case of the paper.
#[test]
fn a_receiver_that_walks_away_is_followed() {
    for rule in [PrimaryRule::MostReceived, PrimaryRule::LossAndRtt] {
        let mut pair = two(2, with_rule(rule), ALIKE, "rate=10mbit,delay=12ms,queue=100ms");
        let [old, new] = [0, 1].map(|network| over(&mut pair, network));
        download(&mut pair, SECOND);
        for loss in [10, 30, 50, 70] {
            let fading = format!("rate=10mbit,delay=10ms,queue=100ms,loss={loss}%");
            pair.relink_over(0, &fading);
            download(&mut pair, SECOND);
        }
        for end in End::BOTH {
            assert_eq!(primary(&mut pair, end), new, "{rule:?} {end:?}: {old:?} fades");
        }
    }
}

#[test]
fn alike_paths_do_not_take_turns() {
    let mut pair = two(3, with_rule(PrimaryRule::MostReceived), ALIKE, ALIKE);
    download(&mut pair, 20 * SECOND);
    let changes = pair.events(End::Client).iter().filter(|e| matches!(e, Event::PrimaryChanged(_))).count();
    assert!(changes <= 4, "{changes} in 20 s");
}

#[test]
fn either_end_may_ask_and_the_latest_counts() {
    let mut pair = two(4, config(), ALIKE, ALIKE);
    let paths = [over(&mut pair, 0), over(&mut pair, 1)];
    for (round, end) in [End::Client, End::Server, End::Client, End::Server].into_iter().enumerate() {
        let (now, wanted) = (pair.now(), paths[(round + 1) % 2]);
        pair.connection(end).set_primary(now, wanted).expect("it is there");
        bulk(&mut pair, SECOND);
        for end in End::BOTH {
            assert_eq!(primary(&mut pair, end), wanted, "round {round}, {end:?}");
        }
    }
    let now = pair.now();
    let none = pair.connection(End::Client).set_primary(now, PathId(77));
    assert_eq!(none, Err(SetPrimaryError::NoPath));
}

#[test]
fn wishes_that_cross_leave_both_ends_on_the_clients() {
    let mut pair = two(6, config(), ALIKE, ALIKE);
    let paths = [over(&mut pair, 0), over(&mut pair, 1)];
    for round in 0..4 {
        let now = pair.now();
        let [wanted, other] = [paths[round % 2], paths[(round + 1) % 2]];
        pair.connection(End::Client).set_primary(now, wanted).expect("it is there");
        pair.connection(End::Server).set_primary(now, other).expect("it is there");
        bulk(&mut pair, SECOND);
        for end in End::BOTH {
            assert_eq!(primary(&mut pair, end), wanted, "round {round}, {end:?}");
        }
    }
}

#[test]
fn a_peer_may_not_ask_for_what_this_end_would_spare() {
    let mut pair = two(7, config(), ALIKE, ALIKE);
    let [free, dear] = [0, 1].map(|network| over(&mut pair, network));
    let (client, handle, now) = (pair.client, pair.handle(End::Client), pair.now());
    pair.world.announce_at_cost(client, handle, &[0, 5]);
    pair.connection(End::Server).set_primary(now, dear).expect("it is there");
    bulk(&mut pair, SECOND);
    assert_eq!(primary(&mut pair, End::Client), free, "the server cannot know that it costs");
    assert_eq!(primary(&mut pair, End::Server), dear, "where it costs nothing");
    pair.world.announce_at_cost(client, handle, &[0, 0]);
    bulk(&mut pair, SECOND);
    assert_eq!(primary(&mut pair, End::Client), dear, "a wish that holds once it costs no more");
    pair.world.announce_at_cost(client, handle, &[0, 5]);
    pair.connection(End::Client).set_primary(now, dear).expect("it is there");
    bulk(&mut pair, SECOND);
    assert_eq!(primary(&mut pair, End::Client), dear, "what this end asks for itself counts");
}

#[test]
fn a_wish_waits_while_its_path_fails_and_holds_again_after() {
    let mut pair = two(5, config(), ALIKE, ALIKE);
    let [other, wanted] = [0, 1].map(|network| over(&mut pair, network));
    let now = pair.now();
    pair.connection(End::Client).set_primary(now, wanted).expect("it is there");
    bulk(&mut pair, SECOND);
    for dark in [true, false] {
        pair.relink_over(1, if dark { DARK } else { ALIKE });
        bulk(&mut pair, 2 * SECOND);
        for end in End::BOTH {
            assert_eq!(primary(&mut pair, end), if dark { other } else { wanted }, "{end:?} dark: {dark}");
        }
    }
}

#[test]
fn a_wish_that_comes_late_or_names_no_path_changes_nothing() {
    let mut pair = two(6, config(), ALIKE, ALIKE);
    let [first, second] = [0, 1].map(|network| over(&mut pair, network));
    let feed = |pair: &mut Pair, sequence: u8, path: PathId| {
        let now = pair.now();
        let block = Bytes::from(vec![34, sequence, path.0 as u8]);
        pair.connection(End::Server).handle_blocks(now, block);
        pair.run(SECOND);
        primary(pair, End::Server)
    };
    let other = if primary(&mut pair, End::Server) == first { second } else { first };
    assert_eq!(feed(&mut pair, 0, other), other, "numbers begin at 0");
    assert_eq!(feed(&mut pair, 9, second), second);
    for stale in [8, 9] {
        assert_eq!(feed(&mut pair, stale, first), second, "{stale}");
    }
    let working = feed(&mut pair, 10, PathId(60));
    assert!([first, second].contains(&working), "data goes on");
    assert_eq!(pair.closed(End::Server), None);
}
