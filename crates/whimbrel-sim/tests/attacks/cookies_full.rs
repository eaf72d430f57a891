//! Strangers whose keys are on no list make handshakes as fast as allowed, until the server cannot remember more used
//! cookies. Clients from a network with a connected client are accepted all the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use whimbrel_proto::crypto::Identity;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{ConnectConfig, Datagram, Endpoint, Event, ListenConfig, TransportConfig};
use whimbrel_sim::world::{SERVER, World};

const MS: Duration = Duration::from_millis(1);
/// The defaults, reduced to a tenth.
const HANDSHAKES: u32 = 1_000;
const COOKIES: usize = 6_553;

fn address(network: u16, host: u16) -> SocketAddr {
    (Ipv6Addr::new(0x2001, 0xd00 | (network >> 8), network << 8, host << 8, 0, 0, 0, 1), 5000).into()
}

fn datagram(from: SocketAddr, packet: &[u8]) -> Datagram {
    Datagram { from, to: None, ecn: None, bytes: BytesMut::from(packet) }
}

struct Strangers {
    endpoint: Endpoint,
    begun: u16,
    /// Thousandths of a handshake.
    due: u64,
}

impl Strangers {
    /// Makes `rate` handshakes a second, each from another network, as far as the server answers.
    fn flood(&mut self, world: &mut World, rate: u64, time: u64) {
        for _ in 0..time {
            self.due += rate;
            while self.due >= 1_000 {
                self.due -= 1_000;
                self.handshake(world);
            }
            world.run(MS);
        }
    }

    fn handshake(&mut self, world: &mut World) {
        self.begun = self.begun.wrapping_add(1);
        let from = address(self.begun % 64, self.begun / 64 % 256);
        let (now, server) = (world.now(), world.address(SERVER));
        let config = ConnectConfig {
            server_key: ServerKey::Known(world.endpoint(SERVER).public_key()),
            protocol: Bytes::new(),
            psk: None,
            ticket: None,
            alternatives: Vec::new(),
            transport: TransportConfig::default(),
        };
        let (handle, mut connection) = self.endpoint.connect(now, server, config);
        // The SYN, then the PING.
        for _ in 0..2 {
            let (mut packet, mut reply) = (Vec::new(), Vec::new());
            connection.poll_transmit(now, &mut packet, 1);
            if packet.is_empty() {
                break;
            }
            world.endpoint(SERVER).handle_datagram(now, datagram(from, &packet), &mut reply);
            connection.handle_datagram(now, datagram(server, &reply));
        }
        self.endpoint.forget(handle);
    }
}

#[test]
fn strangers_who_fill_the_memory_of_cookies_keep_no_neighbour_out() {
    let mut world = World::new(5, TransportConfig::default(), ListenConfig::default());
    let link = || "delay=10ms".parse().unwrap();
    let [resident, neighbour] =
        [(); 2].map(|()| world.add_client(TransportConfig::default(), link(), link()));
    let keys = [resident, neighbour].map(|node| world.endpoint(node).public_key());
    let mut listen = ListenConfig::default().allow(Some(keys.into())).handshakes_per_second(HANDSHAKES);
    listen.acceptor.cookies_remembered = COOKIES;
    world.listen_as(listen);
    world.connect(resident);
    world.run(100 * MS);
    let stranger = Identity::from_secret([9; 32]);
    let endpoint = Endpoint::new(stranger, None, TransportConfig::default(), 0, [7; 32], true);
    let mut strangers = Strangers { endpoint, begun: 0, due: 0 };
    strangers.flood(&mut world, 745, 9_500);
    let before = world.endpoint(SERVER).stats();
    assert!(before.agreements > 4_000, "{before:?}");
    let beside = world.connect(neighbour);
    strangers.flood(&mut world, 745, 200);
    let events = world.events(neighbour, beside);
    assert!(events.iter().any(|(_, event)| *event == Event::Connected), "{events:?}");
}
