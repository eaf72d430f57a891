//! A session goes on by itself after its connection was lost.

use std::time::Duration;

use whimbrel_proto::session::{Outcome, Outgoing, SendError, SessionEvent};
use whimbrel_proto::{Event, ListenConfig, StreamId, Tag};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

use super::{DARK, LINK, RS, RTT, SECOND, config, darken, detached, link, probe, reattached, received, send};

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
