//! Tests of sessions that leave their connections and continue over others, on a virtual clock.

use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::session::SnapshotError;
use whimbrel_proto::session::StreamKind;
use whimbrel_proto::{
    CloseReason, Connection, Event, Handle, ListenConfig, ResumeError, Service, StreamId, SuspendMode,
    Suspended, TransportConfig,
};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, World};

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

/// Suspends an end in the middle of traffic and returns its state.
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
        assert!(state.peer_waits.is_some(), "seed {seed}: the peer answered");
        assert!(pair.events(End::Server).contains(&Event::PeerSuspended), "seed {seed}");
        // The peer's messages are queued.
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
fn who_has_left_says_nothing_more() {
    for seed in 0..10 {
        let mut pair = Pair::connected(seed, TransportConfig::default(), "rate=10mbit, delay=40ms");
        send(&mut pair, End::Server, 0..400);
        pair.run(Duration::from_millis(100));
        let now = pair.now();
        let (client, sent) = (pair.world.address(pair.client), std::rc::Rc::new(std::cell::Cell::new(0)));
        // Acknowledgements that this end sends before it gets the answer follow its SUSPEND, and are answered too.
        pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        assert!(pair.run_until(SECOND, |pair| pair.closed(End::Client).is_some()), "seed {seed}");
        let counted = std::rc::Rc::clone(&sent);
        pair.world.set_tap(Box::new(move |_, from, _, _| {
            counted.set(counted.get() + u32::from(from == client));
            whimbrel_sim::world::TapVerdict::Pass
        }));
        pair.run(5 * SECOND);
        assert_eq!(sent.get(), 0, "seed {seed}");
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
    short.wait_time = 20 * SECOND;
    let mut pair = Pair::connected(5, short, LINK);
    send(&mut pair, End::Server, 0..5);
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    pair.run(19 * SECOND);
    assert_eq!(pair.closed(End::Server), None);
    pair.run(2 * SECOND);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::WaitExpired));
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
fn who_gives_resuming_up_can_try_again() {
    let mut pair = Pair::connected(11, TransportConfig::default(), LINK);
    send(&mut pair, End::Client, 0..50);
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    let client = pair.client;
    for wait in [0, 25, 45] {
        let handle = pair.world.resume(client, &state, None).expect("it can be resumed");
        pair.run(Duration::from_millis(wait));
        let now = pair.now();
        pair.world.peer(client, handle).connection.close(now, 0, "");
        pair.run(5 * SECOND);
        assert_eq!(pair.closed(End::Server), None, "after {wait} ms");
        assert!(!events(&mut pair, client, handle).contains(&Event::Connected), "after {wait} ms");
    }
    pair.world.resume(client, &state, None).expect("it can be resumed");
    pair.run(5 * SECOND);
    let got: Vec<u64> = pair.recv(End::Server).iter().map(|message| number(&message.payload)).collect();
    assert_eq!(got, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_peer_out_of_reach_finds_out_by_the_return() {
    let mut pair = Pair::connected(6, TransportConfig::default(), LINK);
    send(&mut pair, End::Client, 0..50);
    pair.relink("rate=10mbit, delay=20ms, loss=100%");
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    assert_eq!(state.peer_waits, None, "nobody answered");
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
        let far = pair.world.wait_for_peer(SERVER, &states[1]).expect("it can be taken up");
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
fn a_peer_that_asks_without_end_is_answered_once() {
    let mut pair = Pair::connected(12, TransportConfig::default(), "rate=10mbit, delay=20ms");
    let now = pair.now();
    let connection = pair.connection(End::Client);
    connection.suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    // SUSPEND without an heir, as if it had crossed ours, as often as a packet has room for it.
    connection.handle_blocks(now, [35, 0].repeat(500).into());
    let (client, longest) = (pair.world.address(pair.client), std::rc::Rc::new(std::cell::Cell::new(0)));
    let seen = std::rc::Rc::clone(&longest);
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        seen.set(seen.get().max(if from == client { bytes.len() } else { 0 }));
        whimbrel_sim::world::TapVerdict::Pass
    }));
    pair.run(SECOND);
    assert!((30..100).contains(&longest.get()), "a packet of {} bytes", longest.get());
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
            // The same for a thief who lies to its own endpoint.
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
    few.max_waiting = 0;
    let mut pair = Pair::connected(8, few, LINK);
    let now = pair.now();
    pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    pair.run(2 * SECOND);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::WaitRefused));
    assert!(
        matches!(pair.closed(End::Client), Some(CloseReason::Aborted(..))),
        "{:?}",
        pair.closed(End::Client)
    );
}

