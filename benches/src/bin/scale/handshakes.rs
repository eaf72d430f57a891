//! Measures handshakes a second.

use crate::process::Process;

/// The options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Handshakes {
    /// The number of handshakes
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// The most handshakes at a time
    #[arg(long, default_value_t = 64)]
    parallel: usize,
    /// The number of trials, each with a server of its own
    #[arg(long, default_value_t = 5)]
    trials: usize,
}

impl Handshakes {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        for _ in 0..self.trials {
            let (server, url) = Process::server().await?;
            let (count, parallel) = (self.count.to_string(), self.parallel.to_string());
            let before = server.usage()?;
            let mut clients = Process::start(&[
                "clients",
                "--url",
                &url,
                "--count",
                &count,
                "--parallel",
                &parallel,
                "--sockets",
                "1",
            ])?;
            let took: f64 = clients.line().await?.parse()?;
            let cpu = (server.usage()?.cpu - before.cpu).as_secs_f64();
            let count = self.count as f64;
            // The client's side of a handshake costs as much, so the shares show which of the two cores is the limit.
            let client = clients.usage()?.cpu.as_secs_f64();
            println!(
                "{:.0} a second; the server took {:.0} µs of its core for each ({:.0} % busy, good for {:.0} a second), the clients {:.0}",
                count / took,
                cpu / count * 1e6,
                cpu / took * 100.0,
                count / cpu,
                client / count * 1e6,
            );
        }
        Ok(())
    }
}
