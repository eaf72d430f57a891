//! Attackers that must not influence where data goes, and peers that ask for more than their share.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use whimbrel_proto::{Event, PathId, PathState, Service};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

use super::{ALIKE, DARK, MS, SECOND, active, announce, bulk, config, link, share, two};

fn nobody() -> SocketAddr {
    "192.0.2.66:6666".parse().expect("an address")
}

fn moved(pair: &mut Pair) -> bool {
    let events = [pair.events(End::Client), pair.events(End::Server)].concat();
    events.iter().any(|event| matches!(event, Event::PeerAddressChanged { .. }))
}

/// Packets seen on the path, with their destinations.
type Overheard = Rc<RefCell<Vec<(SocketAddr, Vec<u8>)>>>;

/// Every `nth` packet of the client, as seen on the path.
fn overheard(pair: &mut Pair, nth: u64, verdict: TapVerdict) -> Overheard {
    let client: Vec<SocketAddr> = pair.world.addresses(pair.client);
    let heard = Rc::new(RefCell::new(Vec::new()));
    let (tape, mut count) = (Rc::clone(&heard), 0);
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        if !client.contains(&from) {
            return TapVerdict::Pass;
        }
        count += 1;
        if count % nth != 0 {
            return TapVerdict::Pass;
        }
        tape.borrow_mut().push((to, bytes.clone()));
        verdict
    }));
    heard
}

#[test]
fn replayed_packets_from_elsewhere_move_nothing() {
    let mut pair = two(1, config(), ALIKE, ALIKE);
    let heard = overheard(&mut pair, 3, TapVerdict::Pass);
    for _ in 0..10 {
        for _ in 0..20 {
            pair.send(End::Client, Service::ReliableSequenced, vec![1; 500]);
        }
        // Wait until the last of them has passed the queue: a copy that arrived first would be accepted.
        pair.run(300 * MS);
        for (to, bytes) in heard.take() {
            pair.world.inject(nobody(), to, &bytes);
        }
    }
    assert!(!moved(&mut pair));
    assert_eq!(pair.world.to_nobody().get(&nobody()), None, "not even a challenge");
}

#[test]
fn packets_that_somebody_on_the_way_sends_on_from_elsewhere_move_nothing() {
    let mut pair = two(2, config(), ALIKE, ALIKE);
    let heard = overheard(&mut pair, 5, TapVerdict::Drop);
    let mut sent_on = 0;
    let end = pair.now() + SECOND;
    while pair.now() < end {
        pair.send(End::Client, Service::ReliableSequenced, vec![1; 500]);
        pair.run(5 * MS);
        for (to, bytes) in heard.take() {
            sent_on += bytes.len() as u64;
            pair.world.inject(nobody(), to, &bytes);
        }
    }
    assert!(!moved(&mut pair), "nobody answered a challenge there");
    let bytes = pair.world.to_nobody().get(&nobody()).copied().unwrap_or_default();
    assert!(sent_on > 5_000 && bytes > 0, "it was looked at: {bytes} for {sent_on}");
    // Challenges, at most three for each packet that arrived first from there.
    assert!(bytes <= 3 * sent_on && bytes < 5_000, "{bytes} bytes to an address that never answered");
    let received = pair.recv(End::Server).len();
    assert!(received > 100, "the session goes on where it was: {received}");
}

#[test]
fn forged_packets_move_nothing() {
    let mut pair = two(3, config(), ALIKE, ALIKE);
    let heard = overheard(&mut pair, 2, TapVerdict::Pass);
    bulk(&mut pair, 200 * MS);
    for (to, bytes) in heard.take().into_iter().take(200) {
        for at in [0, 10, 14, bytes.len() - 1] {
            let mut forged = bytes.clone();
            // The id stays, or the packet would be ignored.
            forged[at] ^= 0x01;
            pair.world.inject(nobody(), to, &forged);
        }
    }
    assert!(!moved(&mut pair));
    assert_eq!(pair.world.to_nobody().get(&nobody()), None);
    assert!(pair.stats(End::Server).dropped.forged >= 200);
    assert_eq!(pair.closed(End::Server), None);
}