#[test]
fn what_waits_is_counted_wherever_it_is() {
    const KINDS: [&str; 4] = ["nothing", "in flight", "in parts", "in a byte stream"];
    for kind in KINDS {
        let mut little = TransportConfig::default();
        little.max_waiting_bytes = 5_000;
        let mut pair = Pair::connected(13, little, "rate=10mbit, delay=20ms");
        let now = pair.now();
        match kind {
            "in flight" => {
                for _ in 0..6 {
                    pair.send(End::Server, RS, vec![1; 1000]);
                }
            }
            "in parts" => {
                pair.send(End::Client, RS, vec![1; 60_000]);
            }
            "in a byte stream" => {
                let session = pair.connection(End::Client).session();
                let id = session.open_stream(StreamKind::Bytes).expect("it may be opened");
                session.write(now, id, vec![1; 6_000].into()).expect("there is room");
            }
            _ => {}
        }
        pair.run(Duration::from_millis(10));
        assert_eq!(pair.session(End::Server).stats().queue_bytes, 0, "{kind}");
        let now = pair.now();
        pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        pair.run(2 * SECOND);
        let refused = (kind != "nothing").then_some(CloseReason::WaitRefused);
        assert_eq!(pair.closed(End::Server), refused, "{kind}");
    }
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

#[test]
fn what_was_acknowledged_and_not_heard_of_is_neither_lost_nor_doubled() {
    // The last SACKs in each direction are lost: both ends do not know what the other has, and send it again.
    for seed in 0..20 {
        let both = seed % 2 == 1;
        let mut pair = Pair::connected(seed, TransportConfig::default(), "rate=10mbit, delay=20ms");
        send(&mut pair, End::Client, 0..60);
        send(&mut pair, End::Server, 0..60);
        pair.run(Duration::from_millis(21 + seed));
        let (client, lost) = (pair.client, "rate=10mbit, delay=20ms, loss=100%");
        // One direction keeps delivering, but the acknowledgements are lost.
        let (deaf, heard) = if seed % 4 < 2 { (SERVER, client) } else { (client, SERVER) };
        pair.world.link(heard, deaf).reconfigure(lost.parse().expect("it is well written"));
        pair.run(Duration::from_millis(200));
        let mut got = End::BOTH.map(|end| -> Vec<u64> {
            pair.recv(end).iter().map(|message| number(&message.payload)).collect()
        });
        let first = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
        let (node, host) = (SERVER, pair.world.add_host_of(client, link(), link()));
        let server = if both {
            let state = suspend(&mut pair, End::Server, SuspendMode::Snapshot);
            pair.world.restart_server();
            pair.world.wait_for_peer(node, &state).expect("it can be taken up")
        } else {
            pair.place(End::Server).expect("it is there").1
        };
        // The process that left is gone.
        pair.world.kill(client);
        let state = Suspended::from_bytes(&first.to_bytes()).expect("it was just written");
        let near = pair.world.resume(host, &state, None).expect("it can be resumed");
        pair.run(10 * SECOND);
        let now = pair.now();
        for (at, (node, handle)) in [(host, near), (SERVER, server)].into_iter().enumerate() {
            let connection = &mut pair.world.peer(node, handle).connection;
            got[at].extend(numbers(connection, now));
            assert_eq!(got[at], (0..60).collect::<Vec<_>>(), "seed {seed}, end {at}");
            assert_eq!(connection.session().stats().outstanding, 0, "seed {seed}, end {at}");
        }
    }
}

#[test]
fn leaving_again_before_the_peer_heard_of_coming_back_locks_nobody_out() {
    let mut pair = Pair::connected(20, TransportConfig::default(), "rate=10mbit, delay=20ms");
    send(&mut pair, End::Client, 0..10);
    let mut state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    let client = pair.client;
    for round in 0..3 {
        let server = pair.world.address(SERVER);
        // Sealed packets no longer reach the server: PONG is the last packet that either end receives.
        pair.world.set_tap(Box::new(move |_, _, to, bytes| {
            let drop = to == server && bytes[0] & 0x80 == 0;
            if drop { whimbrel_sim::world::TapVerdict::Drop } else { whimbrel_sim::world::TapVerdict::Pass }
        }));
        let host = pair.world.add_host_of(client, link(), link());
        let handle = pair.world.resume(host, &state, None).expect("it can be resumed");
        pair.run(SECOND);
        assert!(events(&mut pair, host, handle).contains(&Event::Connected), "round {round}");
        let now = pair.now();
        let connection = &mut pair.world.peer(host, handle).connection;
        connection.suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        pair.run(11 * SECOND);
        state = pair.world.take_suspended(host, handle).expect("the state is there");
        assert_eq!(state.peer_waits, None, "round {round}: nobody answered");
    }
    pair.world.set_tap(Box::new(|_, _, _, _| whimbrel_sim::world::TapVerdict::Pass));
    let host = pair.world.add_host_of(client, link(), link());
    let handle = pair.world.resume(host, &state, None).expect("it can be resumed");
    pair.run(3 * SECOND);
    assert_eq!(closed(&mut pair, host, handle), None);
    assert_eq!(pair.recv(End::Server).len(), 10);
}

#[test]
fn a_used_state_is_refused_and_whoever_used_it_goes_on_even_on_one_host() {
    let mut pair = Pair::connected(21, TransportConfig::default(), LINK);
    let state = suspend(&mut pair, End::Client, SuspendMode::Snapshot);
    let client = pair.client;
    let first = pair.world.resume(client, &state, None).expect("it can be resumed");
    pair.run(2 * SECOND);
    let second = pair.world.resume(client, &state, None).expect("the peer has to say");
    pair.run(2 * SECOND);
    assert_eq!(closed(&mut pair, client, second), Some(CloseReason::AlreadyResumed));
    pair.run(60 * SECOND);
    // The session can still be found on this host: its peer leaves and comes back.
    let now = pair.now();
    pair.connection(End::Server).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    pair.run(2 * SECOND);
    let (node, handle) = pair.place(End::Server).expect("it is there");
    let server = pair.world.take_suspended(node, handle).expect("the state is there");
    let to = pair.world.address(client);
    let back = pair.world.resume(SERVER, &server, Some(to)).expect("it can be resumed");
    pair.run(2 * SECOND);
    assert!(events(&mut pair, SERVER, back).contains(&Event::Connected));
    assert_eq!(closed(&mut pair, client, first), None);
}

#[test]
fn of_damaged_bytes_nothing_is_taken() {
    let mut pair = Pair::connected(22, TransportConfig::default(), LINK);
    send(&mut pair, End::Client, 0..20);
    pair.run(Duration::from_millis(30));
    let bytes = suspend(&mut pair, End::Client, SuspendMode::Snapshot).to_bytes();
    for end in 0..bytes.len() {
        assert!(Suspended::from_bytes(&bytes[..end]).is_err(), "cut to {end} bytes");
    }
    for at in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(Suspended::from_bytes(&changed).is_err(), "byte {at} changed");
    }
}

