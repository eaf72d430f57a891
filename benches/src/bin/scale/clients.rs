//! Clients that open many connections and hold them.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;
use whimbrel::{Config, Endpoint};

use crate::others::{self, Peer};

/// The connections to open.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Clients {
    #[arg(long, value_enum, default_value = "whimbrel")]
    peer: Peer,
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    count: usize,
    /// The most handshakes at a time.
    #[arg(long)]
    parallel: usize,
    /// The number of sockets that the connections share.
    #[arg(long, default_value_t = 8)]
    pub(crate) sockets: usize,
}

impl Clients {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.peer {
            Peer::Whimbrel => self.ours().await,
            Peer::Quinn => others::quinn::connect(&self).await,
            Peer::Noq => others::noq::connect(&self).await,
            Peer::Tcp => others::tcp::connect(&self).await,
        }
    }

    async fn ours(&self) -> anyhow::Result<()> {
        let mut endpoints = Vec::new();
        for _ in 0..self.sockets {
            let mut config = Config::default();
            config.transport.handshake_timeout = Duration::from_secs(30);
            endpoints.push(Endpoint::bind(config, "127.0.0.1:0").await?);
        }
        let connect = |number: usize| {
            let (endpoint, url) = (endpoints[number % self.sockets].clone(), self.url.clone());
            async move { anyhow::Ok(endpoint.connect(&url).await?) }
        };
        self.hold(connect).await
    }

    /// Opens the connections, prints how long that took, and holds them.
    pub(crate) async fn hold<C: Send + 'static, F>(&self, connect: impl Fn(usize) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<C>> + Send + 'static,
    {
        let (mut under_way, mut held) = (JoinSet::new(), Vec::with_capacity(self.count));
        let begun = Instant::now();
        for number in 0..self.count {
            if under_way.len() >= self.parallel {
                held.push(under_way.join_next().await.context("one is under way")???);
            }
            under_way.spawn(connect(number));
        }
        while let Some(connection) = under_way.join_next().await {
            held.push(connection??);
        }
        println!("{}", begun.elapsed().as_secs_f64());
        std::future::pending().await
    }
}
