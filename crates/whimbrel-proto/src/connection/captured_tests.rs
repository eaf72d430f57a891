//! A connection that was captured between two ends of an older revision (`crates/whimbrel-testing/captured`), with
//! today's code at either end. The older revision announces no EXTENSIONS.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::handshake::opening::Opening;
use super::{Connection, Datagram, Event, Setup};
use crate::budget::Budgets;
use crate::config::TransportConfig;
use crate::crypto::{CidGenerator, Identity, ResetKey};
use crate::handshake::{Acceptor, AcceptorConfig, Captured, Extensions};
use crate::session::{OpenError, Outgoing, Read, StreamKind};
use crate::{ConnectionId, Service, Side, StreamId, Time};

const FILE: &str = include_str!("../../../whimbrel-testing/captured/handshake.txt");
const PEER: &str = "192.0.2.1:4433";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn key(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().unwrap()
}

/// The handshake, and the sealed packets that an end sent, with their times.
fn captured(end: &str) -> (Captured, Vec<(Time, Vec<u8>)>) {
    let lines = FILE.lines().filter_map(|line| line.split_once(" = "));
    let sealed = lines.clone().filter_map(|(name, hex)| {
        let micros = name.strip_prefix(end)?.strip_prefix('.')?.parse().ok()?;
        Some((Time::ZERO + Duration::from_micros(micros), bytes(hex)))
    });
    let named: BTreeMap<&str, Vec<u8>> = lines.clone().map(|(name, hex)| (name, bytes(hex))).collect();
    let packet = |name| named[name].clone();
    let handshake = Captured {
        client: Identity::from_secret(key(&named["client.static.private"])),
        server: Identity::from_secret(key(&named["server.static.private"])),
        client_ephemeral: key(&named["client.ephemeral.private"]),
        server_ephemeral: key(&named["server.ephemeral.private"]),
        syn: packet("syn"),
        syn_ack: packet("syn_ack"),
        ping: packet("ping"),
        pong: packet("pong"),
    };
    (handshake, sealed.collect())
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn connection(now: Time, side: Side, [local_id, remote_id]: [ConnectionId; 2]) -> Connection {
    let config = Arc::new(TransportConfig::default());
    let setup = Setup {
        side,
        session: Arc::new(config.session),
        config,
        budgets: Budgets::unlimited(),
        remote: PEER.parse().unwrap(),
        local: None,
        local_id,
        remote_id,
        issues_tickets: false,
        rng: ChaCha20Rng::seed_from_u64(1),
    };
    Connection::new(now, setup)
}

fn drain(connection: &mut Connection, now: Time) {
    while connection.poll_transmit(now, &mut Vec::new(), 1).is_some() {}
}

/// Delivers a packet, and lets the connection send what it has to say to it.
fn deliver(connection: &mut Connection, now: Time, packet: &[u8]) {
    let bytes = BytesMut::from(packet);
    connection.handle_datagram(now, Datagram { from: PEER.parse().unwrap(), to: None, ecn: None, bytes });
    drain(connection, now);
}

fn send(connection: &mut Connection, now: Time, text: &'static str) {
    let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, Bytes::from_static(text.as_bytes()));
    connection.session().send(now, message).unwrap();
    drain(connection, now);
}

fn received(connection: &mut Connection, now: Time) -> Vec<Bytes> {
    std::iter::from_fn(|| connection.session().recv(now)).map(|message| message.payload).collect()
}

fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.poll_event()).collect()
}

/// Openings go only to a peer that announced them; streams without one go to any.
fn has_no_openings(connection: &mut Connection, now: Time) {
    let session = connection.session();
    assert_eq!(session.open_stream_with(now, b"to"), Err(OpenError::NoOpenings));
    let stream = session.open_stream(StreamKind::Bytes).unwrap();
    assert_eq!(session.write(now, stream, Bytes::from_static(b"bytes")), Ok(5));
    let mut packet = Vec::new();
    assert!(connection.poll_transmit(now, &mut packet, 1).is_some(), "the stream is sent");
}

#[test]
fn a_server_understands_an_older_client() {
    let (captured, packets) = captured("client");
    let [client_id, server_id] = captured.ids();

    // The SYN gets an answer. The cookie in it would be another, so the client goes on with the captured one.
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let ids = CidGenerator::new(&captured.server, 0, &mut rng);
    let reset = ResetKey::new(&captured.server, &[0; 32]);
    let mut acceptor = Acceptor::new(&captured.server, &AcceptorConfig::default(), ids, reset, &mut rng);
    let mut syn_ack = Vec::new();
    acceptor.handle_syn(Time::ZERO, PEER.parse().unwrap(), &captured.syn, &mut syn_ack).unwrap();
    assert_eq!(syn_ack.len(), captured.syn_ack.len());

    let accepted = captured.accepted();
    assert_eq!(accepted.params.extensions, Extensions::default());
    let mut server = connection(at_ms(60), Side::Server, [server_id, client_id]);
    server.accept_with(at_ms(60), accepted).unwrap();
    drain(&mut server, at_ms(60));
    // The client acknowledges as many packets as the older server had sent, so this one must not have sent fewer.
    for _ in 0..12 {
        send(&mut server, at_ms(61), "from the server");
    }
    let delay = Duration::from_millis(20);
    for (sent, packet) in &packets {
        deliver(&mut server, *sent + delay, packet);
    }
    let now = at_ms(200);
    assert!(events(&mut server).contains(&Event::Connected) && !server.is_closed());
    let mut messages = received(&mut server, now);
    messages.sort_by_key(Bytes::len);
    assert_eq!(messages[..3], ["in PING", "reliable", "unreliable"]);
    assert_eq!(messages[3..], [Bytes::from(vec![7; 3000])]);
    // Stream 0 exists without being opened.
    let stream = StreamId::nth(Side::Client, 1);
    let text = Read::Data(Bytes::from_static(b"a byte stream"));
    assert_eq!(server.session().read(stream, 100), Ok(text));
    assert_eq!(server.session().read(stream, 100), Ok(Read::Finished));
    has_no_openings(&mut server, now);
}

#[test]
fn a_client_understands_an_older_server() {
    let (captured, packets) = captured("server");
    let [client_id, server_id] = captured.ids();
    let mut client = connection(Time::ZERO, Side::Client, [client_id, ConnectionId(0)]);
    let patience = Duration::from_secs(10);
    let params = Connection::own_params(&client.config);
    let opening = Opening::new(Time::ZERO, captured.handshake(), params, true, patience, None);
    client.open_with(Time::ZERO, opening);
    drain(&mut client, Time::ZERO);

    // It answers the SYN-ACK with a PING of its own, which announces EXTENSIONS. The older server's PONG is to the
    // captured PING.
    deliver(&mut client, at_ms(40), &captured.syn_ack);
    assert_eq!(client.paths[super::paths::path_set::Main].remote_id(), server_id);
    captured.wait_for_pong(&mut client.opening.as_mut().unwrap().handshake);
    deliver(&mut client, at_ms(80), &captured.pong);
    for (sent, packet) in &packets {
        deliver(&mut client, *sent + Duration::from_millis(20), packet);
    }
    let now = at_ms(90);
    assert!(events(&mut client).contains(&Event::Connected) && !client.is_closed());
    let messages = received(&mut client, now);
    assert_eq!(messages, ["first", "second", "third", "fourth"]);
    has_no_openings(&mut client, now);
}
