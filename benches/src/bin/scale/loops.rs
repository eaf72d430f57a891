//! Measures the cost of a second receive loop, and how the load is spread.

use std::time::Duration;

use tokio::time::Instant;
use whimbrel::{Config, Endpoint};

use crate::process::Process;

/// The options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Loops {
    /// The number of clients, each with a port of its own
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// The number of handshakes of each client, with a small message in each connection
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The number of trials, each with one loop and with two
    #[arg(long, default_value_t = 7)]
    trials: usize,
    /// The seconds for which one connection sends as fast as it can
    #[arg(long, default_value_t = 1.5)]
    time: f64,
}

/// The figures of one server.
struct Figures {
    /// The processor time of the server for a handshake and a message, in µs.
    cost: f64,
    /// The share of the datagrams that the first loop received.
    share: f64,
    /// The goodput of one connection, in bits per second.
    bulk: f64,
}

impl Loops {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        println!("loops  handshake and message   first loop   one connection");
        let (mut costs, mut bulks) = (Vec::new(), Vec::new());
        for _ in 0..self.trials {
            let (one, two) = (self.measure(1).await?, self.measure(2).await?);
            for (loops, Figures { cost, share, bulk }) in [(1, &one), (2, &two)] {
                println!(
                    "{loops:>5}  {cost:>15.1} µs   {:>10.0} %   {:>7.2} Gbit/s",
                    share * 100.0,
                    bulk / 1e9
                );
            }
            costs.push(two.cost / one.cost);
            bulks.push(two.bulk / one.bulk);
        }
        println!(
            "two loops cost {} times as much as one; one connection has {} times the goodput",
            spread(costs),
            spread(bulks)
        );
        Ok(())
    }

    async fn measure(&self, loops: usize) -> anyhow::Result<Figures> {
        let loops = loops.to_string();
        let (mut server, url) = Process::server_with(&["serve", "--read-all", "--loops", &loops]).await?;
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            clients.push(Endpoint::bind(Config::default(), "127.0.0.1:0").await?);
        }
        let before = server.cpu()?;
        for _ in 0..self.rounds {
            for client in &clients {
                let mocket = client.connect(&url).await?;
                mocket.send("a small message").await?;
                mocket.close(0, "").await;
            }
        }
        let handshakes = (self.rounds * self.clients) as f64;
        let cost = (server.cpu()? - before).as_secs_f64() * 1e6 / handshakes;
        let received = server.counts().await?.loops;
        let share = received[0] as f64 / received.iter().sum::<u64>() as f64;
        Ok(Figures { cost, share, bulk: self.bulk(&clients[0], &mut server, &url).await? })
    }

    /// Sends on one connection. Returns the rate at which the server received, in bits per second.
    async fn bulk(&self, client: &Endpoint, server: &mut Process, url: &str) -> anyhow::Result<f64> {
        let mocket = client.connect(url).await?;
        let payload = bytes::Bytes::from(vec![0; 128 << 10]);
        let sending = async { while mocket.send(payload.clone()).await.is_ok() {} };
        let counting = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let (begun, before) = (Instant::now(), server.counts().await?.bytes);
            tokio::time::sleep(Duration::from_secs_f64(self.time)).await;
            let bytes = server.counts().await?.bytes - before;
            anyhow::Ok(bytes as f64 * 8.0 / begun.elapsed().as_secs_f64())
        };
        tokio::select! {
            () = sending => anyhow::bail!("the connection has ended"),
            bulk = counting => bulk,
        }
    }
}

/// Returns the median and the range of ratios.
fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    format!("{:.3} ({least:.3} to {most:.3})", ratios[ratios.len() / 2])
}
