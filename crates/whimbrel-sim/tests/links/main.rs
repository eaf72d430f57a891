//! Transfers over emulated links, over many seeds on the virtual clock. These are the figures that `cargo xtask bench
//! link` measures with real processes, here without the machine's noise. Tables: `cargo test --release -p
//! whimbrel-sim --test links -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;
mod late;
mod silence;
mod sparse;
mod transfers;

use std::time::Duration;

use whimbrel_proto::session::{Message, SessionConfig};
use whimbrel_proto::{Handle, TransportConfig};
use whimbrel_sim::world::{SERVER, World};

/// The resolution of timers, as in tokio.
const GRAIN: Duration = Duration::from_millis(1);

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The settings of `whimbrel perf`.
fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.session = SessionConfig::default().send_queue_bytes(4 << 20);
    config
}

/// The messages that arrived at the server, on the connection that it accepted last.
fn arrived(world: &mut World, server: &mut Option<Handle>) -> Vec<Message> {
    while let Some(accepted) = world.accept() {
        *server = Some(accepted);
    }
    let now = world.now();
    let Some(peer) = server.and_then(|server| world.try_peer(SERVER, server)) else { return Vec::new() };
    std::iter::from_fn(|| peer.connection.session().recv(now)).collect()
}

/// The figures of many seeds.
struct Figures(Vec<f64>);

impl Figures {
    fn of(seeds: u64, figure: impl FnMut(u64) -> f64) -> Self {
        let mut figures: Vec<f64> = (1..=seeds).map(figure).collect();
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share).round() as usize]
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "least {:.3}, 10 % {:.3}, median {:.3}, mean {:.3}, 90 % {:.3}, 95 % {:.3}, most {:.3}",
            self.at(0.0),
            self.at(0.1),
            self.at(0.5),
            self.mean(),
            self.at(0.9),
            self.at(0.95),
            self.at(1.0)
        )
    }
}

/// The number of seeds of a table, which the environment can set.
fn seeds(default: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(default)
}
