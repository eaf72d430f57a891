//! Sessions that leave their connections and go on over others, on a virtual clock.

use std::time::Duration;

use whimbrel_proto::session::Outgoing;
use whimbrel_proto::session::SnapshotError;
use whimbrel_proto::{
    CloseReason, Connection, Event, Handle, ResumeError, Service, StreamId, SuspendMode, Suspended,
    TransportConfig,
};
use whimbrel_sim::link::LinkConfig;
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

const LINK: &str = "rate=10mbit, delay=20ms, loss=2%";
const SECOND: Duration = Duration::from_secs(1);
const RS: Service = Service::ReliableSequenced;

fn link() -> LinkConfig {
    LINK.parse().expect("a test's link is well written")
}

fn number(message: &[u8]) -> u64 {
    u64::from_be_bytes(message[..8].try_into().expect("eight bytes"))
}

fn send(pair: &mut Pair, end: End, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(if number % 50 == 7 { 5000 } else { 40 }, number as u8);
        pair.send(end, RS, payload);
    }
}

fn numbers(connection: &mut Connection, now: whimbrel_proto::Time) -> Vec<u64> {
    std::iter::from_fn(|| connection.session().recv(now)).map(|message| number(&message.payload)).collect()
}

/// Suspends the client in the middle of traffic; its state.
fn suspend(pair: &mut Pair, end: End, mode: SuspendMode) -> Suspended {
    let now = pair.now();
    pair.connection(end).suspend(now, mode, None).expect("it can be suspended");
    let over = pair.run_until(15 * SECOND, |pair| pair.closed(end).is_some());
    assert!(over && pair.closed(end) == Some(CloseReason::Suspended), "{:?}", pair.closed(end));
    let (node, handle) = pair.place(end).expect("it is there");
    pair.world.take_suspended(node, handle).expect("the state is there")
}

fn events(pair: &mut Pair, node: usize, handle: Handle) -> Vec<Event> {
    let peer = pair.world.try_peer(node, handle);
    peer.map(|peer| peer.events.iter().map(|(_, event)| event.clone()).collect()).unwrap_or_default()
}

fn closed(pair: &mut Pair, node: usize, handle: Handle) -> Option<CloseReason> {
    events(pair, node, handle).into_iter().find_map(|event| match event {
        Event::Closed(why) => Some(why),
        _ => None,
    })
}

#[test]
fn a_session_goes_on_from_another_host_and_nothing_is_lost_or_doubled() {
    for seed in 0..20 {
        let mut pair = Pair::connected(seed, TransportConfig::default(), LINK);
        send(&mut pair, End::Client, 0..400);
        send(&mut pair, End::Server, 0..400);
        pair.run(Duration::from_millis(30 + 7 * seed));
        let mut at_server: Vec<u64> = pair.recv(End::Server).iter().map(|m| number(&m.payload)).collect();
        let mut at_client: Vec<u64> = pair.recv(End::Client).iter().map(|m| number(&m.payload)).collect();
        let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
        assert!(state.standby.is_some(), "seed {seed}: the peer answered");
        assert!(pair.events(End::Server).contains(&Event::PeerSuspended), "seed {seed}");
        // The peer's sends queue.
        send(&mut pair, End::Server, 400..500);
        pair.run(30 * SECOND);
        let state = Suspended::from_bytes(&state.to_bytes()).expect("it was just written");
        let client = pair.client;
        pair.world.kill(client);
        let host = pair.world.add_host_of(client, link(), link());
        let handle = pair.world.resume(host, &state, None).expect("it can be resumed");
        pair.run(20 * SECOND);
        assert!(events(&mut pair, host, handle).contains(&Event::Connected), "seed {seed}");
        let resumed = |event: &Event| matches!(event, Event::PeerResumed { .. });
        assert!(pair.events(End::Server).iter().any(resumed), "seed {seed}: {:?}", pair.events(End::Server));
        let now = pair.now();
        for number in 400u64..450 {
            let payload = number.to_be_bytes().to_vec().into();
            let connection = &mut pair.world.peer(host, handle).connection;
            connection.session().send(now, Outgoing::new(StreamId(0), RS, payload)).expect("there is room");
        }
        pair.run(10 * SECOND);
        at_server.extend(pair.recv(End::Server).iter().map(|message| number(&message.payload)));
        let now = pair.now();
        at_client.extend(numbers(&mut pair.world.peer(host, handle).connection, now));
        assert!(at_server == (0..450).collect::<Vec<_>>(), "seed {seed}: {at_server:?}");
        assert!(at_client == (0..500).collect::<Vec<_>>(), "seed {seed}: {at_client:?}");
        let stats = pair.world.peer(host, handle).connection.session().stats();
        assert_eq!(stats.outstanding, 0, "seed {seed}");
        assert_eq!(pair.session(End::Server).stats().outstanding, 0, "seed {seed}");
    }
}