/// The third network is announced, and packets sent there reach a host that does not answer.
#[test]
fn an_address_gets_no_data_before_it_answered() {
    let mut pair = two(4, config(), ALIKE, ALIKE);
    let client = pair.client;
    let deaf = link(DARK);
    pair.world.add_network(client, link(ALIKE), deaf);
    let third: Vec<SocketAddr> = [client, SERVER].iter().map(|node| pair.world.addresses(*node)[2]).collect();
    let seen = Rc::new(RefCell::new([(0, 0); 2]));
    let (tape, watched) = (Rc::clone(&seen), third);
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        if let Some(side) = watched.iter().position(|address| *address == from || *address == to) {
            let mut seen = tape.borrow_mut();
            let side = if from == watched[0] { 0 } else { side.max(1) };
            seen[side] = (seen[side].0 + 1, seen[side].1 + bytes.len());
        }
        TapVerdict::Pass
    }));
    announce(&mut pair);
    bulk(&mut pair, 5 * SECOND);
    let [asked, answered] = *seen.borrow();
    assert!(
        asked.0 > 0 && asked.1 <= 8 * 3 * 100,
        "{asked:?}: challenges, and of at most eight paths a minute"
    );
    assert!(answered.0 > 0 && answered.1 <= 3 * asked.1, "{answered:?} for {asked:?}: three times what came");
    assert_eq!(active(&mut pair, End::Client), 2, "it never worked");
    assert_eq!(active(&mut pair, End::Server), 2);
}

#[test]
fn announcements_ahead_of_ids_use_up_no_openings() {
    let mut pair = Pair::new(5, config(), ALIKE);
    let client = pair.client;
    pair.world.add_network(client, link(ALIKE), link(ALIKE));
    // Packets that the server sends before it knows that the handshake is done arrive before its ids.
    assert!(pair.run_until(SECOND, |pair| pair.place(End::Server).is_some()));
    pair.send(End::Server, Service::ReliableSequenced, vec![1; 100]);
    assert!(
        pair.run_until(SECOND, |pair| pair.place(End::Client).is_some()
            && !pair.recv(End::Client).is_empty())
    );
    let handle = pair.handle(End::Client);
    pair.world.announce(client, handle);
    let (now, IpAddr::V4(second)) = (pair.now(), pair.world.addresses(SERVER)[1].ip()) else {
        panic!("the simulated hosts have IPv4 addresses")
    };
    let address = [&[4][..], &second.octets(), &4433u16.to_be_bytes()].concat();
    for _ in 0..10 {
        // As if the peer had not got the first and sent it again.
        pair.connection(End::Client).handle_blocks(now, block(32, &[&varint(0), &address]));
    }
    assert_eq!(pair.stats(End::Client).paths.len(), 1, "there are no ids yet");
    pair.run(5 * SECOND);
    assert_eq!(active(&mut pair, End::Client), 2);
}

/// The id of the active path over a network.
fn active_path(pair: &mut Pair, end: End, network: usize) -> PathId {
    let stats = pair.stats(end);
    let mut paths = stats.paths.iter().filter(|path| path.state == PathState::Active);
    paths.nth(network).expect("it works").id
}

fn varint(value: u64) -> Vec<u8> {
    match value {
        0..0x40 => vec![value as u8],
        0x40..0x4000 => (0x4000 | value as u16).to_be_bytes().to_vec(),
        _ => (0x8000_0000 | value as u32).to_be_bytes().to_vec(),
    }
}

fn block(kind: u8, fields: &[&[u8]]) -> Bytes {
    [&[kind], &fields.concat()[..]].concat().into()
}

