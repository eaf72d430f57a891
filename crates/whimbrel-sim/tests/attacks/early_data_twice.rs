//! An attacker on the path without keys wants early data delivered more than once. It drops PONGs until the client
//! begins again, and holds back PINGs or sends them once more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{
    CloseReason, Event, Handle, ListenConfig, Service, StreamId, Ticket, Time, TransportConfig,
};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const SYN_ACK: u8 = 0x83;
const PING: u8 = 0x84;
const SECOND: Duration = Duration::from_secs(1);

/// The next step of the server's application once it has read a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Stay,
    Abort,
    Close,
}

/// The server's application, over every connection that it accepts.
struct Application {
    then: Then,
    connections: Vec<Handle>,
    /// How often each message was read.
    read: BTreeMap<Bytes, usize>,
}

impl Application {
    fn new(then: Then) -> Self {
        Self { then, connections: Vec::new(), read: BTreeMap::new() }
    }

    fn serve(&mut self, world: &mut World) {
        self.connections.extend(std::iter::from_fn(|| world.accept()));
        let now = world.now();
        for handle in &self.connections {
            let Some(peer) = world.try_peer(SERVER, *handle) else { continue };
            let before = self.read.len();
            while let Some(message) = peer.connection.session().recv(now) {
                *self.read.entry(message.payload).or_default() += 1;
            }
            match self.then {
                _ if self.read.len() == before => {}
                Then::Stay => {}
                Then::Abort => peer.connection.abort(now, 1, "served"),
                Then::Close => peer.connection.close(now, 0, "served"),
            }
        }
    }

    fn most(&self) -> usize {
        self.read.values().copied().max().unwrap_or(0)
    }
}

fn request(world: &mut World, client: usize, handle: Handle, text: &'static str) {
    let now = world.now();
    let outgoing =
        Outgoing::new(StreamId(0), Service::ReliableSequenced, Bytes::from_static(text.as_bytes()));
    world.peer(client, handle).connection.session().send(now, outgoing).ok();
}

fn run(world: &mut World, application: &mut Application, time: Duration) {
    world.run_until(time, |world| {
        application.serve(world);
        false
    });
}

fn world_of(there: TransportConfig, here: TransportConfig) -> (World, usize) {
    let listen = ListenConfig::default().early_from_tickets(true);
    let mut world = World::new(3, there, listen);
    let link: LinkConfig = "delay=20ms".parse().unwrap();
    let client = world.add_client(here, link.clone(), link);
    (world, client)
}

