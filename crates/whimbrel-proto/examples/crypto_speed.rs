//! Measures the handshakes and packets that one core handles: `cargo run --release -p whimbrel-proto --example
//! crypto_speed`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a stopwatch outside the core")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::crypto::{
    Aead, CidGenerator, CookieJar, HeaderKey, Identity, OpenKey, ResetKey, SealKey, Secret,
};
use whimbrel_proto::handshake::{
    Acceptor, AcceptorConfig, ClientConfig, ClientHandshake, PING_LEN, Params, Ping, ServerKey,
};
use whimbrel_proto::{ConnectionId, PathId, Time};

const HANDSHAKES: usize = 4_000;
const PACKETS: u64 = 400_000;
const PACKET: usize = 1_452;

fn main() {
    handshakes();
    for aead in [Aead::Aes128Gcm, Aead::ChaCha20Poly1305] {
        packets(aead);
    }
    ids();
}

fn handshakes() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (client, server) = (Identity::generate(&mut rng), Identity::generate(&mut rng));
    let ids = CidGenerator::new(&server, 0, &mut rng);
    let config = AcceptorConfig::default().aes_in_hardware(true);
    let reset = ResetKey::new(&server, &[0; 32]);
    let mut acceptor = Acceptor::new(&server, &config, ids, reset, &mut rng);
    let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let params = Params::default();

    let mut clients: Vec<_> = (0..HANDSHAKES)
        .map(|n| {
            let config = ClientConfig::new(ServerKey::Known(server.public()), true);
            ClientHandshake::new(&mut rng, &client, config, ConnectionId(n as u64))
        })
        .collect();
    let syns: Vec<_> = clients.iter().map(ClientHandshake::syn).collect();

    let mut syn_acks = Vec::with_capacity(HANDSHAKES);
    let start = Instant::now();
    for syn in &syns {
        let mut out = Vec::with_capacity(160);
        acceptor.handle_syn(Time::ZERO, from, syn, &mut out).expect("a good SYN");
        syn_acks.push(out);
    }
    report("SYN answered", HANDSHAKES as f64 / start.elapsed().as_secs_f64(), "a second");

    let start = Instant::now();
    let pings: Vec<_> = clients
        .iter_mut()
        .zip(&syn_acks)
        .map(|(client, syn_ack)| {
            client.handle_syn_ack(syn_ack).expect("a good SYN-ACK");
            client.ping(&params, PING_LEN, &mut |out| out.bytes(&[0; 100])).expect("a cookie").packet
        })
        .collect();
    report("client: PING made", HANDSHAKES as f64 / start.elapsed().as_secs_f64(), "a second");

    let start = Instant::now();
    let pongs: Vec<_> = pings
        .iter()
        .map(|ping| {
            let answer =
                acceptor.handle_ping(Time::ZERO, from, ping, &mut rng, &mut |_| true, &mut Vec::new());
            let Ok(Ping::New(accepted)) = answer else { panic!("a good PING") };
            accepted.finish(&params, PING_LEN, &mut |out| out.bytes(&[0; 100])).expect("room").pong
        })
        .collect();
    report("server: PING to PONG", HANDSHAKES as f64 / start.elapsed().as_secs_f64(), "a second");

    let start = Instant::now();
    for (client, pong) in clients.iter_mut().zip(&pongs) {
        client.handle_pong(pong).expect("a good PONG");
    }
    report("client: PONG taken", HANDSHAKES as f64 / start.elapsed().as_secs_f64(), "a second");

    let mut jar = CookieJar::new(&mut rng);
    let start = Instant::now();
    for n in 0..PACKETS {
        black_box(jar.open(Time::ZERO, from, ConnectionId(n), &[0; CookieJar::COOKIE_LEN]).is_err());
    }
    report("forged cookie refused", PACKETS as f64 / start.elapsed().as_secs_f64(), "a second");
}

fn packets(aead: Aead) {
    let secret = Secret::new([1; 32]);
    let (seal, open) = (SealKey::new(aead, &secret), OpenKey::new(aead, &secret));
    let header = HeaderKey::new(aead, &secret);
    let head = [0; 11];
    // A packet of 1,452 bytes of UDP payload: head, blocks, tag.
    let mut body = [0; PACKET];
    let gbit = |start: Instant, count: u64| {
        (count as usize * PACKET * 8) as f64 / start.elapsed().as_secs_f64() / 1e9
    };

    let start = Instant::now();
    for number in 0..PACKETS {
        black_box(seal.seal(PathId(0), number, &head, &mut body));
    }
    report(&format!("{aead:?}: sealed"), gbit(start, PACKETS), "Gbit/s");

    let start = Instant::now();
    for number in 0..PACKETS {
        let tag = seal.seal(PathId(0), number, &head, &mut body);
        let mut mask = [0; 16];
        mask.copy_from_slice(&body[..16]);
        black_box((tag, header.mask(&mask)));
    }
    report(&format!("{aead:?}: sealed and masked"), gbit(start, PACKETS), "Gbit/s");

    let mut packet = [0; PACKET];
    let tag = seal.seal(PathId(0), 7, &head, &mut packet[..PACKET - 16]);
    packet[PACKET - 16..].copy_from_slice(&tag);
    let start = Instant::now();
    for _ in 0..PACKETS {
        let mut copy = packet;
        black_box(open.open(PathId(0), 7, &head, &mut copy).expect("genuine"));
    }
    report(&format!("{aead:?}: opened, one copy included"), gbit(start, PACKETS), "Gbit/s");
}

fn ids() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut ids = CidGenerator::new(&Identity::generate(&mut rng), 0, &mut rng);
    let start = Instant::now();
    for _ in 0..PACKETS {
        let id = black_box(ids.issue());
        black_box(ids.core_of(id));
    }
    report("connection id issued and read", start.elapsed().as_nanos() as f64 / PACKETS as f64, "ns");
}

fn report(what: &str, figure: f64, unit: &str) {
    println!("{what:>45} {figure:>12.1} {unit}");
}
