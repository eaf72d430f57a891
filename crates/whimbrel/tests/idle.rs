//! Idle connections use no processor time. This test has its own file because it measures the whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use whimbrel::{Config, Endpoint, Mocket, new_identity};

/// The measured period. A spinning thread would use all of it; a tick is a hundredth.
const WATCHED: Duration = Duration::from_secs(1);
/// The most ticks that housekeeping may use in that period.
const MOST: u64 = 15;

/// Returns the processor time of this process so far, in hundredths of a second.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The process name before may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    [11, 12].iter().map(|at| fields[*at].parse::<u64>().unwrap()).sum()
}

/// Waits until the peer has no more room and nothing is sent between two looks.
async fn until_blocked(mocket: &Mocket) {
    const LOOK: Duration = Duration::from_millis(100);
    let (mut before, end) = (None, Instant::now() + Duration::from_secs(20));
    loop {
        let stats = mocket.stats();
        let now = (stats.session.queue_bytes > 0).then_some(stats.connection.total.sent_packets);
        if now.is_some() && now == before {
            return;
        }
        assert!(Instant::now() < end, "still at work: {stats:?}");
        before = now;
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_pair_does_not_spin() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    // Waiting readers, open streams and used-up credit could all lead to busy waiting.
    let _stream = near.open_stream().await.unwrap();
    let sending = tokio::spawn({
        let near = near.clone();
        async move { while near.send(vec![0; 1 << 20]).await.is_ok() {} }
    });
    let reading = tokio::spawn({
        let near = near.clone();
        async move { near.recv().await.is_ok() }
    });
    until_blocked(&near).await;
    let before = ticks();
    tokio::time::sleep(WATCHED).await;
    let spent = ticks() - before;
    assert!(!sending.is_finished() && !reading.is_finished());
    assert!(spent <= MOST, "{spent} hundredths of a second of work in {WATCHED:?}");
    drop(far);
}
