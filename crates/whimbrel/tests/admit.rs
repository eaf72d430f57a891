//! Admission decisions by the application.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use whimbrel::{
    CloseReason, Config, ConnectError, Endpoint, Identity, PublicKey, ResumeError, SuspendMode, new_identity,
};

async fn host(identity: &Identity) -> Endpoint {
    let mut config = Config::default().identity(identity.clone());
    // Some clients get no answer.
    config.transport.handshake_timeout = Duration::from_millis(400);
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

async fn is_refused(client: &Endpoint, url: &str) -> bool {
    let result = client.connect(url).await;
    matches!(result.err(), Some(ConnectError::Closed(CloseReason::HandshakeTimedOut)))
}

#[tokio::test]
async fn who_is_not_admitted_gets_no_answer_and_takes_nothing() {
    let [friend, stranger, unlisted] = [new_identity(), new_identity(), new_identity()];
    let asked = Arc::new(Mutex::new(Vec::<(PublicKey, SocketAddr)>::new()));
    let banned = Arc::new(Mutex::new(stranger.public()));
    let (note, list) = (Arc::clone(&asked), Arc::clone(&banned));
    let config = Config::listen_as(new_identity()).allow([friend.public(), stranger.public()]).admit(
        move |key, from| {
            note.lock().unwrap().push((*key, from));
            *key != *list.lock().unwrap()
        },
    );
    // IPv4 addresses are reported as such, even on a socket for both families.
    let Ok(server) = Endpoint::bind(config, "[::]:0").await else {
        whimbrel_testing::skipped("this host has no IPv6");
        return;
    };
    let port = server.local_addr().unwrap().port();
    let url = format!("whimbrel://{}@127.0.0.1:{port}", server.public_key());

    assert!(is_refused(&host(&unlisted).await, &url).await);
    assert!(asked.lock().unwrap().is_empty(), "the list comes first");
    let host_of_stranger = host(&stranger).await;
    assert!(is_refused(&host_of_stranger, &url).await);
    let expected = (stranger.public(), host_of_stranger.local_addr().unwrap());
    assert!(asked.lock().unwrap().iter().all(|asked| *asked == expected), "{asked:?}");
    assert_eq!((server.stats().accepted, asked.lock().unwrap().is_empty()), (0, false));

    let client = host(&friend).await;
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    assert_eq!(far.peer_key(), Some(friend.public()));
    assert_eq!(asked.lock().unwrap().last(), Some(&(friend.public(), client.local_addr().unwrap())));

    // A suspended session of a key that is banned meanwhile cannot come back, either.
    far.send("for who comes back").await.unwrap();
    let state = near.suspend(SuspendMode::Snapshot).await.unwrap();
    *banned.lock().unwrap() = friend.public();
    let elsewhere = host(&friend).await;
    let refused = elsewhere.resume(&state, None).await.err();
    assert_eq!(refused, Some(ResumeError::Closed(CloseReason::HandshakeTimedOut)));
    *banned.lock().unwrap() = stranger.public();
    let near = elsewhere.resume(&state, None).await.unwrap();
    assert_eq!(near.recv().await.unwrap().payload, "for who comes back");
    assert_eq!(server.stats().accepted, 1);
}
