//! Tests of an endpoint whose key agreements run elsewhere while packets keep arriving.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;

use bytes::BytesMut;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::crypto::Identity;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{
    Agreeing, ConnectConfig, Connection, Datagram, Endpoint, Event, ListenConfig, Routed, Service, StreamId,
    Time, TransportConfig,
};

const NOW: Time = Time::ZERO;
const EARLY_BIT: u8 = 0x40;

struct Ends {
    server: Endpoint,
    client: Connection,
    from: SocketAddr,
}

impl Ends {
    fn new() -> Self {
        let identity = |seed| Identity::generate(&mut ChaCha20Rng::seed_from_u64(seed));
        let transport = TransportConfig::default;
        let server = Endpoint::new(identity(1), Some(ListenConfig::default()), transport(), 0, [1; 32], true);
        let mut endpoint = Endpoint::new(identity(2), None, transport(), 0, [2; 32], true);
        let config = ConnectConfig {
            server_key: ServerKey::Known(server.public_key()),
            protocol: Default::default(),
            psk: None,
            ticket: None,
            alternatives: Vec::new(),
            transport: transport(),
        };
        let (_, mut client) = endpoint.connect(NOW, "192.0.2.1:4433".parse().unwrap(), config);
        for _ in 0..5 {
            let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![7; 1_000].into());
            client.session().send(NOW, message).unwrap();
        }
        Self { server, client, from: "192.0.2.9:5000".parse().unwrap() }
    }

    /// The packets that the client has to send.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut out = Vec::new();
        while let Some(transmit) = self.client.poll_transmit(NOW, &mut out, 1) {
            assert_eq!(transmit.size, out.len());
            packets.push(std::mem::take(&mut out));
        }
        packets
    }

    fn datagram(&self, bytes: &[u8]) -> Datagram {
        Datagram { from: self.from, to: None, ecn: None, bytes: BytesMut::from(bytes) }
    }

    fn ask_server(&mut self, packet: &[u8]) -> (Routed, Vec<u8>) {
        let (datagram, mut reply) = (self.datagram(packet), Vec::new());
        (self.server.handle_datagram_deferring(NOW, datagram, &mut reply), reply)
    }

    /// Runs up to PING. Returns it and the early packets after it.
    fn up_to_ping(&mut self) -> Vec<Vec<u8>> {
        let syn = self.packets().remove(0);
        let (_, syn_ack) = self.ask_server(&syn);
        let answer = self.datagram(&syn_ack);
        self.client.handle_datagram(NOW, answer);
        let packets = self.packets();
        assert!(packets.len() > 2 && packets[1][0] & (0x80 | EARLY_BIT) == EARLY_BIT);
        packets
    }

    fn agreeing(&mut self, ping: &[u8]) -> Box<Agreeing> {
        match self.ask_server(ping) {
            (Routed::Agreeing(agreeing), _) => agreeing,
            _ => panic!("there are no agreements to be made"),
        }
    }
}

#[test]
fn a_ping_that_is_repeated_meanwhile_costs_nothing_and_begins_one_connection() {
    let mut ends = Ends::new();
    let packets = ends.up_to_ping();
    let agreeing = ends.agreeing(&packets[0]);
    for _ in 0..20 {
        assert!(matches!(ends.ask_server(&packets[0]), (Routed::Nothing, reply) if reply.is_empty()));
    }
    let agreed = agreeing.run();
    let Routed::Accepted(_, mut connection) = ends.server.handle_agreed(NOW, agreed, &mut Vec::new()) else {
        panic!("nobody was let in")
    };
    assert!(matches!(ends.ask_server(&packets[0]), (Routed::RepeatedPing(..), _)));
    let stats = ends.server.stats();
    assert_eq!((stats.agreements, stats.accepted), (1, 1));
    let mut pong = Vec::new();
    connection.poll_transmit(NOW, &mut pong, 1).unwrap();
    let datagram = ends.datagram(&pong);
    ends.client.handle_datagram(NOW, datagram);
    assert_eq!(ends.client.poll_event(), Some(Event::Connected));
}

#[test]
fn early_packets_that_overtake_the_agreements_are_dropped_in_silence() {
    let mut ends = Ends::new();
    let packets = ends.up_to_ping();
    let agreeing = ends.agreeing(&packets[0]);
    let early = packets[1..].to_vec();
    for packet in &early {
        assert!(matches!(ends.ask_server(packet), (Routed::Nothing, reply) if reply.is_empty()));
    }
    let stats = ends.server.stats();
    assert_eq!((stats.resets, stats.unknown), (0, early.len() as u64));
    ends.server.handle_agreed(NOW, agreeing.run(), &mut Vec::new());
    assert!(matches!(ends.ask_server(&early[0]), (Routed::Connection(..), _)), "from now on they are known");
}

#[test]
fn what_is_given_up_may_come_again() {
    let mut ends = Ends::new();
    let packets = ends.up_to_ping();
    for _ in 0..20 {
        let agreeing = ends.agreeing(&packets[0]);
        ends.server.abandon(&agreeing);
    }
    let agreeing = ends.agreeing(&packets[0]);
    let agreed = agreeing.run();
    assert!(matches!(ends.server.handle_agreed(NOW, agreed, &mut Vec::new()), Routed::Accepted(..)));
    let stats = ends.server.stats();
    assert_eq!((stats.agreements, stats.over_budget), (1, 20));
}