/// Drops everything from the server but SYN-ACK until then.
fn darken(world: &mut World, until: Duration) {
    let server = world.address(SERVER);
    world.set_tap(Box::new(move |now, from, _, bytes| {
        let dark = now < Time::ZERO + until;
        if from == server && dark && bytes[0] != SYN_ACK { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
}

fn events(world: &mut World, client: usize, handle: Handle) -> Vec<Event> {
    world
        .try_peer(client, handle)
        .map_or(Vec::new(), |peer| peer.events.iter().map(|(_, event)| event.clone()).collect())
}

/// How often a request was delivered, and the client's events.
fn dark_for(
    dark: Duration,
    then: Then,
    there: TransportConfig,
    here: TransportConfig,
) -> (usize, Vec<Event>) {
    let (mut world, client) = world_of(there, here);
    darken(&mut world, dark);
    let handle = world.connect(client);
    request(&mut world, client, handle, "pay 10");
    let mut application = Application::new(then);
    run(&mut world, &mut application, 8 * SECOND);
    let heard = events(&mut world, client, handle);
    run(&mut world, &mut application, 62 * SECOND);
    let later = events(&mut world, client, handle);
    (application.most(), if later.is_empty() { heard } else { later })
}

fn config(idle: u64, handshake: u64) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.idle_timeout = Duration::from_secs(idle);
    config.handshake_timeout = Duration::from_secs(handshake);
    config
}

#[test]
fn while_the_first_connection_lives_the_client_gets_to_it() {
    let (delivered, heard) =
        dark_for(8 * SECOND, Then::Stay, TransportConfig::default(), TransportConfig::default());
    assert_eq!((delivered, heard.first()), (1, Some(&Event::Connected)));
}

#[test]
fn a_short_idle_timeout_of_the_server_delivers_nothing_twice() {
    let (delivered, heard) = dark_for(8 * SECOND, Then::Stay, config(5, 10), TransportConfig::default());
    assert_eq!(
        (delivered, heard.first()),
        (1, Some(&Event::Connected)),
        "an idle timeout is for who is proven"
    );
}

#[test]
fn a_short_idle_timeout_of_the_client_delivers_nothing_twice() {
    let (delivered, _) = dark_for(6 * SECOND, Then::Stay, TransportConfig::default(), config(3, 10));
    assert_eq!(delivered, 1);
}

#[test]
fn a_server_that_forgets_sooner_than_its_client_delivers_nothing_twice() {
    for handshake in [1, 3, 5] {
        let (delivered, heard) =
            dark_for(8 * SECOND, Then::Stay, config(300, handshake), TransportConfig::default());
        assert_eq!(delivered, 1);
        assert_eq!(heard, [Event::Closed(CloseReason::HandshakeTimedOut)]);
    }
}

#[test]
fn a_patient_client_delivers_nothing_twice_and_stops_when_it_cannot_be_answered() {
    let (mut world, client) = world_of(TransportConfig::default(), config(300, 60));
    darken(&mut world, 25 * SECOND);
    let handle = world.connect(client);
    request(&mut world, client, handle, "pay 10");
    let mut application = Application::new(Then::Stay);
    run(&mut world, &mut application, 19 * SECOND);
    assert_eq!(events(&mut world, client, handle), []);
    run(&mut world, &mut application, 2 * SECOND);
    let heard = events(&mut world, client, handle);
    assert_eq!(heard, [Event::Closed(CloseReason::HandshakeTimedOut)]);
    run(&mut world, &mut application, 60 * SECOND);
    assert_eq!(application.most(), 1);
}

#[test]
fn an_application_that_serves_and_closes_serves_once() {
    for then in [Then::Abort, Then::Close] {
        let (delivered, heard) =
            dark_for(8 * SECOND, then, TransportConfig::default(), TransportConfig::default());
        assert_eq!(delivered, 1, "{then:?}: {heard:?}");
    }
}

/// The client has sent nothing early, so it may keep asking.
#[test]
fn a_client_that_said_nothing_early_connects_after_any_outage() {
    let (mut world, client) = world_of(TransportConfig::default(), config(300, 60));
    darken(&mut world, 25 * SECOND);
    let handle = world.connect(client);
    let mut application = Application::new(Then::Stay);
    run(&mut world, &mut application, 24 * SECOND);
    request(&mut world, client, handle, "pay 10");
    run(&mut world, &mut application, 5 * SECOND);
    assert_eq!(events(&mut world, client, handle).first(), Some(&Event::Connected));
    assert_eq!(application.most(), 1);
}

type Held = Rc<RefCell<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>>;

/// A second PING is held back until the connection that the first one began has served, was proven and is over.
#[test]
fn a_ping_that_was_held_back_delivers_nothing_after_a_proven_connection() {
    let (mut world, client) = world_of(TransportConfig::default(), TransportConfig::default());
    let held = Held::default();
    let (holds, server) = (Rc::clone(&held), world.address(SERVER));
    world.set_tap(Box::new(move |_, from, to, bytes| {
        let mut held = holds.borrow_mut();
        if bytes[0] == PING {
            held.push((from, to, bytes.clone()));
            return if held[0].2 == *bytes { TapVerdict::Pass } else { TapVerdict::Drop };
        }
        // The client gets no PONG until it has begun again.
        let begun_again = held.iter().any(|(.., ping)| *ping != held[0].2);
        let dark = from == server && !begun_again && bytes[0] != SYN_ACK;
        if dark { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    let handle = world.connect(client);
    request(&mut world, client, handle, "pay 10");
    let mut application = Application::new(Then::Stay);
    let both = || {
        let held = held.borrow();
        let second = held.iter().find(|(.., ping)| *ping != held[0].2)?;
        Some((held[0].clone(), second.clone()))
    };
    world.run_until(2 * SECOND, |world| {
        application.serve(world);
        both().is_some()
    });
    let (first, second) = both().unwrap();
    world.inject(first.0, first.1, &first.2);
    run(&mut world, &mut application, SECOND / 4);
    assert_eq!(events(&mut world, client, handle).first(), Some(&Event::Connected));
    let now = world.now();
    world.peer(client, handle).connection.close(now, 0, "");
    let over = world.run_until(8 * SECOND, |world| world.endpoint(SERVER).connections() == 0);
    assert!(over);
    let before = world.endpoint(SERVER).stats();
    world.inject(second.0, second.1, &second.2);
    run(&mut world, &mut application, SECOND);
    let stats = world.endpoint(SERVER).stats();
    assert_eq!((application.most(), stats.accepted), (1, 1));
    assert_eq!(stats.begun_before, before.begun_before + 1, "its cookie is good, and it opens");
}

/// All decisions of a run, from a seed.
struct Weather {
    dice: ChaCha20Rng,
    world: World,
    client: usize,
    then: Then,
    tape: Held,
    ticket: Option<Ticket>,
}

impl Weather {
    fn new(seed: u64) -> Self {
        let mut dice = ChaCha20Rng::seed_from_u64(seed);
        let there = config(dice.random_range(1..40), dice.random_range(1..30));
        let here = config(dice.random_range(5..300), dice.random_range(3..60));
        let (mut world, client) = world_of(there, here);
        let ticket = dice.random_bool(0.3).then(|| ticket(&mut world, client)).flatten();
        let then = [Then::Stay, Then::Abort, Then::Close][dice.random_range(0..3)];
        let tape = Held::default();
        let (copy, server) = (Rc::clone(&tape), world.address(SERVER));
        let mut whims = ChaCha20Rng::seed_from_u64(!seed);
        let dark = world.now() + Duration::from_millis(whims.random_range(0..30_000));
        let (holds, loses) = (whims.random_range(0.0..0.5), whims.random_range(0.0..0.4));
        let passes = [SYN_ACK, whims.random_range(0..=255)];
        world.set_tap(Box::new(move |now, from, to, bytes| {
            if from != server && bytes[0] & 0x80 == 0 || bytes[0] == PING {
                copy.borrow_mut().push((from, to, bytes.clone()));
                if whims.random_bool(holds) {
                    return TapVerdict::Drop;
                }
            }
            let dark = from == server && now < dark && !passes.contains(&bytes[0]);
            if dark || whims.random_bool(loses) { TapVerdict::Drop } else { TapVerdict::Pass }
        }));
        Self { dice, world, client, then, tape, ticket }
    }

    /// Runs for a while in which recorded packets are sent again.
    fn replay(&mut self, application: &mut Application, seconds: u64) {
        for _ in 0..seconds * 4 {
            run(&mut self.world, application, Duration::from_millis(250));
            let length = self.tape.borrow().len();
            let from = length.saturating_sub(self.dice.random_range(0..200));
            let copies: Vec<_> = self.tape.borrow()[from..].to_vec();
            for (from, to, bytes) in copies {
                if self.dice.random_bool(0.1) {
                    self.world.inject(from, to, &bytes);
                }
            }
        }
    }
}

fn ticket(world: &mut World, client: usize) -> Option<Ticket> {
    let handle = world.connect(client);
    world.run(2 * SECOND);
    events(world, client, handle).into_iter().find_map(|event| match event {
        Event::Ticket(ticket) => Some(ticket),
        _ => None,
    })
}

#[test]
fn whatever_is_lost_held_back_and_replayed_nothing_is_delivered_twice() {
    let mut connected = 0;
    for seed in 0..120 {
        let mut weather = Weather::new(seed);
        let handle = match weather.ticket.take() {
            Some(ticket) => weather.world.connect_by(weather.client, ticket),
            None => weather.world.connect(weather.client),
        };
        let mut application = Application::new(weather.then);
        request(&mut weather.world, weather.client, handle, "at once");
        weather.replay(&mut application, 1);
        if weather.world.try_peer(weather.client, handle).is_some_and(|peer| !peer.connection.is_closed()) {
            request(&mut weather.world, weather.client, handle, "a second later");
        }
        weather.replay(&mut application, 75);
        assert!(application.most() <= 1, "seed {seed}, {:?}: {:?}", weather.then, application.read);
        connected += u32::from(!application.read.is_empty());
    }
    assert!(connected > 60, "{connected}");
}
