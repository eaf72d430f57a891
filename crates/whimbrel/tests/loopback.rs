//! Messages over real sockets on loopback.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod join;

use bytes::Bytes;
use join::join;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{CloseReason, Config, Endpoint, Mocket, Outcome, Tag, new_identity};

async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    join(Config::default(), Config::listen_as(new_identity())).await
}

#[tokio::test]
async fn messages_both_ways_and_a_polite_close() {
    let (_server, _client, near, far) = pair().await;
    near.send("ping").await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, "ping");
    far.send("pong").await.unwrap();
    assert_eq!(near.recv().await.unwrap().payload, "pong");
    let delivery = near.sender().unsequenced().build().send_tracked("tracked").await.unwrap();
    assert_eq!(delivery.outcome().await, Outcome::Delivered);
    assert_eq!(far.recv().await.unwrap().payload, "tracked");
    assert_eq!(near.close(3, "bye").await, CloseReason::Local);
    assert!(
        matches!(far.closed().await, CloseReason::Peer(reason) if reason.code == 3 && reason.text == "bye")
    );
    assert!(far.recv().await.is_err());
}

#[tokio::test]
async fn who_replaces_hears_what_became_of_each() {
    let (_server, _client, near, far) = pair().await;
    let tag = Tag(7);
    near.tag(tag).bandwidth(10).unwrap();
    let newest = near.sender().unsequenced().tag(tag).build();
    // This message overdraws the bandwidth limit by more than a minute.
    let first = newest.replace_tracked(vec![1; 1000]).unwrap();
    assert_eq!(first.outcome().await, Outcome::Delivered);
    let second = newest.replace_tracked("second").unwrap();
    let third = near.replace_tracked(tag, "third").unwrap();
    let fourth = newest.replace_tracked("fourth").unwrap();
    assert!(second.id() < third.id() && third.id() < fourth.id());
    assert_eq!((second.outcome().await, third.outcome().await), (Outcome::Replaced, Outcome::Replaced));
    near.tag(tag).priority(100).unwrap();
    assert_eq!(fourth.outcome().await, Outcome::Delivered);
    assert_eq!(far.recv().await.unwrap().payload, [1; 1000][..]);
    assert_eq!(far.recv().await.unwrap().payload, "fourth");
    near.close(0, "").await;
    assert!(newest.replace_tracked("too late").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_mocket_delivers_what_was_sent() {
    let (_server, client, near, far) = pair().await;
    let count = 20_000u32;
    let reading = tokio::spawn(async move {
        let mut next = 0;
        while let Ok(message) = far.recv().await {
            assert_eq!(message.payload[..4], u32::to_be_bytes(next));
            next += 1;
        }
        next
    });
    for i in 0..count {
        let mut payload = vec![7; 600];
        payload[..4].copy_from_slice(&i.to_be_bytes());
        near.send(payload).await.unwrap();
    }
    drop(near);
    assert_eq!(reading.await.unwrap(), count);
    client.wait_idle().await;
}

#[tokio::test]
async fn a_large_message_is_put_together() {
    let (_server, _client, near, far) = pair().await;
    let payload: Bytes = (0..8 << 20).map(|i: u32| (i / 7) as u8).collect::<Vec<_>>().into();
    near.send(payload.clone()).await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, payload);
}

#[tokio::test]
async fn a_transfer_over_ipv6() {
    let Ok(server) = Endpoint::bind(Config::listen_as(new_identity()), "[::1]:0").await else {
        whimbrel_testing::skipped("this host has no IPv6 loopback");
        return;
    };
    let client = Endpoint::bind(Config::default(), "[::]:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    assert!(url.contains("@[::1]:"), "{url}");
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    assert!(near.peer_addr().is_ipv6() && far.peer_addr().is_ipv6());
    let payload = Bytes::from(vec![6; 1 << 20]);
    for (from, to) in [(&near, &far), (&far, &near)] {
        from.send(payload.clone()).await.unwrap();
        assert_eq!(to.recv().await.unwrap().payload, payload);
    }
}

#[tokio::test]
async fn byte_streams_half_close_like_sockets() {
    let (_server, _client, near, far) = pair().await;
    let mut out = near.open_stream().await.unwrap();
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let copy = data.clone();
    let serving = tokio::spawn(async move {
        let mut stream = far.accept_stream().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        stream.write_all(&(got.len() as u64).to_be_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        (far, got)
    });
    out.write_all(&data).await.unwrap();
    out.shutdown().await.unwrap();
    let mut answer = Vec::new();
    out.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, (copy.len() as u64).to_be_bytes());
    assert_eq!(serving.await.unwrap().1, copy);
}

#[tokio::test]
async fn a_short_path_carries_large_packets_if_both_ends_allow_them() {
    let (mut listening, mut dialling) = (Config::listen_as(new_identity()), Config::default());
    listening.transport.max_udp_payload = 8952;
    dialling.transport.max_udp_payload = 8952;
    let (_server, _client, near, far) = join(dialling, listening).await;
    while near.max_unfragmented() < 8_000 {
        near.send("more").await.unwrap();
        far.recv().await.unwrap();
    }
    near.send(vec![7; 8_000]).await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload.len(), 8_000);
}