#[test]
fn flushing_leaves_nothing_to_carry() {
    let mut pair = Pair::connected(1, TransportConfig::default(), LINK);
    send(&mut pair, End::Client, 0..300);
    suspend(&mut pair, End::Client, SuspendMode::Flush);
    assert_eq!(pair.recv(End::Server).len(), 300);
}

#[test]
fn a_server_may_move_too() {
    let mut pair = Pair::connected(3, TransportConfig::default(), LINK);
    send(&mut pair, End::Server, 0..100);
    let state = suspend(&mut pair, End::Server, SuspendMode::Snapshot);
    pair.run(SECOND);
    let client = pair.client;
    let to = pair.world.address(client);
    let handle = pair.world.resume(SERVER, &state, Some(to)).expect("it can be resumed");
    pair.run(10 * SECOND);
    assert!(events(&mut pair, SERVER, handle).contains(&Event::Connected));
    assert_eq!(pair.recv(End::Client).len(), 100);
    send(&mut pair, End::Client, 0..10);
    pair.run(SECOND);
    let now = pair.now();
    assert_eq!(numbers(&mut pair.world.peer(SERVER, handle).connection, now), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_state_is_resumed_once() {
    let mut pair = Pair::connected(4, TransportConfig::default(), LINK);
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    let client = pair.client;
    let (one, two) =
        (pair.world.add_host_of(client, link(), link()), pair.world.add_host_of(client, link(), link()));
    let first = pair.world.resume(one, &state, None).expect("it can be resumed");
    pair.run(5 * SECOND);
    let second = pair.world.resume(two, &state, None).expect("nothing is known here yet");
    pair.run(5 * SECOND);
    assert_eq!(closed(&mut pair, two, second), Some(CloseReason::AlreadyResumed));
    assert_eq!(closed(&mut pair, one, first), None, "the first goes on");
    send(&mut pair, End::Server, 0..5);
    pair.run(SECOND);
    let now = pair.now();
    assert_eq!(numbers(&mut pair.world.peer(one, first).connection, now).len(), 5);
}

#[test]
fn two_that_come_at_once_are_told_apart() {
    for seed in 0..10 {
        let mut pair = Pair::connected(seed, TransportConfig::default(), LINK);
        let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
        let client = pair.client;
        let hosts = [(); 2].map(|()| pair.world.add_host_of(client, link(), link()));
        let handles = hosts.map(|host| pair.world.resume(host, &state, None).expect("it can be resumed"));
        send(&mut pair, End::Server, 0..20);
        pair.run(90 * SECOND);
        let now = pair.now();
        let got: Vec<usize> = (0..2)
            .map(|at| {
                let peer = pair.world.try_peer(hosts[at], handles[at]);
                peer.map_or(0, |peer| numbers(&mut peer.connection, now).len())
            })
            .collect();
        assert_eq!(got.iter().sum::<usize>(), 20, "seed {seed}: {got:?}");
        assert!(got.contains(&0), "seed {seed}: {got:?}");
    }
}

#[test]
fn who_comes_too_late_is_told_and_so_was_the_peer() {
    let mut short = TransportConfig::default();
    short.standby_time = 20 * SECOND;
    let mut pair = Pair::connected(5, short, LINK);
    send(&mut pair, End::Server, 0..5);
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    pair.run(19 * SECOND);
    assert_eq!(pair.closed(End::Server), None);
    pair.run(2 * SECOND);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::StandbyExpired));
    for wait in [0, 60] {
        pair.run(wait * SECOND);
        let client = pair.client;
        let handle = pair.world.resume(client, &state, None).expect("nothing is known here");
        pair.run(8 * SECOND);
        assert_eq!(
            closed(&mut pair, client, handle),
            Some(CloseReason::ResumeExpired),
            "after {wait} s more"
        );
    }
    let handle = {
        pair.world.restart_server();
        let client = pair.client;
        pair.world.resume(client, &state, None).expect("nothing is known here")
    };
    pair.run(8 * SECOND);
    let client = pair.client;
    assert_eq!(closed(&mut pair, client, handle), Some(CloseReason::UnknownSession));
}

