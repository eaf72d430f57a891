//! A revoked key tries to keep what it had: connections, sessions, tickets, and sessions that it is the heir of.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::{Message, Outgoing};
use whimbrel_proto::{
    Cause, CloseReason, Event, Handle, ListenConfig, Service, StreamId, SuspendMode, Suspended, Ticket,
    TransportConfig,
};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const LINK: &str = "delay=10ms";
const DARK: &str = "delay=10ms, loss=100%";
const SECOND: Duration = Duration::from_secs(1);
const SYN_ACK: u8 = 0x83;
const PING: u8 = 0x84;
const PONG: u8 = 0x85;

fn link() -> LinkConfig {
    LINK.parse().expect("it is well written")
}

/// Settings in which sessions without a connection are dialled soon.
fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.idle_timeout = Duration::from_secs(3);
    config.keep_alive = Some(SECOND);
    config.handshake_timeout = Duration::from_secs(2);
    config
}

fn pair(seed: u64) -> (Pair, PublicKey) {
    let mut pair = Pair::connected(seed, config(), LINK);
    pair.run(SECOND);
    let client = pair.client;
    let key = pair.world.endpoint(client).public_key();
    (pair, key)
}

fn closed(world: &mut World, node: usize, handle: Handle) -> Option<CloseReason> {
    world.try_peer(node, handle)?.events.iter().find_map(|(_, event)| match event {
        Event::Closed(why) => Some(why.clone()),
        _ => None,
    })
}

fn has(world: &mut World, node: usize, handle: Handle, event: &Event) -> bool {
    world.try_peer(node, handle).is_some_and(|peer| peer.events.iter().any(|(_, heard)| heard == event))
}

/// Returns whether a new connection of the client is accepted.
fn is_let_in(world: &mut World, client: usize) -> bool {
    let handle = world.connect(client);
    world.run(3 * SECOND);
    has(world, client, handle, &Event::Connected)
}

fn suspend(pair: &mut Pair, heir: Option<PublicKey>) -> Suspended {
    let now = pair.now();
    pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, heir).expect("it can be suspended");
    pair.run(SECOND);
    let (node, handle) = pair.place(End::Client).expect("it is there");
    pair.world.take_suspended(node, handle).expect("the state is there")
}

#[test]
fn a_connection_ends_at_once_and_its_key_comes_in_again_only_when_it_is_allowed() {
    let (mut pair, key) = pair(1);
    let client = pair.client;
    pair.world.revoke(SERVER, &key);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::Revoked));
    pair.run(Duration::from_millis(11));
    let told = pair.closed(End::Client);
    assert!(matches!(told, Some(CloseReason::Aborted(Cause::Refused, _))), "{told:?}");
    assert_eq!(pair.world.endpoint(SERVER).stats().revoked, 1);
    assert!(!is_let_in(&mut pair.world, client));
    assert_eq!(pair.world.endpoint(SERVER).stats().accepted, 1);
    pair.world.endpoint(SERVER).allow(key);
    assert!(is_let_in(&mut pair.world, client));
}

#[test]
fn a_suspended_session_is_dropped_and_stays_so_when_its_key_is_let_in_again() {
    let (mut pair, key) = pair(2);
    pair.send(End::Server, Service::ReliableSequenced, "for who comes back");
    let state = suspend(&mut pair, None);
    assert!(pair.events(End::Server).contains(&Event::PeerSuspended));
    pair.world.revoke(SERVER, &key);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::Revoked));
    pair.run(5 * SECOND);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 0, "nothing is kept");
    let client = pair.client;
    let resume = |world: &mut World| {
        let handle = world.resume(client, &state, None).expect("it is this key's");
        world.run(3 * SECOND);
        closed(world, client, handle)
    };
    assert_eq!(resume(&mut pair.world), Some(CloseReason::HandshakeTimedOut), "it gets no answer");
    pair.world.endpoint(SERVER).allow(key);
    assert_eq!(resume(&mut pair.world), Some(CloseReason::UnknownSession));
    assert!(is_let_in(&mut pair.world, client), "it begins afresh");
}