#[test]
fn a_key_that_may_not_connect_may_not_resume() {
    let link: LinkConfig = LINK.parse().expect("it is well written");
    for lets_in in [false, true] {
        let mut world = World::new(23, TransportConfig::default(), ListenConfig::default());
        let client = world.add_client(TransportConfig::default(), link.clone(), link.clone());
        let key = world.endpoint(client).public_key();
        let heir = world.add_client(TransportConfig::default(), link.clone(), link.clone());
        let heir_key = world.endpoint(heir).public_key();
        let allow = if lets_in { vec![key, heir_key] } else { vec![key] };
        let listen = ListenConfig::default().allow(Some(allow.into_iter().collect()));
        world.listen_as(listen);
        let handle = world.connect(client);
        world.run(SECOND);
        let now = world.now();
        let connection = &mut world.peer(client, handle).connection;
        connection.suspend(now, SuspendMode::Snapshot, Some(heir_key)).expect("it can be suspended");
        world.run(2 * SECOND);
        let state = world.take_suspended(client, handle).expect("the state is there");
        let refused = world.endpoint(SERVER).stats().refused;
        let handle = world.resume(heir, &state, None).expect("its key was named");
        world.run(3 * SECOND);
        let resumed = world.peer(heir, handle).events.iter().any(|(_, event)| *event == Event::Connected);
        assert_eq!(resumed, lets_in);
        assert_eq!(world.endpoint(SERVER).stats().refused > refused, !lets_in);
    }
}

