//! Two endpoints on loopback and the mockets between them.

use whimbrel::{Config, Endpoint, Mocket};

/// Returns the server, the client, and their mockets: the client's first.
pub(crate) async fn join(connecting: Config, listening: Config) -> (Endpoint, Endpoint, Mocket, Mocket) {
    let server = Endpoint::bind(listening, "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(connecting, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    assert_eq!(far.peer_key(), Some(client.public_key()));
    assert_eq!(near.peer_key(), Some(server.public_key()));
    (server, client, near, far)
}