#[test]
fn a_session_whose_peer_is_out_of_reach_does_not_wait_for_it() {
    let (mut pair, key) = pair(3);
    pair.relink(DARK);
    let detached = |pair: &mut Pair| End::BOTH.iter().all(|end| pair.events(*end).contains(&Event::Detached));
    assert!(pair.run_until(10 * SECOND, detached));
    pair.world.revoke(SERVER, &key);
    assert_eq!(pair.closed(End::Server), Some(CloseReason::Revoked));
    pair.relink(LINK);
    pair.run(10 * SECOND);
    assert_eq!(pair.closed(End::Client), None, "it dials, and nobody answers");
    assert_eq!(pair.world.endpoint(SERVER).stats().accepted, 1);
    pair.world.endpoint(SERVER).allow(key);
    pair.run(10 * SECOND);
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted), "the session is not there");
}

#[test]
fn a_peer_is_dialled_no_more() {
    let (mut pair, _) = pair(4);
    let key = pair.world.endpoint(SERVER).public_key();
    pair.relink(DARK);
    assert!(pair.run_until(10 * SECOND, |pair| pair.events(End::Client).contains(&Event::Detached)));
    let client = pair.client;
    pair.world.revoke(client, &key);
    assert_eq!(pair.closed(End::Client), Some(CloseReason::Revoked));
    pair.relink(LINK);
    let sent = pair.world.endpoint(SERVER).stats().syns;
    pair.run(10 * SECOND);
    assert_eq!(pair.world.endpoint(SERVER).stats().syns, sent);
    // The same for a connection that was not answered yet.
    let handle = pair.world.connect(client);
    pair.world.revoke(client, &key);
    assert_eq!(closed(&mut pair.world, client, handle), Some(CloseReason::Revoked));
}

#[test]
fn a_handshake_under_way_comes_to_nothing() {
    // The key is revoked while PING is in flight, and while PONG is.
    for lost in [PING, PONG] {
        let mut world = World::new(5, config(), ListenConfig::default());
        let client = world.add_client(config(), link(), link());
        let key = world.endpoint(client).public_key();
        let seen = Rc::new(Cell::new(false));
        let flag = Rc::clone(&seen);
        world.set_tap(Box::new(move |_, _, _, bytes| {
            flag.set(flag.get() || bytes[0] == lost);
            TapVerdict::Pass
        }));
        let handle = world.connect(client);
        assert!(world.run_until(SECOND, |_| seen.get()));
        world.revoke(SERVER, &key);
        let accepted = world.endpoint(SERVER).stats().accepted;
        assert_eq!(accepted, u64::from(lost == PONG));
        let now = world.now();
        let outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, "let me in".into());
        world.peer(client, handle).connection.session().send(now, outgoing).expect("there is room");
        world.run(5 * SECOND);
        assert_eq!(world.endpoint(SERVER).stats().accepted, accepted);
        assert!(closed(&mut world, client, handle).is_some());
        assert_eq!(world.endpoint(SERVER).connections(), 0);
    }
}

fn received(world: &mut World) -> Vec<Message> {
    let now = world.now();
    let mut got = Vec::new();
    while let Some(handle) = world.accept() {
        if let Some(peer) = world.try_peer(SERVER, handle) {
            got.extend(std::iter::from_fn(|| peer.connection.session().recv(now)));
        }
    }
    got
}

/// Returns with a ticket and a message. Returns what the server got, and whether it asked for a cookie first.
fn return_by(world: &mut World, client: usize, ticket: Ticket) -> (Vec<Message>, bool) {
    let asked = Rc::new(Cell::new(false));
    let flag = Rc::clone(&asked);
    world.set_tap(Box::new(move |_, _, _, bytes| {
        flag.set(flag.get() || bytes[0] == SYN_ACK);
        TapVerdict::Pass
    }));
    let handle = world.connect_by(client, ticket);
    let now = world.now();
    let outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, "early".into());
    world.peer(client, handle).connection.session().send(now, outgoing).expect("there is room");
    world.run(4 * SECOND);
    (received(world), asked.get())
}

