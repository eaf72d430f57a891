//! Two ends on loopback, for tests that look inside.

use crate::{Config, Endpoint, Mocket, new_identity};

/// Messages that the first end queues.
pub(crate) const QUEUE: usize = 8;

/// Who accepts, who connects, and their two ends: the connecting one first.
pub(crate) async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let mut config = Config::default();
    config.transport.session.send_queue_messages = QUEUE;
    let client = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    (server, client, near, far)
}
