//! Tests of the relay between real sockets. The assertions hold on a machine of any speed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use whimbrel_link::LinkStats;
use whimbrel_link::relay::{Direction, Relay, RelayConfig};
use whimbrel_net::{BareSocket, EcnCodepoint, RecvBatch, SocketOptions, Transmit};

const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for a packet to arrive, in a test that none does.
const SILENCE: Duration = Duration::from_millis(300);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn relay(to: &UdpSocket, config: impl FnOnce(&mut RelayConfig)) -> Relay {
    let mut relay = RelayConfig::new("127.0.0.1:0".parse().unwrap(), to.local_addr().unwrap());
    config(&mut relay);
    Relay::spawn(relay).unwrap()
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2000];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..length].to_vec(), from)
}

/// The counters of the upward link once it has seen `offered` packets.
fn stats_after(relay: &Relay, offered: u64) -> LinkStats {
    let start = Instant::now();
    loop {
        let stats = relay.control().report().unwrap().up.stats;
        if stats.offered >= offered {
            return stats;
        }
        assert!(start.elapsed() < PATIENCE, "{} of {offered} have come", stats.offered);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn hears_nothing(socket: &UdpSocket) -> bool {
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    let nothing = socket.recv_from(&mut [0; 2000]).is_err();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    nothing
}

#[test]
fn clients_are_told_apart_and_each_gets_its_own_answers() {
    let server = socket();
    let relay = relay(&server, |_| {});
    let clients = [socket(), socket(), socket()];
    for (name, client) in clients.iter().enumerate() {
        client.send_to(&[name as u8], relay.local_addr()).unwrap();
    }
    for _ in &clients {
        let (name, from) = receive(&server);
        server.send_to(&[name[0], b'!'], from).unwrap();
    }
    for (name, client) in clients.iter().enumerate() {
        assert_eq!(receive(client), (vec![name as u8, b'!'], relay.local_addr()));
    }
    let report = relay.stop().unwrap();
    assert_eq!((report.clients, report.up.stats.delivered, report.down.stats.delivered), (3, 3, 3));
}

#[test]
fn what_the_link_delivers_arrives_in_order_and_nothing_else() {
    let server = socket();
    let relay = relay(&server, |config| config.up = "loss=20%, jitter=1ms, delay=2ms".parse().unwrap());
    let client = socket();
    let mut numbers = Vec::new();
    for burst in 1..=40u16 {
        for i in 0..50 {
            client.send_to(&(burst * 50 + i).to_be_bytes(), relay.local_addr()).unwrap();
        }
        let stats = stats_after(&relay, u64::from(burst) * 50);
        // Packets are read along the way, because a receive buffer may be too small for all.
        numbers.extend((numbers.len() as u64..stats.delivered).map(|_| receive(&server).0));
    }
    let expected = numbers.len();
    assert!(numbers.is_sorted() && hears_nothing(&server));
    assert!((1450..1750).contains(&expected), "{expected}");
    assert_eq!(relay.stop().unwrap().unsent, 0);
}

#[test]
fn a_round_trip_takes_no_less_than_both_delays() {
    let server = socket();
    let relay = relay(&server, |config| {
        config.up = "delay=30ms".parse().unwrap();
        config.down = "delay=20ms".parse().unwrap();
    });
    let client = socket();
    let start = Instant::now();
    client.send_to(b"?", relay.local_addr()).unwrap();
    server.send_to(b"!", receive(&server).1).unwrap();
    receive(&client);
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_link_can_be_cut_and_mended_under_way() {
    let server = socket();
    let relay = relay(&server, |_| {});
    let client = socket();
    let send = |text: &[u8]| client.send_to(text, relay.local_addr()).unwrap();
    send(b"before");
    assert_eq!(receive(&server).0, b"before");
    relay.control().reconfigure(Direction::Up, "loss=100%".parse().unwrap());
    // An answer to a later order means that the earlier one was carried out.
    relay.control().report().unwrap();
    send(b"during");
    assert!(hears_nothing(&server));
    relay.control().reconfigure(Direction::Up, "".parse().unwrap());
    relay.control().report().unwrap();
    send(b"after");
    assert_eq!(receive(&server).0, b"after");
    assert_eq!(relay.stop().unwrap().up.stats.loss_drops, 1);
}

#[test]
fn rebinding_gives_the_server_a_new_port_and_the_client_keeps_its_own() {
    let server = socket();
    let relay = relay(&server, |_| {});
    let client = socket();
    client.send_to(b"one", relay.local_addr()).unwrap();
    let (_, before) = receive(&server);
    relay.control().rebind();
    relay.control().report().unwrap();
    server.send_to(b"to the old port", before).unwrap();
    assert!(hears_nothing(&client));
    client.send_to(b"two", relay.local_addr()).unwrap();
    let (text, after) = receive(&server);
    assert!(text == b"two" && after != before);
    server.send_to(b"to the new port", after).unwrap();
    assert_eq!(receive(&client).0, b"to the new port");
    assert_eq!(relay.stop().unwrap().rebinds, 1);
}

#[test]
fn marks_are_kept_and_made() {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = BareSocket::bind(listen, &SocketOptions::default()).unwrap();
    let mut config = RelayConfig::new(listen, server.local_addr().unwrap());
    config.up = "rate=1mbit, ecn_mark=1ms".parse().unwrap();
    let relay = Relay::spawn(config).unwrap();
    let client = BareSocket::bind(listen, &SocketOptions::default()).unwrap();
    for ecn in [Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ect0), None] {
        let destination = relay.local_addr();
        let sent = Transmit { destination, ecn, contents: &[0; 1000], segment_size: None, src_ip: None };
        client.try_send(&sent).unwrap();
    }
    let (mut batch, mut marks, start) = (RecvBatch::new(4), Vec::new(), Instant::now());
    while marks.len() < 3 && start.elapsed() < PATIENCE {
        if batch.try_fill_bare(&server).is_ok() {
            marks.extend(batch.datagrams().map(|datagram| datagram.ecn));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // A machine slow enough to spread the three over their transmission times would queue none of them.
    let marked = relay.stop().unwrap().up.stats.ce_marked;
    let expected = if marked == 1 { EcnCodepoint::Ce } else { EcnCodepoint::Ect0 };
    assert_eq!(marks, [Some(EcnCodepoint::Ect0), Some(expected), None]);
}

#[test]
fn strangers_cannot_answer_for_the_server() {
    let (server, stranger) = (socket(), socket());
    let relay = relay(&server, |_| {});
    let client = socket();
    client.send_to(b"?", relay.local_addr()).unwrap();
    let (_, from) = receive(&server);
    stranger.send_to(b"forged", from).unwrap();
    assert!(hears_nothing(&client));
}