#[test]
fn a_ticket_never_counts_again() {
    let listen = || ListenConfig::default().early_from_tickets(true);
    for by_list in [false, true] {
        let mut world = World::new(6, config(), listen());
        let client = world.add_client(config(), link(), link());
        let key = world.endpoint(client).public_key();
        let ticket = |world: &mut World| {
            let handle = world.connect(client);
            world.run(SECOND);
            let now = world.now();
            world.peer(client, handle).connection.close(now, 0, "");
            world.run(SECOND);
            received(world);
            let events = &world.peer(client, handle).events;
            let ticket = events.iter().rev().find_map(|(_, event)| match event {
                Event::Ticket(ticket) => Some(ticket.clone()),
                _ => None,
            });
            ticket.expect("the server gives tickets")
        };
        let kept = ticket(&mut world);
        if by_list {
            world.set_allow(SERVER, Some([].into()));
        } else {
            world.revoke(SERVER, &key);
        }
        assert_eq!(return_by(&mut world, client, kept.clone()), (Vec::new(), true), "it is out");
        world.endpoint(SERVER).allow(key);
        let (messages, asked) = return_by(&mut world, client, kept);
        assert_eq!((messages.len(), asked), (1, true), "the ticket is worth nothing, the key is let in");
        // A ticket issued now is valid.
        let fresh = ticket(&mut world);
        let (messages, asked) = return_by(&mut world, client, fresh);
        assert_eq!((messages.len(), asked), (1, false));
    }
}

#[test]
fn an_heir_loses_its_right_and_the_owner_keeps_the_session() {
    for by_list in [false, true] {
        let (mut pair, key) = pair(7);
        let heir = pair.world.add_client(config(), link(), link());
        let heir_key = pair.world.endpoint(heir).public_key();
        let state = suspend(&mut pair, Some(heir_key));
        if by_list {
            pair.world.set_allow(SERVER, Some([key].into()));
        } else {
            pair.world.revoke(SERVER, &heir_key);
        }
        assert_eq!(pair.closed(End::Server), None);
        pair.world.endpoint(SERVER).allow(heir_key);
        let handle = pair.world.resume(heir, &state, None).expect("its key was named");
        pair.run(3 * SECOND);
        assert_eq!(closed(&mut pair.world, heir, handle), Some(CloseReason::UnknownSession));
        let client = pair.client;
        let handle = pair.world.resume(client, &state, None).expect("it is this key's");
        pair.run(3 * SECOND);
        assert!(has(&mut pair.world, client, handle, &Event::Connected));
    }
}

#[test]
fn an_heir_that_was_answered_and_is_not_proven_does_not_get_the_session() {
    let (mut pair, _) = pair(8);
    let heir = pair.world.add_client(config(), link(), link());
    let heir_key = pair.world.endpoint(heir).public_key();
    let state = suspend(&mut pair, Some(heir_key));
    let answered = Rc::new(Cell::new(false));
    let flag = Rc::clone(&answered);
    pair.world.set_tap(Box::new(move |_, _, _, bytes| {
        flag.set(flag.get() || bytes[0] == PONG);
        TapVerdict::Pass
    }));
    pair.world.resume(heir, &state, None).expect("its key was named");
    assert!(pair.run_until(SECOND, |_| answered.get()));
    pair.world.revoke(SERVER, &heir_key);
    pair.run(3 * SECOND);
    assert_eq!(pair.closed(End::Server), None);
    let resumed = |event: &Event| matches!(event, Event::PeerResumed { .. });
    assert!(!pair.events(End::Server).iter().any(resumed), "it waits for its owner");
}

#[test]
fn a_new_list_ends_those_that_are_not_on_it_and_no_others() {
    let mut world = World::new(9, config(), ListenConfig::default());
    let clients = [(); 3].map(|()| world.add_client(config(), link(), link()));
    let keys = clients.map(|client| world.endpoint(client).public_key());
    let handles = clients.map(|client| world.connect(client));
    world.run(SECOND);
    world.set_allow(SERVER, Some([keys[0], keys[1]].into()));
    world.run(SECOND);
    let ended = |world: &mut World| [0, 1, 2].map(|at| closed(world, clients[at], handles[at]).is_some());
    assert_eq!(ended(&mut world), [false, false, true]);
    world.set_allow(SERVER, Some([keys[1], keys[2]].into()));
    world.run(SECOND);
    assert_eq!(ended(&mut world), [true, false, true]);
    assert!(is_let_in(&mut world, clients[2]) && !is_let_in(&mut world, clients[0]));
    assert_eq!(world.endpoint(SERVER).stats().revoked, 2);
    // A listener that is opened admits all keys but revoked ones.
    world.revoke(SERVER, &keys[2]);
    world.set_allow(SERVER, None);
    assert!(is_let_in(&mut world, clients[0]) && !is_let_in(&mut world, clients[2]));
}
