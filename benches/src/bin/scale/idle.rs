//! Measures the cost of many idle connections.

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::others::Peer;
use crate::process::Process;

/// The options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Idle {
    /// The transport of the connections
    #[arg(long, value_enum, default_value = "whimbrel")]
    peer: Peer,
    /// The number of connections
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// The seconds for which the processor time is measured; 0 skips it. With less than the 25 s between two
    /// keep-alives, the result depends on when the measurement begins
    #[arg(long, default_value_t = 50)]
    time: u64,
}

impl Idle {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let peer = self.peer.to_possible_value().context("every peer has a name")?;
        let (mut server, url) = Process::server_of(peer.get_name()).await?;
        // One connection comes first, so that memory allocated once is not counted.
        let connect = |count: usize| {
            let count = count.to_string();
            Process::start(&[
                "clients",
                "--peer",
                peer.get_name(),
                "--url",
                &url,
                "--count",
                &count,
                "--parallel",
                "64",
            ])
        };
        let mut first = connect(1)?;
        first.line().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, slabs) = (server.usage()?, slabs()?);
        let mut rest = connect(self.connections)?;
        let took: f64 = rest.line().await?.parse()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (after, slabs_after) = (server.usage()?, self::slabs()?);
        let connections = server.counts().await?.connections;
        let each = (after.resident - before.resident) as f64 / (connections - 1) as f64;
        println!("{connections} connections, made in {took:.1} s");
        println!("{each:.0} bytes of resident memory each, {} MiB in all", after.resident >> 20);
        // Both ends are on this machine.
        let kernel = slabs_after.saturating_sub(slabs) as f64 / 2.0 / (connections - 1) as f64;
        println!("{kernel:.0} bytes of the kernel's each");
        if self.time == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(self.time)).await;
        let later = server.usage()?;
        let share = (later.cpu - after.cpu).as_secs_f64() / self.time as f64;
        println!("{:.2} % of a core over {} s", share * 100.0, self.time);
        let each = (later.resident - before.resident) as f64 / (connections - 1) as f64;
        println!("{each:.0} bytes each after that");
        Ok(())
    }
}

/// Returns the memory of the kernel's own objects in bytes, for the whole machine.
fn slabs() -> anyhow::Result<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let slab =
        memory.lines().find_map(|line| line.strip_prefix("Slab:")).context("no Slab in /proc/meminfo")?;
    Ok(slab.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
