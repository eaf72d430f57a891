//! The broker: a process, and what it uses.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::Peer;
use crate::wire::Wire;

const NATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/target/nats-server/bin/nats-server");
/// How long a broker may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// A broker. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    /// The protocol over TCP. `None`: native.
    pub(crate) wire: Option<Wire>,
    /// Its URL, or its address.
    pub(crate) address: String,
    /// The folder of its key.
    folder: Option<PathBuf>,
}

/// Resources of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory, bytes.
    pub(crate) resident: u64,
    /// Processor time of all threads so far.
    pub(crate) cpu: Duration,
}

impl Broker {
    pub(crate) async fn start(peer: Peer, program: Option<&Path>) -> anyhow::Result<Self> {
        let wire = match peer {
            Peer::Whimbrel => None,
            Peer::WhimbrelMqtt | Peer::Mosquitto => Some(Wire::Mqtt),
            Peer::Nats => Some(Wire::Nats),
        };
        match peer {
            Peer::Whimbrel | Peer::WhimbrelMqtt => {
                let own = std::env::current_exe()?;
                ours(program.unwrap_or(&own), wire).await
            }
            Peer::Mosquitto => other(program.unwrap_or(Path::new("mosquitto")), &["-p"], wire).await,
            Peer::Nats => other(program.unwrap_or(Path::new(NATS)), &["-a", "127.0.0.1", "-p"], wire).await,
        }
    }

    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the broker has ended")
    }

    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        usage(&self.id()?.to_string())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            drop(std::fs::remove_dir_all(folder));
        }
    }
}

/// Returns what a process of `/proc` uses.
pub(crate) fn usage(process: &str) -> anyhow::Result<Usage> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse()?;
    let mut cpu = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        cpu += Duration::from_nanos(schedstat.split(' ').next().context("no schedstat")?.parse()?);
    }
    Ok(Usage { resident: kilobytes << 10, cpu })
}

async fn ours(program: &Path, wire: Option<Wire>) -> anyhow::Result<Broker> {
    let folder = std::env::temp_dir().join(format!("whimbrel-fan-out-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(program);
    command.args(["broker", "run", "--listen", "127.0.0.1:0", "--key"]).arg(folder.join("key"));
    if wire.is_some() {
        command.args(["--mqtt", "127.0.0.1:0"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut broker = Broker { child, wire, address: String::new(), folder: Some(folder) };
    let mut lines = BufReader::new(stdout).lines();
    let begins = if wire.is_some() { "listening mqtt://" } else { "listening " };
    let said = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.strip_prefix(begins) {
                return Ok(address.to_owned());
            }
        }
        bail!("{} ended", program.display())
    };
    broker.address = tokio::time::timeout(PATIENCE, said).await??;
    Ok(broker)
}

async fn other(program: &Path, arguments: &[&str], wire: Option<Wire>) -> anyhow::Result<Broker> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(program);
    command.args(arguments).arg(port.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let broker = Broker { child, wire, address: format!("127.0.0.1:{port}"), folder: None };
    let listening = async {
        while TcpStream::connect(&broker.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.context("the broker does not listen")?;
    Ok(broker)
}