#[test]
fn a_listener_that_is_full_lets_its_own_sessions_back_in() {
    let link: LinkConfig = LINK.parse().expect("it is well written");
    let listen = ListenConfig::default().max_connections(2);
    let mut world = World::new(24, TransportConfig::default(), listen);
    let clients = [(); 3].map(|()| world.add_client(TransportConfig::default(), link.clone(), link.clone()));
    let handles = [0, 1].map(|at| world.connect(clients[at]));
    world.run(SECOND);
    let now = world.now();
    let connection = &mut world.peer(clients[0], handles[0]).connection;
    connection.suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    world.run(2 * SECOND);
    let state = world.take_suspended(clients[0], handles[0]).expect("the state is there");
    let third = world.connect(clients[2]);
    let back = world.resume(clients[0], &state, None).expect("it can be resumed");
    world.run(3 * SECOND);
    let connected = |world: &mut World, node, handle| {
        world.peer(node, handle).events.iter().any(|(_, event)| *event == Event::Connected)
    };
    assert!(connected(&mut world, clients[0], back));
    assert!(!connected(&mut world, clients[2], third), "there is no room for another");
}

#[test]
fn a_flood_of_resumptions_is_answered_no_more_than_any_other() {
    // Every handshake packet is shorter than three times what it answers, and PINGs count against their address.
    let listen = ListenConfig::default().pings_per_address(5);
    let link: LinkConfig = "rate=100mbit, delay=1ms".parse().expect("it is well written");
    let mut world = World::new(25, TransportConfig::default(), listen);
    let client = world.add_client(TransportConfig::default(), link.clone(), link);
    let handle = world.connect(client);
    world.run(SECOND);
    let now = world.now();
    let connection = &mut world.peer(client, handle).connection;
    connection.suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    world.run(2 * SECOND);
    let state = world.take_suspended(client, handle).expect("the state is there");
    let (server, sums) = (world.address(SERVER), std::rc::Rc::new(std::cell::Cell::new((0usize, 0usize))));
    let counted = std::rc::Rc::clone(&sums);
    world.set_tap(Box::new(move |_, from, _, bytes| {
        let (mut to_server, mut from_server) = counted.get();
        if bytes[0] & 0x80 != 0 {
            if from == server {
                from_server += bytes.len()
            } else {
                to_server += bytes.len()
            }
            assert!(from_server <= 3 * to_server, "{from_server} bytes for {to_server}");
        }
        counted.set((to_server, from_server));
        whimbrel_sim::world::TapVerdict::Pass
    }));
    let refused = world.endpoint(SERVER).stats().refused;
    for _ in 0..40 {
        world.resume(client, &state, None).expect("the peer has to say");
    }
    world.run(Duration::from_millis(300));
    assert!(world.endpoint(SERVER).stats().refused >= refused + 30, "most were over the limit");
    assert!(sums.get().1 > 0);
}

/// A program that takes its suspended session late must not extend the lifetimes in it.
#[test]
fn regression_lifetimes_run_from_the_suspension_on() {
    let mut pair = Pair::connected(1, TransportConfig::default(), LINK);
    pair.relink("rate=10mbit, delay=20ms, loss=100%");
    let now = pair.now();
    let message = Outgoing {
        lifetime: Some(SECOND),
        ..Outgoing::new(StreamId(0), Service::ReliableUnsequenced, vec![7; 100].into())
    };
    pair.connection(End::Client).session().send(now, message).expect("there is room");
    pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
    let over = |pair: &mut Pair| pair.closed(End::Client).is_some();
    assert!(pair.run_until(15 * SECOND, over));
    let (node, handle) = pair.place(End::Client).expect("it is there");
    pair.run(10 * SECOND);
    let fetched = pair.now();
    let state = pair.world.take_suspended(node, handle).expect("the state is there");
    assert!(
        state.at + 9 * SECOND <= fetched.since(whimbrel_proto::Time::ZERO),
        "{:?} at {fetched:?}",
        state.at
    );
}