#[test]
fn floods_of_what_concerns_paths_are_bounded() {
    for end in End::BOTH {
        let mut pair = two(5, config(), ALIKE, ALIKE);
        let feed = |pair: &mut Pair, blocks: Bytes| {
            let now = pair.now();
            pair.connection(end).handle_blocks(now, blocks);
        };
        for number in 0..20_000u64 {
            // Addresses that come and go, ids of former paths, unknown paths, and challenges.
            let sequence = varint(number + 100);
            feed(&mut pair, block(32, &[&sequence, &[4, 198, 51, 100, number as u8, 1, 1]]));
            feed(&mut pair, block(33, &[&sequence]));
            feed(&mut pair, block(21, &[&[2], &[9; 24]]));
            feed(&mut pair, block(22, &[&varint(1000 + number)]));
            feed(&mut pair, block(11, &[&number.to_be_bytes()]));
            feed(&mut pair, block(34, &[&sequence, &varint(number)]));
            if number % 1000 == 0 {
                pair.run(MS);
            }
        }
        assert_eq!(pair.closed(end), None, "{end:?}: none of it is against the rules");
        let sent = pair.world.to_nobody().values().sum::<u64>();
        assert!(sent <= 8 * 3 * 100, "{end:?}: {sent} bytes to addresses that were only named");
        pair.run(SECOND);
        let (bytes, _) = bulk(&mut pair, SECOND);
        assert!(bytes > 1_500_000, "{end:?}: {bytes} bytes in a second");
        assert!(pair.stats(end).paths.len() <= 8);
        let debt = pair.stats(end).paths.iter().filter(|path| path.state == PathState::Opening).count();
        assert_eq!(debt, 0, "{end:?}");
    }
}

#[test]
fn ids_far_ahead_end_the_connection() {
    let mut pair = two(6, config(), ALIKE, ALIKE);
    let now = pair.now();
    pair.connection(End::Server).handle_blocks(now, block(21, &[&varint(4000), &[9; 24]]));
    pair.world.flush();
    assert!(pair.closed(End::Server).is_some());
}

#[test]
fn what_comes_for_a_path_that_was_closed_is_passed_over() {
    let mut pair = two(7, config(), ALIKE, ALIKE);
    let heard = overheard(&mut pair, 1, TapVerdict::Pass);
    bulk(&mut pair, 200 * MS);
    let (now, id) = (pair.now(), pair.stats(End::Client).paths[0].id);
    pair.connection(End::Client).close_path(now, id);
    bulk(&mut pair, 300 * MS);
    assert_eq!(pair.stats(End::Server).paths.len(), 1);
    let from = pair.world.addresses(pair.client)[0];
    for round in 0..3 {
        for (to, bytes) in heard.borrow().iter().take(500) {
            pair.world.inject(from, *to, bytes);
        }
        // Ignored at first, and unknown after a while.
        bulk(&mut pair, SECOND);
        assert_eq!(pair.closed(End::Client), None, "round {round}");
        assert_eq!(pair.closed(End::Server), None, "round {round}");
    }
    assert!(!moved(&mut pair));
}

/// An endpoint answers packets for an unknown id with that id's reset token. The token of a closed path must not end
/// the connection, whichever path it was and however late CLOSE_PATH is.
#[test]
fn the_reset_token_of_a_closed_path_ends_nothing() {
    for closed in 0..2 {
        let mut pair = two(8, config(), ALIKE, ALIKE);
        // The server's answers to unknown ids.
        let heard = overheard(&mut pair, 1, TapVerdict::Pass);
        bulk(&mut pair, 200 * MS);
        let packets = heard.take();
        let (now, id) = (pair.now(), active_path(&mut pair, End::Client, closed));
        pair.connection(End::Client).close_path(now, id);
        bulk(&mut pair, 5 * SECOND);
        let from = pair.world.addresses(pair.client)[closed];
        let resets = pair.world.endpoint(SERVER).stats().resets;
        for (to, bytes) in packets {
            pair.world.inject(from, to, &bytes);
            pair.run(MS);
        }
        pair.run(SECOND);
        // The first id remains the connection's name at the endpoint.
        let forgotten = pair.world.endpoint(SERVER).stats().resets > resets;
        assert_eq!(forgotten, closed == 1, "path {closed}");
        assert_eq!(pair.closed(End::Client), None, "path {closed}");
        let (bytes, _) = bulk(&mut pair, SECOND);
        assert!(bytes > 500_000, "path {closed}: {bytes}");
    }
}

