//! Closing a mocket before its handshake is complete.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use whimbrel::{CloseReason, Config, Endpoint, new_identity};

#[tokio::test]
async fn what_was_sent_is_delivered() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    // The mocket is closed in one case, and dropped in the other.
    for closed in [true, false] {
        let near = client.begin_connect(&url).await.unwrap();
        for number in 0..100u8 {
            near.send(vec![number; 1000]).await.unwrap();
        }
        let waiting = closed.then(|| {
            let near = near.clone();
            tokio::spawn(async move { near.close(3, "done").await })
        });
        if let Some(waiting) = waiting {
            assert_eq!(waiting.await.unwrap(), CloseReason::Local);
        }
        drop(near);
        let far = server.accept().await.unwrap();
        for number in 0..100u8 {
            assert_eq!(far.recv().await.unwrap().payload, vec![number; 1000]);
        }
        let code = if closed { 3 } else { 0 };
        assert!(matches!(far.closed().await, CloseReason::Peer(reason) if reason.code == code));
    }
}

#[tokio::test]
async fn a_peer_that_is_not_there_is_waited_for_as_long_as_connecting_may_take() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", new_identity().public(), silent.local_addr().unwrap());
    let mut config = Config::default();
    config.transport.handshake_timeout = Duration::from_millis(300);
    let client = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let near = client.begin_connect(&url).await.unwrap();
    near.send("something").await.unwrap();
    assert_eq!(near.close(0, "").await, CloseReason::HandshakeTimedOut);
}
