//! Native clients that connect by their keys.

use whimbrel::Endpoint;
use whimbrel_pubsub::frame::{Kind, Start};

use crate::client;

/// Keys, each with an endpoint of its own.
const KEYS: usize = 64;

/// Clients. Those of one key share its tickets.
pub(super) struct Clients {
    url: String,
    endpoints: Vec<Endpoint>,
}

impl Clients {
    pub(super) async fn new(url: &str) -> anyhow::Result<Self> {
        let mut endpoints = Vec::new();
        for _ in 0..KEYS {
            endpoints.push(client::endpoint().await?);
        }
        Ok(Self { url: url.to_owned(), endpoints })
    }

    /// Connects, attaches a subscription, and disconnects.
    pub(super) async fn connect(&self, number: usize) -> anyhow::Result<Option<bool>> {
        let (mocket, welcome) = client::connect(&self.endpoints[number % KEYS], &self.url).await?;
        let kind = Kind::SemiDurable {
            id: client::subscription_id(number as u64),
            generation: 1,
            cluster: Some(welcome.cluster),
            start: Start::Live,
        };
        client::subscribe(&mocket, "churned", None, kind).await?;
        mocket.begin_close(0, "");
        Ok(None)
    }
}