/// The client closes a path while nothing it sends arrives. Until the server knows, it sends to an id that must not
/// answer with a reset.
#[test]
fn regression_a_path_closed_during_an_outage_does_not_reset_the_connection() {
    for seed in 0..8 {
        let mut pair = two(seed, config(), ALIKE, ALIKE);
        let client = pair.client;
        bulk(&mut pair, SECOND);
        for network in 0..2 {
            pair.world.link_over(network, client, SERVER).reconfigure(link("delay=10ms,loss=100%"));
        }
        let (now, id) = (pair.now(), active_path(&mut pair, End::Client, 1));
        pair.connection(End::Client).close_path(now, id);
        bulk(&mut pair, 5 * SECOND);
        for network in 0..2 {
            pair.world.link_over(network, client, SERVER).reconfigure(link(ALIKE));
        }
        bulk(&mut pair, 2 * SECOND);
        assert_eq!(pair.closed(End::Server), None, "seed {seed}");
    }
}

#[test]
fn keys_change_under_load_on_several_paths() {
    for seed in 0..8 {
        let mut transport = config();
        transport.key_update_packets = 100;
        let lossy = "rate=10mbit,delay=10ms,queue=100ms,loss=3%,reorder=5%,reorder_by=8ms";
        let slow = "rate=5mbit,delay=80ms,queue=100ms,loss=3%";
        let mut pair = two(seed, transport, lossy, slow);
        let (_, gap) = bulk(&mut pair, 2 * SECOND);
        assert!(gap < 500 * MS, "seed {seed}: {gap:?}");
        pair.relink_over(1, DARK);
        bulk(&mut pair, 3 * SECOND);
        let updates = pair.stats(End::Client).key_updates;
        assert!(updates >= 10, "seed {seed}: {updates}, a path that is down holds nothing up");
        pair.relink_over(1, slow);
        bulk(&mut pair, 3 * SECOND);
        assert_eq!(active(&mut pair, End::Client), 2, "seed {seed}: {:?}", pair.events(End::Client));
        assert!(pair.stats(End::Client).key_updates > updates);
    }
}

/// Two paths opened at the same time. The first packets of the later one arrived first, and the id of the earlier one
/// was forgotten. The next packet for that id was answered with a reset, which ended the connection.
#[test]
fn regression_the_first_packets_of_two_paths_may_overtake_each_other() {
    for seed in 0..4 {
        let mut pair = Pair::connected(seed, config(), ALIKE);
        let client = pair.client;
        for delay in ["rate=5mbit,delay=200ms,queue=100ms", "rate=5mbit,delay=5ms,queue=100ms"] {
            pair.world.add_network(client, link(delay), link(delay));
        }
        let (ours, theirs) = (pair.handle(End::Client), pair.handle(End::Server));
        pair.world.announce(SERVER, theirs);
        pair.run(SECOND);
        pair.world.announce(client, ours);
        bulk(&mut pair, 3 * SECOND);
        for end in End::BOTH {
            assert_eq!(pair.closed(end), None, "seed {seed}");
            assert_eq!(active(&mut pair, end), 3, "seed {seed}: {:?}", pair.events(end));
        }
        assert_eq!(pair.world.endpoint(SERVER).stats().resets, 0, "seed {seed}");
    }
}

