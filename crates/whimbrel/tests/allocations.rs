//! Counts the allocations that the library makes for a message, including sockets and the runtime: almost none once
//! it is warm.
//!
//! Two endpoints on loopback share a single-threaded runtime, whose allocations are counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod join;

use bytes::Bytes;
use join::join;
use whimbrel::{Config, Endpoint, Message, Mocket, new_identity};
use whimbrel_testing::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    join(Config::default(), Config::listen_as(new_identity())).await
}

/// Sends `count` messages from one end to the other, as fast as possible.
async fn stream(near: &Mocket, far: &Mocket, payload: &Bytes, count: usize, taken: &mut Vec<Message>) {
    let sending = async {
        for _ in 0..count {
            near.send(payload.clone()).await.unwrap();
        }
    };
    let receiving = async {
        let mut got = 0;
        while got < count {
            got += far.recv_many(taken, FETCH).await.unwrap();
            taken.clear();
        }
    };
    tokio::join!(sending, receiving);
}

const FETCH: usize = 256;

/// For each case: its name, the length of a message, the messages per round, the number of rounds, and the limit of
/// allocations per message. A round begins once the last one has arrived.
///
/// A sender waits after 256 messages or when the queue is full, and its wait takes two allocations. For messages in
/// fragments, memory for 16 at a time is kept. Each further one in flight takes an allocation for its list of
/// fragments, and more if the list is long.
const CASES: [(&str, usize, usize, usize, f64); 4] = [
    ("one by one", 50, 1, 10_000, 0.1),
    ("small", 50, 10_000, 10, 0.1),
    ("bulk, 16 on their way", 16 << 10, 16, 200, 0.1),
    ("bulk, as many as fit", 4 << 10, 5_000, 2, 1.5),
];

#[tokio::test]
async fn a_message_allocates_next_to_nothing() {
    counting::switch(true);
    let (_server, _client, near, far) = pair().await;
    let mut taken = Vec::with_capacity(FETCH);
    for (name, size, round, rounds, most) in CASES {
        let payload = Bytes::from(vec![7; size]);
        let (mut before, mut packets) = (0, 0);
        // The first half of the rounds is a warm-up.
        for number in 0..2 * rounds {
            if number == rounds {
                (before, packets) = (counting::calls(), near.stats().connection.total.sent_packets);
            }
            stream(&near, &far, &payload, round, &mut taken).await;
        }
        let calls = counting::calls() - before;
        let packets = near.stats().connection.total.sent_packets - packets;
        let a_message = calls as f64 / (round * rounds) as f64;
        println!(
            "{name}: {calls} allocations, {a_message:.4} a message, {} messages, {packets} packets",
            round * rounds
        );
        assert!(a_message <= most, "{name}: {a_message} allocations a message");
    }
}

#[tokio::test]
async fn what_is_unread_takes_little_more_memory_than_its_own() {
    // As many as fit into the share of credit that needs no reading.
    const MESSAGES: u64 = 240;
    const LEN: u64 = 1_000;
    /// Receive buffers of an endpoint, 64 KiB each.
    const BUFFERS: u64 = 32;
    counting::switch(true);
    let (_server, _client, near, far) = pair().await;
    let payload = Bytes::from(vec![7; LEN as usize]);
    let before = counting::bytes();
    for number in 1..=MESSAGES {
        near.send(payload.clone()).await.unwrap();
        // Waits, so that each message arrives alone.
        while far.stats().session.unread < number {
            tokio::task::yield_now().await;
        }
    }
    let held = (counting::bytes() - before) as u64;
    println!("{MESSAGES} messages of {LEN} bytes unread: {held} bytes");
    assert!(held <= BUFFERS * 65_536 + 2 * MESSAGES * LEN, "{held} bytes");
}

/// The most bytes that a subscription may take before events wait in it.
const SUBSCRIPTION: i64 = 2_048;

#[tokio::test]
async fn a_subscription_takes_little() {
    let (_server, _client, near, _far) = pair().await;
    let before = counting::bytes();
    counting::switch(true);
    // The first one also makes the session's list of subscribers.
    let (first, second) = (near.subscribe(), near.subscribe());
    counting::switch(false);
    let bytes = counting::bytes() - before;
    println!("{bytes} bytes for two");
    assert!((1..SUBSCRIPTION).contains(&bytes), "{bytes} bytes");
    drop((first, second));
}
