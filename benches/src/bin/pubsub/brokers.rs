//! The brokers of a load: processes that end with it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use whimbrel::Identity;

use crate::usage::{Usage, usage};

const NATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/target/nats-server/bin/nats-server");
/// How long a broker may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// A make of broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Make {
    /// Ours, with native clients
    Whimbrel,
    /// Mosquitto, with clients of MQTT 3.1.1 at QoS 1
    Mosquitto,
    /// nats-server with JetStream, its stream in memory
    Nats,
}

/// Brokers of one make. They are killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Brokers {
    all: Vec<Child>,
    /// The URL or the address of each.
    pub(crate) addresses: Vec<String>,
    /// The address for MQTT over TLS.
    mqtts: Option<String>,
    folder: PathBuf,
}

impl Brokers {
    /// Starts so many. `settings` are those of ours, in the syntax of docs/broker.toml.
    pub(crate) async fn start(make: Make, number: usize, settings: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("whimbrel-lab-brokers-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut brokers = Self { all: Vec::new(), addresses: Vec::new(), mqtts: None, folder };
        match make {
            Make::Whimbrel => brokers.start_ours(number, settings).await?,
            Make::Mosquitto | Make::Nats => {
                anyhow::ensure!(number == 1, "a cluster of {make:?} brokers is not measured");
                brokers.start_other(make).await?;
            }
        }
        Ok(brokers)
    }

    /// The address at which a broker of ours listens for MQTT over TLS.
    pub(crate) fn mqtts(&self) -> anyhow::Result<&str> {
        self.mqtts.as_deref().context("no broker listens for MQTT over TLS")
    }

    /// The memory and the processor time of all.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let each = self.all.iter().map(|child| usage(&child.id().context("a broker has ended")?.to_string()));
        each.sum()
    }

    /// The folder of their files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills a broker and starts it again with the same files, at the same address. Returns when it was started, and how long
    /// it took until it listened.
    pub(crate) async fn kill_and_restart(&mut self, at: usize) -> anyhow::Result<(Instant, Duration)> {
        self.all[at].kill().await?;
        let config = self.folder.join(format!("{at}.toml"));
        let text = std::fs::read_to_string(&config)?;
        let (_, address) = self.addresses[at].rsplit_once('@').context("no address in a URL")?;
        std::fs::write(&config, text.replace("127.0.0.1:0", address))?;
        let began = Instant::now();
        let (child, ..) = run_ours(&config).await?;
        let took = began.elapsed();
        self.all[at] = child;
        Ok((began, took))
    }

    async fn start_ours(&mut self, number: usize, settings: &str) -> anyhow::Result<()> {
        let keys: Vec<Identity> = (0..number).map(|_| whimbrel::new_identity()).collect();
        for (at, key) in keys.iter().enumerate() {
            let file = self.folder.join(format!("{at}.key"));
            whimbrel_service::key::save_new(&file, key)?;
            let mut text = format!(
                "[broker]\nname = 'broker {at}'\ncluster = 'laboratory of {}'\n[other_clients]\npublish = '#'\nsubscribe = '#'\n\
                 [store]\nfolder = '{}'\n[listen]\naddress = '127.0.0.1:0'\nkey = '{}'\n\
                 early_from_tickets = true\nmax_per_key = 100000\nnetwork_share = 100\npings_per_address = 100000\n{settings}\n",
                keys[0].public(),
                self.folder.join(format!("{at}.store")).display(),
                file.display(),
            );
            // The later dial the earlier.
            for (other, key) in keys.iter().enumerate().filter(|(other, _)| *other != at) {
                text += &match self.addresses.get(other) {
                    Some(url) => format!("[[peer]]\nurl = '{url}'\n"),
                    None => format!("[[peer]]\nkey = '{}'\n", key.public()),
                };
            }
            let config = self.folder.join(format!("{at}.toml"));
            std::fs::write(&config, text)?;
            let (child, url, mqtts) = run_ours(&config).await?;
            self.all.push(child);
            self.addresses.push(url);
            self.mqtts = mqtts;
        }
        Ok(())
    }

    async fn start_other(&mut self, make: Make) -> anyhow::Result<()> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = if make == Make::Nats {
            // Without the laboratory's own, that of the system will do.
            let program = if Path::new(NATS).exists() { NATS } else { "nats-server" };
            let mut command = Command::new(program);
            command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(&self.folder);
            command
        } else {
            let config = self.folder.join("mosquitto.conf");
            // Without these, it drops what waits for a session beyond 1,000 messages.
            let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n");
            std::fs::write(&config, text)?;
            let mut command = Command::new("mosquitto");
            command.arg("-c").arg(config);
            command
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        self.all.push(command.spawn().with_context(|| format!("{make:?} is not here"))?);
        let address = format!("127.0.0.1:{port}");
        let listening = async {
            while TcpStream::connect(&address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.context("the broker does not listen")?;
        self.addresses.push(address);
        Ok(())
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        self.all.iter_mut().for_each(|child| drop(child.start_kill()));
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Starts a broker of ours, and waits until it listens for all that it is asked for. Returns its native URL, and its address for MQTT over
/// TLS.
async fn run_ours(config: &Path) -> anyhow::Result<(Child, String, Option<String>)> {
    let has_tls = std::fs::read_to_string(config)?.contains("[mqtt.tls]");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["broker", "run", "--config"]).arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().context("no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    let said = async {
        let (mut native, mut mqtts) = (None, None);
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.strip_prefix("listening mqtts://") {
                mqtts = Some(address.to_owned());
            } else if let Some(url) = line.strip_prefix("listening whimbrel://") {
                native = Some(format!("whimbrel://{url}"));
            }
            if mqtts.is_some() || !has_tls {
                return Ok((native.context("a broker has no native address")?, mqtts));
            }
        }
        bail!("a broker ended before it listened")
    };
    let (url, mqtts) = tokio::time::timeout(PATIENCE, said).await.context("a broker does not listen")??;
    // Its other lines are nobody's business, but must have somewhere to go.
    tokio::spawn(async move { while matches!(lines.next_line().await, Ok(Some(_))) {} });
    Ok((child, url, mqtts))
}
