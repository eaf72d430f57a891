//! Tests of sessions that outlive a connection that nobody closed: all paths are dark for longer than the connection
//! waits, then they return.

use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::{Outcome, Outgoing, SendError, SessionEvent};
use whimbrel_proto::{
    CloseReason, Event, ListenConfig, PathId, PathState, Service, StreamId, SuspendMode, Tag, Time,
    TransportConfig,
};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const LINK: &str = "rate=10mbit, delay=20ms";
const DARK: &str = "rate=10mbit, delay=20ms, loss=100%";
const RTT: Duration = Duration::from_millis(40);
const SECOND: Duration = Duration::from_secs(1);
const RS: Service = Service::ReliableSequenced;

fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.idle_timeout = 10 * SECOND;
    config.keep_alive = Some(3 * SECOND);
    config.reattach = Some(600 * SECOND);
    config
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a test's link is well written")
}

fn send(pair: &mut Pair, end: End, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(if number % 50 == 7 { 5000 } else { 40 }, number as u8);
        pair.send(end, RS, payload);
    }
}

fn received(pair: &mut Pair, end: End) -> Vec<u64> {
    let number = |payload: &[u8]| u64::from_be_bytes(payload[..8].try_into().expect("eight bytes"));
    pair.recv(end).iter().map(|message| number(&message.payload)).collect()
}

fn detached(pair: &mut Pair, end: End) -> bool {
    pair.connection(end).is_waiting()
}

fn reattached(pair: &mut Pair, end: End) -> Option<Time> {
    let is = |(_, event): &&(Time, Event)| matches!(event, Event::Reattached { .. });
    pair.timed_events(end).iter().rev().find(is).map(|(at, _)| *at)
}

/// Keeps the link dark until both ends have given the connection up.
fn darken(pair: &mut Pair) {
    pair.relink(DARK);
    let both = |pair: &mut Pair| End::BOTH.iter().all(|end| detached(pair, *end));
    assert!(pair.run_until(30 * SECOND, both), "{:?}", pair.events(End::Client));
}

/// The longest delay of a probe after the peer was away for this long.
fn probe(away: Duration) -> Duration {
    (away / 240).clamp(SECOND / 2, 5 * SECOND)
}

#[test]
fn a_session_goes_on_by_itself_after_an_outage_that_its_connection_did_not_survive() {
    for (seed, away) in [10, 20, 60, 300].into_iter().cycle().take(16).enumerate() {
        let mut pair = Pair::connected(seed as u64, config(), LINK);
        send(&mut pair, End::Client, 0..200);
        send(&mut pair, End::Server, 0..200);
        pair.run(Duration::from_millis(30 + 5 * seed as u64));
        let mut got = End::BOTH.map(|end| received(&mut pair, end));
        darken(&mut pair);
        let dark_from = pair.now();
        for end in End::BOTH {
            send(&mut pair, end, 200..250);
        }
        pair.run(Duration::from_secs(away) + Duration::from_millis(73 * seed as u64));
        pair.relink(LINK);
        let back = pair.now();
        let limit = 2 * RTT + probe(back.since(dark_from)) + RTT;
        let mut late = [None; 2];
        pair.run_until(limit, |pair| {
            for (at, end) in End::BOTH.into_iter().enumerate() {
                let news = received(pair, end);
                if !news.is_empty() {
                    late[at].get_or_insert(pair.now().since(back));
                }
                got[at].extend(news);
            }
            late.iter().all(Option::is_some)
        });
        assert!(late.iter().all(Option::is_some), "seed {seed}: nothing within {limit:?} ({late:?})");
        pair.run(5 * SECOND);
        for (at, end) in End::BOTH.into_iter().enumerate() {
            got[at].extend(received(&mut pair, end));
            assert_eq!(got[at], (0..250).collect::<Vec<_>>(), "seed {seed} at {end:?}");
            assert_eq!(pair.session(end).stats().outstanding, 0, "seed {seed} at {end:?}");
            let events = pair.events(end);
            let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(wanted).expect("it is told");
            let order = [
                at(&|event| *event == Event::AllPathsDown),
                at(&|event| *event == Event::OutOfService),
                at(&|event| *event == Event::Detached),
                at(&|event| matches!(event, Event::PathClosed(_))),
                at(&|event| matches!(event, Event::Reattached { .. })),
            ];
            assert!(order.is_sorted(), "seed {seed}: {events:?}");
        }
    }
}