#[test]
fn a_peer_out_of_reach_finds_out_by_the_return() {
    let mut pair = Pair::connected(6, TransportConfig::default(), LINK);
    send(&mut pair, End::Client, 0..50);
    pair.relink("rate=10mbit, delay=20ms, loss=100%");
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    assert_eq!(state.standby, None, "nobody answered");
    let client = pair.client;
    let host = pair.world.add_host_of(client, link(), link());
    pair.world.resume(host, &state, None).expect("it can be resumed");
    pair.run(10 * SECOND);
    let got: Vec<u64> = pair.recv(End::Server).iter().map(|message| number(&message.payload)).collect();
    assert_eq!(got, (0..50).collect::<Vec<_>>());
}

#[test]
fn both_ends_suspended_at_once_meet_again() {
    for seed in 0..10 {
        let mut pair = Pair::connected(seed, TransportConfig::default(), LINK);
        send(&mut pair, End::Client, 0..100);
        send(&mut pair, End::Server, 0..100);
        pair.run(Duration::from_millis(25));
        let now = pair.now();
        for end in End::BOTH {
            pair.connection(end).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        }
        assert!(pair.run_until(25 * SECOND, Pair::both_closed), "seed {seed}");
        let states = End::BOTH.map(|end| {
            assert_eq!(pair.closed(end), Some(CloseReason::Suspended), "seed {seed}");
            let (node, handle) = pair.place(end).expect("it is there");
            pair.world.take_suspended(node, handle).expect("the state is there")
        });
        let far = pair.world.stand_by(SERVER, &states[1]).expect("it can be taken up");
        let client = pair.client;
        let near = pair.world.resume(client, &states[0], None).expect("it can be resumed");
        pair.run(10 * SECOND);
        let now = pair.now();
        for (node, handle) in [(SERVER, far), (client, near)] {
            let got = numbers(&mut pair.world.peer(node, handle).connection, now);
            assert_eq!(got, (0..100).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[test]
fn another_key_resumes_only_what_was_left_to_it() {
    for left in [false, true] {
        let mut pair = Pair::connected(7, TransportConfig::default(), LINK);
        let other = pair.world.add_client(TransportConfig::default(), link(), link());
        let key = pair.world.endpoint(other).public_key();
        let now = pair.now();
        let heir = left.then_some(key);
        pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, heir).expect("it can be suspended");
        assert!(pair.run_until(15 * SECOND, |pair| pair.closed(End::Client).is_some()));
        let (node, handle) = pair.place(End::Client).expect("it is there");
        let mut state = pair.world.take_suspended(node, handle).expect("the state is there");
        if !left {
            assert_eq!(pair.world.resume(other, &state, None), Err(ResumeError::Identity));
            // Even a thief who lies to its own endpoint.
            state.own_key = key;
        }
        let handle = pair.world.resume(other, &state, None).expect("it says that it may");
        pair.run(5 * SECOND);
        let expected = (!left).then_some(CloseReason::UnknownSession);
        assert_eq!(closed(&mut pair, other, handle), expected, "left to it: {left}");
    }
}

#[test]
fn one_peer_may_not_have_any_number_suspended() {
    let mut few = TransportConfig::default();
    few.max_standby = 0;
    let mut pair = Pair::connected(8, few, LINK);
    let now = pair.now();
    pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    pair.run(2 * SECOND);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::StandbyRefused));
    assert!(
        matches!(pair.closed(End::Client), Some(CloseReason::Aborted(..))),
        "{:?}",
        pair.closed(End::Client)
    );
}

#[test]
fn bytes_that_are_none_are_told_apart() {
    let mut pair = Pair::connected(9, TransportConfig::default(), LINK);
    send(&mut pair, End::Client, 0..20);
    let bytes = suspend(&mut pair, End::Client, SuspendMode::Snapshot).to_bytes();
    let error = |bytes: &[u8]| Suspended::from_bytes(bytes).expect_err("it is damaged");
    assert_eq!(error(b"no state"), SnapshotError::NotOne);
    let mut older = bytes.clone();
    older[4] = 0;
    assert_eq!(error(&older), SnapshotError::Version { found: 0 });
    for end in [5, 40, bytes.len() - 1] {
        assert!(matches!(error(&bytes[..end]), SnapshotError::Truncated | SnapshotError::Corrupt(_)));
    }
    let mut changed = bytes.clone();
    changed[100] ^= 1;
    assert!(matches!(error(&changed), SnapshotError::Corrupt(_)));
    assert!(Suspended::from_bytes(&bytes).is_ok());
}
