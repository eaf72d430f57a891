//! A process that is killed leaves its peer with an event, and in the end with a closed mocket.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::time::Duration;

use common::{Home, Running, whimbrel};
use whimbrel::{CloseReason, Config, Endpoint, Event};

#[tokio::test]
async fn the_peer_of_a_killed_process_is_told_and_closes() {
    let home = Home::new("killed");
    let server = Running::listening(whimbrel(&home).args(["perf", "serve", "--listen", "127.0.0.1:0"]));
    let mut config = Config::default();
    config.transport.idle_timeout = Duration::from_secs(2);
    config.transport.reattach = None;
    let client = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let mocket = client.connect(&server.listening).await.unwrap();
    let mut events = mocket.subscribe();
    server.signal("-KILL");
    assert_eq!(server.end().0, None, "a signal ended it");
    let delivery = mocket.sender().build().send_tracked("is anybody there?").await.unwrap();
    let told = async { while events.recv().await.unwrap() != Event::PeerUnreachable {} };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect("it is told");
    let closed = tokio::time::timeout(Duration::from_secs(30), mocket.closed()).await;
    assert_eq!(closed, Ok(CloseReason::TimedOut), "no hang");
    assert_eq!(delivery.outcome().await, whimbrel::Outcome::Unknown);
}