#[test]
fn meanwhile_lifetimes_run_replacing_works_and_limits_hold() {
    let mut config = config();
    config.session.send_queue_messages = 40;
    let mut pair = Pair::connected(1, config, LINK);
    darken(&mut pair);
    let message =
        |payload: &'static [u8]| Outgoing { tracked: true, ..Outgoing::new(StreamId(0), RS, payload.into()) };
    let mortal = Outgoing { lifetime: Some(30 * SECOND), ..message(b"mortal") };
    let mortal = pair.try_send(End::Client, mortal).expect("there is room");
    let mut replaced = Vec::new();
    for payload in [&b"one"[..], b"two", b"three"] {
        let now = pair.now();
        let session = pair.session(End::Client);
        replaced.push(session.replace(now, StreamId(0), Tag(7), message(payload)).expect("there is room"));
    }
    let queued = std::iter::from_fn(|| pair.try_send(End::Client, message(b"filler")).ok()).take(100).count();
    assert_eq!(queued, 38, "40 with the mortal and the last of the replaced");
    assert!(matches!(pair.try_send(End::Client, message(b"more")), Err(SendError::QueueFull(_))));
    pair.run(31 * SECOND);
    let outcomes = |pair: &mut Pair| -> Vec<_> {
        let outcome = |news| match news {
            SessionEvent::Outcome(id, outcome) => Some((id, outcome)),
            _ => None,
        };
        pair.news(End::Client).into_iter().filter_map(outcome).collect()
    };
    let early = outcomes(&mut pair);
    assert!(early.contains(&(mortal, Outcome::Expired)), "{early:?}");
    assert!(replaced[..2].iter().all(|id| early.contains(&(*id, Outcome::Replaced))), "{early:?}");
    pair.relink(LINK);
    pair.run(3 * SECOND);
    let got: Vec<_> = pair.recv(End::Server).iter().map(|message| message.payload.to_vec()).collect();
    assert_eq!(got.len(), 39);
    assert!(got.contains(&b"three".to_vec()) && !got.contains(&b"mortal".to_vec()));
    assert!(outcomes(&mut pair).contains(&(replaced[2], Outcome::Delivered)));
}

#[test]
fn a_nat_that_rebound_meanwhile_is_no_hindrance() {
    let mut pair = Pair::connected(2, config(), LINK);
    darken(&mut pair);
    let client = pair.client;
    pair.world.rebind(client);
    send(&mut pair, End::Server, 0..10);
    pair.relink(LINK);
    pair.run(2 * SECOND);
    assert_eq!(received(&mut pair, End::Client).len(), 10);
    let address = pair.world.address(client);
    assert!(
        pair.events(End::Server)
            .iter()
            .any(|event| { matches!(event, Event::Reattached { from, to } if from != to && *to == address) })
    );
}

#[test]
fn an_end_that_gave_up_alone_takes_the_old_connection_back() {
    // Only one direction is dark: the client keeps hearing the server for a while, and has not given up when the
    // outage is over.
    let mut pair = Pair::connected(3, config(), LINK);
    let client = pair.client;
    pair.world.link(client, SERVER).reconfigure(link(DARK));
    assert!(pair.run_until(30 * SECOND, |pair| detached(pair, End::Server)));
    assert!(!detached(&mut pair, End::Client), "it hears of the server still");
    send(&mut pair, End::Client, 0..10);
    send(&mut pair, End::Server, 0..10);
    pair.relink(LINK);
    assert!(pair.run_until(SECOND, |pair| reattached(pair, End::Server).is_some()));
    pair.run(SECOND);
    for end in End::BOTH {
        assert_eq!(received(&mut pair, end).len(), 10);
    }
    assert_eq!(reattached(&mut pair, End::Client), None, "it never knew");
    // The next outage is handled just as well.
    darken(&mut pair);
    pair.relink(LINK);
    send(&mut pair, End::Server, 10..20);
    pair.run(2 * SECOND);
    assert_eq!(received(&mut pair, End::Client).len(), 10);
}

