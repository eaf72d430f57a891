//! A pre-shared key in addition to the identities.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use whimbrel::{CloseReason, Config, ConnectError, Endpoint, new_identity};

fn client(psk: Option<[u8; 32]>) -> Config {
    let mut config = Config::default().psk(psk.map(Into::into));
    config.transport.handshake_timeout = Duration::from_millis(400);
    config
}

#[tokio::test]
async fn both_ends_need_the_same_and_nothing_is_early() {
    let listen = Config::listen_as(new_identity()).psk(Some([7; 32].into()));
    let server = Endpoint::bind(listen, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    for wrong in [None, Some([8; 32])] {
        let endpoint = Endpoint::bind(client(wrong), "127.0.0.1:0").await.unwrap();
        let refused = endpoint.connect(&url).await.err();
        assert!(matches!(refused, Some(ConnectError::Closed(CloseReason::HandshakeTimedOut))), "{refused:?}");
    }
    let endpoint = Endpoint::bind(client(Some([7; 32])), "127.0.0.1:0").await.unwrap();
    let near = endpoint.begin_connect(&url).await.unwrap();
    near.send("at once").await.unwrap();
    let far = server.accept().await.unwrap();
    let message = far.recv().await.unwrap();
    assert_eq!((&message.payload[..], message.early), (&b"at once"[..], false));
}
