//! Tests of packet trains: packets of one size that are sent together, as the host's segmentation offload requires.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::{Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

/// The most packets in a train.
const SEGMENTS: usize = 44;

/// For each train that a client at `bytes_per_s` sends: the number of its packets, and the size of all but the last.
fn trains(bytes_per_s: u64, messages: usize, size: usize) -> Vec<(usize, usize)> {
    let congestion = Congestion::Fixed { bytes_per_s };
    let mut transport = TransportConfig::default();
    transport.congestion = congestion;
    // Nobody reads here.
    transport.session.stream_share = 8 << 20;
    let mut pair = Pair::connected(1, transport, "delay=10ms");
    pair.send(End::Client, Service::ReliableSequenced, Bytes::from(vec![1; 1 << 20]));
    // Run until the path's MTU is known.
    pair.run(Duration::from_secs(3));
    for _ in 0..messages {
        pair.send(End::Client, Service::ReliableSequenced, Bytes::from(vec![7; size]));
    }
    let now = pair.now();
    let (connection, mut out, mut trains) = (pair.connection(End::Client), Vec::new(), Vec::new());
    while let Some(transmit) = connection.poll_transmit(now, &mut out, SEGMENTS) {
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        trains.push((transmit.size.div_ceil(segment), segment));
    }
    trains
}

#[test]
fn small_messages_leave_in_long_trains_however_fast_the_path_is() {
    for bytes_per_s in [500_000_000, 4_000_000_000] {
        let trains = trains(bytes_per_s, 6000, 50);
        let packets: usize = trains.iter().map(|(packets, _)| packets).sum();
        assert!(packets >= 200, "{trains:?}");
        // The first packet's size depends on how much of a message was left for it.
        assert!(packets / trains.len() >= SEGMENTS / 2, "{bytes_per_s} B/s: {trains:?}");
    }
}

#[test]
fn full_packets_end_with_a_whole_block_where_the_processor_decides_how_fast_they_are() {
    const CLEAR: usize = 9;
    const TAG: usize = 16;
    let full = |bytes_per_s: u64| {
        let trains = trains(bytes_per_s, 1, 1 << 20);
        let long: Vec<usize> =
            trains.iter().filter(|(packets, _)| *packets == SEGMENTS).map(|(_, size)| *size).collect();
        assert!(long.len() >= 5, "{trains:?}");
        long
    };
    let mtu = full(500_000_000)[0];
    for size in full(4_000_000_000) {
        let whole = |number_len: usize| (size - CLEAR - number_len - TAG).is_multiple_of(16);
        assert!((mtu - 15..=mtu).contains(&size) && (whole(1) || whole(2)), "{size} of {mtu}");
    }
}