#[test]
fn replayed_packets_bring_nothing_back() {
    let mut pair = Pair::connected(4, config(), LINK);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = std::rc::Rc::clone(&seen);
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        log.borrow_mut().push((from, to, bytes.clone()));
        TapVerdict::Pass
    }));
    send(&mut pair, End::Client, 0..20);
    pair.run(SECOND);
    let seen = seen.take();
    darken(&mut pair);
    for (from, to, bytes) in seen {
        pair.world.inject(from, to, &bytes);
    }
    assert!(detached(&mut pair, End::Server) && detached(&mut pair, End::Client));
}

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

#[test]
fn an_answer_that_is_the_last_to_get_through_locks_nobody_out() {
    // PONG arrives. Nothing that follows does, for longer than the new connection lives. The next one continues from
    // there.
    for rounds in 1..4 {
        let mut pair = Pair::connected(13, config(), LINK);
        send(&mut pair, End::Client, 0..10);
        send(&mut pair, End::Server, 0..10);
        pair.run(SECOND);
        darken(&mut pair);
        for _ in 0..rounds {
            let before = reattached(&mut pair, End::Client);
            let server = pair.world.address(SERVER);
            pair.world.set_tap(Box::new(move |_, _, to, bytes| {
                let sealed = bytes[0] & 0x80 == 0;
                if sealed && to == server { TapVerdict::Drop } else { TapVerdict::Pass }
            }));
            pair.relink(LINK);
            assert!(pair.run_until(3 * SECOND, |pair| reattached(pair, End::Client) != before));
            send(&mut pair, End::Client, 10..20);
            pair.relink(DARK);
            assert!(pair.run_until(30 * SECOND, |pair| detached(pair, End::Client)), "it has given up again");
            assert!(reattached(&mut pair, End::Server).is_none(), "it has heard of nothing");
        }
        pair.world.set_tap(Box::new(|_, _, _, _| TapVerdict::Pass));
        pair.relink(LINK);
        pair.run(4 * SECOND);
        let sent: Vec<u64> = (0..10).chain((0..rounds).flat_map(|_| 10..20)).collect();
        assert_eq!(received(&mut pair, End::Server), sent, "{rounds} rounds");
        assert_eq!(received(&mut pair, End::Client).len(), 10);
        assert!(reattached(&mut pair, End::Server).is_some());
    }
}

