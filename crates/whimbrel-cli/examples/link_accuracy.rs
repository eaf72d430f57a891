//! Measures how exact `whimbrel link` is on this machine: the rate it carries and the delay it adds, compared with
//! its settings.
//!
//! `cargo run --release -p whimbrel-cli --example link_accuracy`
#![allow(clippy::unwrap_used, reason = "an example that cannot go on stops")]

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use whimbrel_link::relay::{Relay, RelayConfig};
use whimbrel_net::SocketOptions;

const PAYLOAD: usize = 1472;
const PACKET_BITS: f64 = 1500.0 * 8.0;

fn main() {
    println!("rate: offered 1.1 times, 3 s");
    for mbit in [1.0, 4.0, 20.0, 100.0, 300.0, 1000.0] {
        rate(mbit);
    }
    println!("delay: 100 packets/s on an idle link, 3 s; then 100 Mbit/s, 80 % used");
    for ms in [1, 10, 50, 250] {
        delay(&format!("delay={ms}ms"), Duration::from_millis(ms), Duration::from_millis(10), 300);
    }
    delay("rate=100mbit, delay=10ms", Duration::from_micros(10_120), Duration::from_micros(150), 20_000);
}

fn open() -> UdpSocket {
    let socket = SocketOptions::default().open("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket
}

fn relay(to: &UdpSocket, link: &str) -> Relay {
    let mut config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), to.local_addr().unwrap());
    config.up = link.parse().unwrap();
    Relay::spawn(config).unwrap()
}

/// Sends `count` packets, one every `gap`, each with its number and sending time.
fn send(relay: &Relay, start: Instant, gap: Duration, count: u32) {
    let client = open();
    let mut packet = [0; PAYLOAD];
    for i in 0..count {
        let due = start + gap * i;
        let wait = due.saturating_duration_since(Instant::now());
        // Many gaps are shorter than a sleep, so it sleeps through some of them and then catches up.
        if wait > Duration::from_micros(500) || (gap > Duration::from_millis(1) && !wait.is_zero()) {
            thread::sleep(wait);
        }
        packet[..8].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
        client.send_to(&packet, relay.local_addr()).unwrap();
    }
}

/// Receives until a second of silence. Returns the sending and arrival times.
fn receive(server: &UdpSocket, start: Instant) -> Vec<(Duration, Duration)> {
    let mut arrivals = Vec::new();
    let mut packet = [0; PAYLOAD];
    while server.recv_from(&mut packet).is_ok() {
        let left = u64::from_be_bytes(packet[..8].try_into().unwrap());
        arrivals.push((Duration::from_nanos(left), start.elapsed()));
    }
    arrivals
}

fn run(link: &str, gap: Duration, count: u32) -> (Vec<(Duration, Duration)>, Relay) {
    let server = open();
    let relay = relay(&server, link);
    let start = Instant::now();
    let arrivals = thread::scope(|scope| {
        scope.spawn(|| send(&relay, start, gap, count));
        receive(&server, start)
    });
    (arrivals, relay)
}

fn rate(mbit: f64) {
    let gap = Duration::from_secs_f64(PACKET_BITS / (mbit * 1.1e6));
    let (arrivals, relay) = run(&format!("rate={mbit}mbit"), gap, (3.0 / gap.as_secs_f64()) as u32);
    let (first, last) = (arrivals[0].1, arrivals[arrivals.len() - 1].1);
    let measured = (arrivals.len() - 1) as f64 * PACKET_BITS / (last - first).as_secs_f64() / 1e6;
    let report = relay.stop().unwrap();
    println!(
        "{mbit:>6} Mbit/s: {measured:>9.3}, {:+.3} %; late by {:?} (median), {:?} (p99), {:?} (max); {} unsent, {} missing",
        (measured / mbit - 1.0) * 100.0,
        report.lateness.quantile(0.5),
        report.lateness.quantile(0.99),
        report.lateness.max(),
        report.unsent,
        report.up.stats.delivered - arrivals.len() as u64,
    );
}

fn delay(link: &str, expected: Duration, gap: Duration, count: u32) {
    let (arrivals, relay) = run(link, gap, count);
    let mut errors: Vec<f64> = arrivals
        .iter()
        .map(|(left, came)| ((*came - *left).as_secs_f64() - expected.as_secs_f64()) * 1e3)
        .collect();
    errors.sort_by(f64::total_cmp);
    let at = |quantile: f64| errors[((errors.len() - 1) as f64 * quantile) as usize];
    println!(
        "{link:>26}: off by {:+.3} ms (median), {:+.3} (p99), {:+.3} (max) of {} packets; {} unsent",
        at(0.5),
        at(0.99),
        at(1.0),
        errors.len(),
        relay.stop().unwrap().unsent
    );
}
