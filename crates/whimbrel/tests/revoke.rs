//! Changing who may connect while the endpoint runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use whimbrel::{
    CloseReason, Config, ConnectError, Endpoint, Identity, ResumeError, SuspendMode, new_identity,
};

async fn host(identity: &Identity) -> Endpoint {
    let mut config = Config::default().identity(identity.clone());
    // Some clients get no answer.
    config.transport.handshake_timeout = Duration::from_millis(400);
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

fn url(server: &Endpoint) -> String {
    format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap())
}

fn is_refused(why: &CloseReason) -> bool {
    matches!(why, CloseReason::Aborted(cause, _) if format!("{cause:?}") == "Refused")
}

#[tokio::test]
async fn a_revoked_key_loses_its_connections_and_its_suspended_session() {
    let [friend, other] = [new_identity(), new_identity()];
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let (one, two, third) = (host(&friend).await, host(&friend).await, host(&other).await);
    let live = one.connect(&url(&server)).await.unwrap();
    let far = server.accept().await.unwrap();
    let leaving = two.connect(&url(&server)).await.unwrap();
    let far_of_leaving = server.accept().await.unwrap();
    let stays = third.connect(&url(&server)).await.unwrap();
    let far_of_third = server.accept().await.unwrap();
    let state = leaving.suspend(SuspendMode::Snapshot).await.unwrap();

    assert_eq!(server.revoke(&friend.public()), 2);
    assert_eq!(far.closed().await, CloseReason::Revoked);
    assert_eq!(far_of_leaving.closed().await, CloseReason::Revoked);
    assert!(is_refused(&live.closed().await));
    assert_eq!(server.stats().revoked, 2);
    let refused = one.connect(&url(&server)).await.err();
    assert!(matches!(refused, Some(ConnectError::Closed(CloseReason::HandshakeTimedOut))));
    let refused = two.resume(&state, None).await.err();
    assert_eq!(refused, Some(ResumeError::Closed(CloseReason::HandshakeTimedOut)));

    server.allow(friend.public());
    let refused = two.resume(&state, None).await.err();
    assert_eq!(refused, Some(ResumeError::Closed(CloseReason::UnknownSession)), "what it had is gone");
    one.connect(&url(&server)).await.unwrap();

    stays.send("still there").await.unwrap();
    assert_eq!(far_of_third.recv().await.unwrap().payload, "still there");
    assert_eq!(server.set_allow(Some([friend.public()].into())), 1, "the third is not on the list");
    assert!(is_refused(&stays.closed().await));
}

#[tokio::test]
async fn whoever_admit_refuses_later_loses_its_connection_when_it_is_asked_again() {
    let open = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&open);
    let config = Config::listen_as(new_identity()).admit(move |_, _| asked.load(Ordering::Relaxed));
    let server = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let client = host(&new_identity()).await;
    let near = client.connect(&url(&server)).await.unwrap();
    let far = server.accept().await.unwrap();
    assert_eq!(server.recheck(), 0);
    open.store(false, Ordering::Relaxed);
    assert_eq!(server.recheck(), 1);
    assert_eq!(far.closed().await, CloseReason::Revoked);
    assert!(is_refused(&near.closed().await));
}

/// Keys are revoked while their handshakes are in progress. None stays connected, whatever the state of its
/// handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_handshake_slips_through_while_its_key_is_revoked() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    for round in 0..8 {
        let identity = new_identity();
        let client = host(&identity).await;
        let connecting = tokio::spawn({
            let url = url(&server);
            async move { client.connect(&url).await }
        });
        while server.stats().syns <= round {
            tokio::task::yield_now().await;
        }
        server.revoke(&identity.public());
        if let Ok(near) = connecting.await.unwrap() {
            assert!(is_refused(&near.closed().await));
        }
    }
    server.wait_idle().await;
}
