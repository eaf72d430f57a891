//! Many connections that do nothing.

use std::time::Duration;

use crate::process::Process;

/// See the module.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Idle {
    /// How many
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Seconds for which the processor time is measured: with less than the 25 s between two keep-alives it depends on where in them
    /// the measurement begins
    #[arg(long, default_value_t = 50)]
    time: u64,
}

impl Idle {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (mut server, url) = Process::server().await?;
        // One connection, so that what the first of them takes once and for all is not counted.
        let connect = |count: usize| {
            let count = count.to_string();
            Process::start(&["clients", "--url", &url, "--count", &count, "--parallel", "64"])
        };
        let mut first = connect(1)?;
        first.line().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = server.usage()?;
        let mut rest = connect(self.connections)?;
        let took: f64 = rest.line().await?.parse()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let after = server.usage()?;
        let connections = server.counts().await?.connections;
        let each = (after.resident - before.resident) as f64 / (connections - 1) as f64;
        println!("{connections} connections, made in {took:.1} s");
        println!("{each:.0} bytes of resident memory each, {} MiB in all", after.resident >> 20);
        tokio::time::sleep(Duration::from_secs(self.time)).await;
        let later = server.usage()?;
        let share = (later.cpu - after.cpu).as_secs_f64() / self.time as f64;
        println!("{:.2} % of a core over {} s", share * 100.0, self.time);
        let each = (later.resident - before.resident) as f64 / (connections - 1) as f64;
        println!("{each:.0} bytes each after that");
        Ok(())
    }
}