#[test]
fn an_outage_right_after_the_answer_is_survived_too() {
    // The new connection stands as long as the peer may believe that it does.
    let mut patient = config();
    patient.idle_timeout = 60 * SECOND;
    let mut pair = Pair::connected(14, patient, LINK);
    pair.relink(DARK);
    assert!(pair.run_until(130 * SECOND, |pair| End::BOTH.iter().all(|end| detached(pair, *end))));
    let server = pair.world.address(SERVER);
    pair.world.set_tap(Box::new(move |_, _, to, bytes| {
        let sealed = bytes[0] & 0x80 == 0;
        if sealed && to == server { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    pair.relink(LINK);
    assert!(pair.run_until(3 * SECOND, |pair| reattached(pair, End::Client).is_some()));
    pair.run(30 * SECOND);
    pair.world.set_tap(Box::new(|_, _, _, _| TapVerdict::Pass));
    send(&mut pair, End::Client, 0..10);
    pair.run(3 * SECOND);
    assert_eq!(received(&mut pair, End::Server).len(), 10);
    assert!(reattached(&mut pair, End::Server).is_some());
}

/// The number of the client's paths that work.
fn working(pair: &mut Pair) -> usize {
    pair.stats(End::Client).paths.iter().filter(|path| path.state == PathState::Active).count()
}

/// Two networks between the ends, both in use. Also returns the second one's number.
fn two(seed: u64) -> (Pair, usize) {
    let mut pair = Pair::connected(seed, config(), LINK);
    let client = pair.client;
    let other = pair.world.add_network(client, link(LINK), link(LINK));
    let handles = End::BOTH.map(|end| pair.handle(end));
    pair.world.announce(SERVER, handles[1]);
    pair.world.announce(client, handles[0]);
    assert!(pair.run_until(5 * SECOND, |pair| working(pair) == 2));
    (pair, other)
}

#[test]
fn whichever_network_is_back_first_is_used_and_then_all_of_them() {
    for back in 0..2 {
        let (mut pair, other) = two(15);
        for network in [0, other] {
            pair.relink_over(network, DARK);
        }
        assert!(pair.run_until(60 * SECOND, |pair| End::BOTH.iter().all(|end| detached(pair, *end))));
        pair.run(20 * SECOND);
        pair.relink_over([0, other][back], LINK);
        send(&mut pair, End::Client, 0..10);
        send(&mut pair, End::Server, 0..10);
        pair.run(SECOND);
        for end in End::BOTH {
            assert_eq!(received(&mut pair, end).len(), 10, "{end:?}, network {back} back");
        }
        pair.relink_over([other, 0][back], LINK);
        let both = pair.run_until(10 * SECOND, |pair| working(pair) == 2);
        assert!(both, "network {back} back first: {:?}", pair.stats(End::Client).paths);
    }
}

/// Counters of before an outage are not lost with the connection.
#[test]
fn figures_go_on_over_the_next_connection() {
    let mut roomy = config();
    // Nobody reads here.
    roomy.session.stream_share = 8 << 20;
    let mut pair = Pair::connected(16, roomy, LINK);
    let counts = |pair: &mut Pair, end| {
        let total = pair.stats(end).total;
        [
            total.sent_packets,
            total.sent_bytes,
            total.sent_wire_bytes,
            total.received_packets,
            total.received_bytes,
            total.acked_packets,
        ]
    };
    let mut before = End::BOTH.map(|_| [0; 6]);
    for round in 0..3 {
        for (at, end) in End::BOTH.into_iter().enumerate() {
            send(&mut pair, end, 0..1000);
            pair.run(3 * SECOND);
            let now = counts(&mut pair, end);
            let grown = now.iter().zip(before[at]).all(|(now, before)| *now > before + 20);
            assert!(grown, "round {round}, {end:?}: {now:?} after {:?}", before[at]);
            before[at] = now;
        }
        darken(&mut pair);
        pair.relink(LINK);
        pair.run(3 * SECOND);
    }
    for end in End::BOTH {
        let events = pair.events(end);
        let closed: Vec<_> = events
            .iter()
            .filter_map(|event| if let Event::PathClosed(path) = event { Some(path) } else { None })
            .collect();
        assert_eq!(closed.len(), 3, "one for each connection: {events:?}");
        assert!(closed.iter().all(|path| path.acked_packets > 20 && path.rtt >= RTT), "{closed:?}");
        let acked: u64 = closed.iter().map(|path| path.acked_packets).sum();
        let rest: u64 = pair.stats(end).paths.iter().map(|path| path.acked_packets).sum();
        assert_eq!(pair.stats(end).total.acked_packets, acked + rest);
    }
}

/// The budget of the deadline rule is a share of what was sent, whichever connection carried it.
#[test]
fn the_deadline_budget_goes_on_over_the_next_connection() {
    let mut config = config();
    config.deadline_budget = 3;
    // Nobody reads here.
    config.session.stream_share = 8 << 20;
    let mut pair = Pair::connected(17, config, LINK);
    let mortal = |pair: &mut Pair, count| {
        for _ in 0..count {
            let lifetime = Some(Duration::from_millis(60));
            let message = Outgoing { lifetime, ..Outgoing::new(StreamId(0), RS, vec![1; 100].into()) };
            pair.try_send(End::Client, message).expect("there is room");
            pair.run(Duration::from_millis(10));
        }
        pair.stats(End::Client).deadlines
    };
    for _ in 0..100 {
        pair.send(End::Client, RS, vec![1; 20_000]);
    }
    pair.run(5 * SECOND);
    let spent = mortal(&mut pair, 200);
    assert_eq!((spent.messages, spent.refused), (200, 0), "of 60 kB 40 are spent");
    darken(&mut pair);
    pair.relink(LINK);
    pair.run(3 * SECOND);
    assert!(reattached(&mut pair, End::Client).is_some());
    let spent = mortal(&mut pair, 50);
    assert_eq!((spent.messages, spent.refused), (250, 0), "there are 20 left");
}

/// A path that was given up before its connection is not given up again together with it.
#[test]
fn a_path_is_closed_once_also_where_the_peer_never_heard_of_it() {
    let (mut pair, other) = two(18);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    pair.relink_over(other, DARK);
    pair.world.take_down(client, 0);
    pair.world.announce(client, handle);
    send(&mut pair, End::Client, 0..10);
    assert!(pair.run_until(60 * SECOND, |pair| detached(pair, End::Client)));
    pair.world.set_up(client, 0);
    pair.world.announce(client, handle);
    assert!(pair.run_until(10 * SECOND, |pair| reattached(pair, End::Client).is_some()));
    let events = pair.events(End::Client);
    let id = |event: &Event| if let Event::PathClosed(path) = event { Some(path.id) } else { None };
    let mut closed: Vec<_> = events.iter().filter_map(id).collect();
    let count = closed.len();
    closed.sort_unstable();
    closed.dedup();
    assert!(closed.len() == count && closed.contains(&PathId(0)), "{events:?}");
}

/// Each session is dialled with its own pre-shared key, whatever key other sessions of its endpoint have.
#[test]
fn a_session_is_dialled_with_its_own_pre_shared_key() {
    let mut listen = ListenConfig::default();
    listen.acceptor.psk = Some([7; 32].into());
    let mut world = World::new(31, config(), listen);
    let client = world.add_client(config(), link(LINK), link(LINK));
    let handle = world.connect_with_psk(client, [7; 32]);
    world.run(SECOND);
    assert!(world.peer(client, handle).connection.is_established());
    let refused = world.connect_with_psk(client, [8; 32]);
    for like in [DARK, LINK] {
        world.link(client, SERVER).reconfigure(link(like));
        world.link(SERVER, client).reconfigure(link(like));
        world.run(30 * SECOND);
    }
    assert!(world.try_peer(client, refused).is_none_or(|peer| !peer.connection.is_established()));
    let events = &world.peer(client, handle).events;
    assert!(events.iter().any(|(_, event)| matches!(event, Event::Reattached { .. })), "{events:?}");
}

/// The server was resumed at another address, and data went over the second network, which the client then left. When
/// everything went dark, the client dialled where that path had led and the server's first address, but not where its
/// other path led.
#[test]
fn regression_the_peer_is_dialled_wherever_a_path_led_to() {
    let tape = "kind operations\n\
        seed 1000134528\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 84 0 6\n\
        operation 60 88 0 0 0 0 50 0 0 25\n\
        operation 0 84 0 5\n\
        operation 0 88 0 0 0 30 8\n\
        finale 0 0";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// The client left a network and returned to it. Its NAT on the other rebound at once, while the server had a new
/// address as well. The client's last id was on a path that could not work, while the only working address pair would
/// have needed another id.
#[test]
fn regression_the_last_id_is_not_kept_for_a_path_that_cannot_work() {
    let tape = "kind operations\n\
        seed 9000000000046675\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 84 0 12 0\n\
        operation 0 92 22\n\
        operation 0 84 0 5\n\
        operation 0 92 2\n\
        operation 0 82\n\
        finale 0 60 50";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// A fault of the checker: unread messages of a released stream keep their own arrival times, whenever the common
/// queue was last empty.
#[test]
fn regression_what_was_unread_when_its_stream_was_released_is_not_late() {
    let tape = "kind operations\n\
        seed 5000000115971\n\
        begin 0 0 0 30 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 84 0 6\n\
        operation 60 53 0 0 30 50 50 0 0\n\
        operation 60 0 20 0 0 60 1 0 40 0 25 0 0\n\
        operation 0 80 23\n\
        operation 0 0 0 1 0 0 60 1 0 40 0 25 0 0\n\
        operation 0 0 20 0 0 60 1 1 40 60 0 0 1 0 0\n\
        operation 60 71 30 0\n\
        operation 60 56 1\n\
        operation 0 88 0 1870 0 30 6 0\n\
        operation 60 57 70 1\n\
        finale 0 0";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// Data waited through an outage of seconds, then both NATs rebound. The server followed, but the tail probes had
/// gone to the old address and the next were seconds away, while the client's reports kept arriving. It took half a
/// minute instead of a round trip.
#[test]
fn regression_a_path_that_moved_is_probed_at_once() {
    let tape = "kind operations\n\
        seed 5000000319071\n\
        begin 0 40 30 30 0 0 0 0 0 0 0 0 0 5 2 0 51 0 0 50 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 25 0 10 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 75\n\
        operation 0 80 3350\n\
        operation 0 83 38\n\
        operation 60 82\n\
        operation 0 82\n\
        finale 0 0";
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

fn play(tape: &str) {
    let tape: whimbrel_sim::checker::Tape = tape.parse().expect("it is well written");
    let played = tape.run();
    assert!(played.is_ok(), "{played:?}");
}

/// The answer that proved the client's address on its second path was delayed until recovery had forgotten its
/// packet. So the client never knew that the server might send there. It did not report that it had closed the first
/// path, and the server probed that for ever.
#[test]
fn regression_an_answer_that_was_held_up_proves_an_address() {
    play(
        "kind operations\n\
        seed 9000000000133284\n\
        begin 0 40 30 30 0 0 25 0 4 209878 0 0 0 46 1 2 0 69 0 0 0 0 0 0 15 0 0 0 40 0 25 0 0 0 10\n\
        operation 0 75\n\
        operation 0 84 0 12 0\n\
        operation 0 99 0\n\
        operation 0 89 0 12 0 1 192 102 25\n\
        operation 0 92 0\n\
        operation 0 83 75\n\
        operation 0 89 0 16 622 0 0\n\
        operation 60 82\n\
        operation 0 82\n\
        finale 0 0",
    );
}

/// A fault of the checker: a copy of SUSPEND arrived after the client was back, and before the client had shown that
/// it was.
#[test]
fn regression_a_server_that_waits_prefers_no_path() {
    play(
        "kind operations\n\
        seed 9000000000098369\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 89 0 6 0 0 3 4 0\n\
        operation 0 84 60 11 0\n\
        finale 0 0",
    );
}

/// The server left a network, and its NAT on the other rebound before it had proven the client's address there. The
/// client had closed the path on the first network, and could not report it. The server took answers from there for a
/// working path, and neither found the other again.
#[test]
fn regression_a_path_is_kept_until_the_peer_may_send_on_another() {
    play(
        "kind operations\n\
        seed 9000000000162385\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 60 82\n\
        operation 0 76 1 70 85 0 60 0 0 25 15 20 15 10 0\n\
        operation 0 84 0 12 0\n\
        operation 0 83 0\n\
        operation 0 84 60 5\n\
        operation 0 83 0\n\
        finale 0 60 50",
    );
}

/// The client left a network and returned to it, while the server's NAT on the other rebound. The client had closed
/// its path there and could not report it. The server took answers from there for a working path, and neither found
/// the other again.
#[test]
fn regression_a_closed_path_is_tried_again_where_the_peer_goes_on() {
    play(
        "kind operations\n\
        seed 1000248371\n\
        begin 48 73 71 68 1 29 49 0 0 1 49 1 70 0 3 31 38 7 23 45 133 88 3 1 39 0 65 92 63 48 29 86 76 45 3 86 6703 84 3 3 37 1 17 13 381 62 48 69 76 72 99 0 45\n\
        operation 5 94 54\n\
        operation 60 0 20 80 4697 40 0 73 76 91 84 30 1 29\n\
        operation 0 92 7\n\
        operation 0 0 0 28 15 289 0 2 0 0 60 101 25 0 0 0\n\
        operation 0 84 0 6\n\
        operation 0 0 0 24 15 231 0 0 40 0 25 0 10 0\n\
        operation 0 80 3864\n\
        operation 0 92 43\n\
        operation 0 92 54\n\
        operation 0 88 0 1034 0 0 0 0 0 0\n\
        operation 0 80 1307\n\
        operation 0 92 8\n\
        operation 0 76 1 0 19 0 0 0 40 25 15 20 0 0 10 0\n\
        operation 0 84 0 8 1 0 0\n\
        operation 0 92 40\n\
        operation 0 82\n\
        operation 0 92 36\n\
        operation 0 76 2 0 28 99 0 0 40 25 0 0 20 15 10 0\n\
        operation 60 85 0 7 3 0 0 0 0 40 0 25 0 10\n\
        operation 0 92 51\n\
        operation 0 0 0 24 60 493 0 1 40 0 25 0 0 0\n\
        operation 0 85 75 0 3 1 0 0 60 0 0 40 0 25 0 0\n\
        operation 0 0 20 0 0 60 0 0 0 0 0 25 0 0\n\
        operation 60 85 75 0 1 4 0 0 60 0 0 40 0 25 0 0\n\
        operation 0 82\n\
        operation 0 76 1 0 0 0 60 40 25 15 0 0 15 10 0\n\
        operation 0 84 0 5\n\
        operation 0 92 30\n\
        operation 0 76 0 70 107 0 0 13 40 25 15 0 4 15 10 0\n\
        operation 0 92 25\n\
        operation 60 0 0 0 0 0 0 0 0 0 0 25 0 0\n\
        operation 0 83 73\n\
        operation 0 84 60 5\n\
        operation 0 80 99\n\
        operation 0 99 0\n\
        finale 0 60 50",
    );
}

/// CLOSE_PATH was in flight on a slow link when the client used the path again. Its arrival closed the path only at
/// the server. The client acknowledged the server's FIN-ACK on that path and nowhere else.
#[test]
fn regression_a_closing_that_arrives_when_the_path_is_used_again() {
    play(
        "kind operations\n\
        seed 9000000000112377\n\
        begin 0 40 30 30 0 0 0 0 4 35304 0 19 1 40 10 1 3 27 6 24 98 18202 20 1 24 2 65 93 55 94 2 23 52\n\
        operation 0 92 42\n\
        operation 0 84 0 12 0\n\
        operation 0 80 99\n\
        operation 0 76 0 70 99 0 60 40 25 15 20 0 0 10 0\n\
        operation 60 82\n\
        operation 0 0 20 80 1834 0 0 40 60 0 25 0 0 0\n\
        operation 0 84 0 5\n\
        operation 0 92 51\n\
        operation 0 92 30\n\
        finale 0 0",
    );
}

/// The NATs of both ends rebound, one after the other. Of two paths between the same addresses, only one had shown it
/// in between. On the other, each end kept sending to the peer's former address.
#[test]
fn regression_where_one_path_shows_that_the_peer_moved_the_others_look_there_too() {
    play(
        "kind operations\n\
        seed 9000000000054471\n\
        begin 0 40 30 30 0 50 0 0 2 0 0 4 0 0 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 0 0 0 0 0 0 0 40 60 0 25 0 0\n\
        operation 0 80 54\n\
        operation 0 92 17\n\
        operation 0 80 39\n\
        operation 0 89 0 6 1 0 0 4 30\n\
        operation 60 82\n\
        operation 0 82\n\
        finale 0 0",
    );
}

/// The client's NAT rebound after packets that an attacker had held made its round trip seem to be seconds. The server's
/// SACKs had gone to the address before, and were not said again where the client was: it waited for a timer as long as
/// that round trip.
#[test]
fn regression_sacks_are_said_again_where_the_peer_is_now() {
    play(
        "kind operations\n\
        seed 9000000000178989\n\
        begin 0 0 0 0 14 75172 46227 58 1 70 1 2 3 21 3 28 13 2 36 26 64 71 65 35 1 69 69 125 25 49 9 8 57 55 41 28\n\
        operation 0 0 0 0 0 0 0 0 40 0 25 0 0\n\
        operation 0 89 0 12 2 0 914 500 0\n\
        operation 0 80 800\n\
        operation 0 0 20 0 0 60 0 0 0 0 60 0 25 0 0\n\
        operation 0 99 2\n\
        operation 0 99 0\n\
        operation 0 99 0\n\
        operation 0 0 20 0 0 0 0 40 60 0 25 0 0\n\
        operation 0 80 3240\n\
        operation 0 0 0 13 80 1958 60 0 0 0 0 60 0 25 0 0 0\n\
        operation 0 80 3200\n\
        operation 0 99 0\n\
        operation 0 89 0 6 1 0 2 27 0\n\
        operation 0 80 1590\n\
        operation 0 82\n\
        finale 0 0",
    );
}

/// The client aimed a path at another network under the same id. The server followed it there, and the server's packets
/// from before then made the client follow the server back: each went where the other had just left, without end.
#[test]
fn regression_a_client_that_aims_a_path_elsewhere_is_not_drawn_back() {
    play(
        "kind operations\n\
        seed 5000000009388\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 60 88 0 0 0 30 0 0 25\n\
        operation 0 76 1 0 26 0 60 40 25 0 0 20 15 10 0\n\
        operation 0 82\n\
        operation 0 84 60 5\n\
        operation 0 85 0 6 5 0 0 0 0 0 0 0 25 0 0\n\
        operation 0 80 1743\n\
        operation 0 99 28\n\
        operation 0 92 37\n\
        operation 0 80 2210\n\
        operation 0 89 0 6 1 0 0 0 30\n\
        finale 0 0",
    );
}

/// An attacker held a SUSPEND back that the server never got, until the client was on its way back. The server waited,
/// and moved before the client's first packet: the client gave up, and the server went on waiting, as it should.
#[test]
fn regression_a_suspension_that_is_heard_late_leaves_nobody_but_who_waits() {
    play(
        "kind operations\n\
        seed 5000000235298\n\
        begin 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 10\n\
        operation 0 88 0 0 0 30 0 0 0\n\
        operation 0 89 0 6 0 0 3 4 0\n\
        finale 0 60 50",
    );
}

/// The client used a closed path again after its CLOSE_PATH had arrived. The server had forgotten the path and answered
/// with a stateless reset, which must not count there.
#[test]
fn regression_a_reset_on_a_path_used_again_does_not_end_the_connection() {
    play(
        "kind operations\n\
        seed 9000000000323536\n\
        begin 75 11 328881 60 15 38 1 0 92 1 4 403378 3 77 1 65 14 3 49 81 1883 99 5 97 84 5513 31 3 65 5 3 455 42 25 13 98 72 94 1 85\n\
        operation 83 24 94 15 246 71 3 2 7 0 81 70 14 130 40 73 58\n\
        operation 38 84 48 6\n\
        operation 4 75\n\
        operation 58 77 4 38 14 157 25 5 37 19 84 55 8 27 30 48 43\n\
        operation 82 83 15\n\
        operation 80 89 1 15 2 4 670 529 49\n\
        operation 99 40 31 35 249 15 0 95 6 54 67 50 97\n\
        operation 60 94 31\n\
        operation 70 3 45 81 1459 84 3 1 92 42 32 2 2 4\n\
        operation 11 84 32 12 2\n\
        operation 6 84 85 4 25 81\n\
        operation 47 99 58\n\
        operation 20 82\n\
        operation 89 85 96 0 5 0 31 94 90 2 0 94 11 61 83 16 20\n\
        operation 0 80 474\n\
        finale 0 70",
    );
}