/// Paths over a network that led nowhere took all ids: the server never heard of them, and no path could be opened
/// again.
#[test]
fn regression_paths_in_vain_use_up_no_ids() {
    let mut pair = Pair::connected(9, config(), ALIKE);
    let client = pair.client;
    let dead = link("delay=10ms,loss=100%");
    pair.world.add_network(client, dead.clone(), dead);
    announce(&mut pair);
    let asked = Rc::new(RefCell::new(Vec::new()));
    let (tape, from_there) = (Rc::clone(&asked), pair.world.addresses(client)[1]);
    pair.world.set_tap(Box::new(move |now, from, _, _| {
        if from == from_there {
            tape.borrow_mut().push(now);
        }
        TapVerdict::Pass
    }));
    pair.run(100 * SECOND);
    assert_eq!(active(&mut pair, End::Client), 1);
    // Three packets each time: after 1, 2, 4 .. 60 s.
    let asked = asked.borrow().len();
    assert!((12..=8 * 3).contains(&asked), "{asked} packets");
    pair.relink_over(1, ALIKE);
    let (now, handle) = (pair.now(), pair.handle(End::Client));
    pair.world.peer(client, handle).connection.handle_link_up(now);
    let both = pair.run_until(2 * SECOND, |pair| End::BOTH.iter().all(|end| active(pair, *end) == 2));
    assert!(both, "{:?}", pair.events(End::Client));
}

/// The application closed the only working path beside one that never answered. No path was left to tell the other
/// end.
#[test]
fn regression_the_last_path_that_works_is_not_closed() {
    let mut pair = Pair::connected(10, config(), ALIKE);
    let client = pair.client;
    let dead = link("delay=10ms,loss=100%");
    pair.world.add_network(client, dead.clone(), dead);
    announce(&mut pair);
    assert!(pair.run_until(SECOND, |pair| pair.stats(End::Client).paths.len() == 2), "one is being opened");
    let (now, id) = (pair.now(), pair.stats(End::Client).paths[0].id);
    pair.connection(End::Client).close_path(now, id);
    let (bytes, gap) = bulk(&mut pair, 5 * SECOND);
    assert!(gap < 150 * MS, "silent for {gap:?}");
    assert!(share(bytes, 5 * SECOND, 10.0) > 0.8, "{bytes} bytes");
    pair.relink_over(1, ALIKE);
    let now = pair.now();
    pair.connection(End::Client).handle_link_up(now);
    let moved = pair.run_until(2 * SECOND, |pair| {
        End::BOTH.iter().all(|end| pair.stats(*end).paths.iter().all(|path| path.id != id))
    });
    assert!(moved, "once another works it goes: {:?}", pair.events(End::Client));
    let (bytes, _) = bulk(&mut pair, 2 * SECOND);
    assert!(share(bytes, 2 * SECOND, 10.0) > 0.7, "{bytes} bytes");
}

/// CLOSE_PATH cannot arrive: packets on the closed path are accepted and acknowledged.
#[test]
fn a_closed_path_is_heard_until_the_other_end_knows() {
    let mut pair = two(11, config(), ALIKE, ALIKE);
    // Nothing is in flight that closing would wait for.
    pair.run(SECOND);
    pair.relink_over(0, DARK);
    let (now, id) = (pair.now(), active_path(&mut pair, End::Client, 1));
    pair.connection(End::Client).close_path(now, id);
    assert!(pair.stats(End::Client).paths.iter().all(|path| path.id != id));
    for _ in 0..50 {
        pair.send(End::Server, Service::ReliableSequenced, vec![7; 5_000]);
    }
    let mut got = 0;
    let all = pair.run_until(5 * SECOND, |pair| {
        got += pair.recv(End::Client).len();
        got == 50 && pair.session(End::Server).is_drained()
    });
    assert!(all, "{got} of 50");
    pair.relink_over(0, ALIKE);
    let told = pair.run_until(SECOND, |pair| pair.stats(End::Server).paths.len() == 1);
    assert!(told, "{:?}", pair.events(End::Server));
}
