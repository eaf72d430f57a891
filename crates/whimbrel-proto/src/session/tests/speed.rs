//! The cost of a message. `cargo test --release -p whimbrel-proto speed -- --ignored --nocapture`

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::super::*;
use super::pipe::*;
use crate::wire::{Reader, Writer};
use crate::{Service, Side, StreamId, Time};

/// Measures `work` by the wall clock. A test may read a clock, but the crate may not.
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}

#[derive(Default)]
struct Costs {
    send: Duration,
    fill: Duration,
    handle: Duration,
    recv: Duration,
    acked: Duration,
}

fn measure(service: Service, size: usize, total: u64, batch: u64, lose_every: u64) -> (Costs, u64) {
    let config = SessionConfig::default();
    let mut ends = [Session::new(Side::Client, config), Session::new(Side::Server, config)];
    for end in &mut ends {
        end.set_peer_limits(limits(&config));
    }
    let [client, server] = &mut ends;
    let payload = Bytes::from(vec![7; size]);
    let mut costs = Costs::default();
    let (mut packets, mut carried, mut starts) = (Vec::<Vec<u8>>::new(), Vec::new(), Vec::new());
    let mut pool: Vec<Vec<u8>> = (0..4096).map(|_| Vec::with_capacity(1452)).collect();
    let (mut now, mut count, mut inbox) = (Time::ZERO, 0, VecDeque::new());
    let (mut received, mut packet_number) = (0, 0u64);
    while received < total {
        now += Duration::from_micros(100);
        costs.send += timed(|| {
            for _ in 0..batch {
                client.send(now, Outgoing::new(StreamId(0), service, payload.clone())).unwrap();
            }
        });
        carried.clear();
        starts.clear();
        costs.fill += timed(|| {
            while client.wants_to_send() {
                let mut packet = pool.pop().unwrap_or_default();
                packet.clear();
                starts.push(carried.len());
                if !client.fill(now, &mut Writer::new(&mut packet, 1400), &mut carried, 0) {
                    starts.pop();
                    break;
                }
                packets.push(packet);
            }
        });
        count += packets.len() as u64;
        starts.push(carried.len());
        let mut lost = Vec::new();
        let wire: Vec<(usize, Bytes)> =
            packets.drain(..).enumerate().map(|(at, packet)| (at, Bytes::from(packet))).collect();
        let wire: Vec<Bytes> = wire
            .into_iter()
            .filter_map(|(at, packet)| {
                packet_number += 1;
                let loses = lose_every > 0 && packet_number % lose_every == 0;
                if loses {
                    lost.push(at);
                    None
                } else {
                    Some(packet)
                }
            })
            .collect();
        costs.handle += timed(|| {
            for packet in &wire {
                let mut reader = Reader::new(packet.clone());
                while !reader.is_empty() {
                    let kind = reader.u8().unwrap();
                    server.handle_block(now, kind, &mut reader, false).unwrap();
                }
            }
        });
        pool.extend(wire.into_iter().filter_map(|packet| packet.try_into_mut().ok().map(Vec::from)));
        costs.recv += timed(|| {
            received += server.recv_many(now, &mut inbox, usize::MAX) as u64;
            inbox.clear();
        });
        costs.acked += timed(|| {
            for packet in 0..starts.len() - 1 {
                for item in &carried[starts[packet]..starts[packet + 1]] {
                    if lost.contains(&packet) {
                        client.on_lost(now, item)
                    } else {
                        client.on_acked(now, item)
                    }
                }
            }
        });
        let (mut back, mut told) = (Vec::new(), Vec::new());
        while server.wants_to_send() && server.fill(now, &mut Writer::new(&mut back, 1400), &mut told, 0) {
            let mut reader = Reader::new(std::mem::take(&mut back).into());
            while !reader.is_empty() {
                let kind = reader.u8().unwrap();
                client.handle_block(now, kind, &mut reader, false).unwrap();
            }
        }
    }
    (costs, count)
}

#[test]
#[ignore = "a measurement, not a check"]
fn speed_of_small_messages() {
    for (service, lose) in Service::ALL
        .into_iter()
        .map(|service| (service, 0))
        .chain([(Service::ReliableSequenced, 50), (Service::ReliableUnsequenced, 50)])
    {
        let total = 10_000_000;
        let (costs, packets) = measure(service, 50, total, 6400, lose);
        let each = |time: Duration| time.as_nanos() as f64 / total as f64;
        println!(
            "{service:?} lose 1/{lose}: send {:.1} fill {:.1} acked {:.1} | handle {:.1} recv {:.1} ns/message, {:.1} messages a packet",
            each(costs.send),
            each(costs.fill),
            each(costs.acked),
            each(costs.handle),
            each(costs.recv),
            total as f64 / packets as f64,
        );
    }
}

#[test]
#[ignore = "a measurement, not a check"]
fn speed_of_bulk() {
    for size in [65_536, 1 << 20] {
        let total = (4u64 << 30) / size as u64;
        let (costs, packets) = measure(Service::ReliableSequenced, size, total, (1 << 21) / size as u64, 0);
        let each = |time: Duration| time.as_nanos() as f64 / packets as f64;
        println!(
            "bulk {size}: send {:.1} fill {:.1} acked {:.1} | handle {:.1} recv {:.1} ns/packet",
            each(costs.send),
            each(costs.fill),
            each(costs.acked),
            each(costs.handle),
            each(costs.recv),
        );
    }
}
