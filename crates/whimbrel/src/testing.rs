//! Two connected endpoints on loopback, for tests that look inside.

use crate::{Config, Endpoint, Mocket, new_identity};

/// The number of messages that the connecting end queues.
pub(crate) const QUEUE: usize = 8;

/// Returns the server, the client, and their mockets: the client's first.
pub(crate) async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    let mut config = Config::default();
    config.transport.session.send_queue_messages = QUEUE;
    pair_with(config).await
}

/// Returns the same with this configuration of the client.
pub(crate) async fn pair_with(config: Config) -> (Endpoint, Endpoint, Mocket, Mocket) {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    (server, client, near, far)
}
