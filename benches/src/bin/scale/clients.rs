//! Clients: connect as fast as told, and hold what they have.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;
use whimbrel::{Config, Endpoint};

/// So many connections.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Clients {
    #[arg(long)]
    url: String,
    #[arg(long)]
    count: usize,
    /// Under way at a time.
    #[arg(long)]
    parallel: usize,
    /// Sockets they share.
    #[arg(long, default_value_t = 8)]
    sockets: usize,
}

impl Clients {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut endpoints = Vec::new();
        for _ in 0..self.sockets {
            let mut config = Config::default();
            config.transport.handshake_timeout = Duration::from_secs(30);
            endpoints.push(Endpoint::bind(config, "127.0.0.1:0").await?);
        }
        let (mut under_way, mut mockets) = (JoinSet::new(), Vec::with_capacity(self.count));
        let begun = Instant::now();
        for number in 0..self.count {
            if under_way.len() >= self.parallel {
                mockets.push(under_way.join_next().await.context("one is under way")???);
            }
            let (endpoint, url) = (endpoints[number % self.sockets].clone(), self.url.clone());
            under_way.spawn(async move { anyhow::Ok(endpoint.connect(&url).await?) });
        }
        while let Some(mocket) = under_way.join_next().await {
            mockets.push(mocket??);
        }
        println!("{}", begun.elapsed().as_secs_f64());
        std::future::pending().await
    }
}
