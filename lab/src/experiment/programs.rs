//! Helpers of experiments with the proxy: programs on the hosts of a testbed, and how they are reached.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::carrier::Carrier;
use crate::flow::Process;
use crate::program::{Exchanged, Load};
use crate::testbed::{Side, Testbed};

/// Longest time that a program may take to start, and the first connection to be made.
pub(super) const START: Duration = Duration::from_secs(30);

/// A server on a host. It ends when this is dropped.
pub(super) struct Server {
    _process: Process,
    /// Where it listens.
    pub(super) places: Vec<SocketAddr>,
}

impl Server {
    /// Starts a server of `program` with these arguments, and waits until it listens.
    pub(super) async fn start(testbed: &Testbed, side: Side, words: &[&str]) -> anyhow::Result<Self> {
        let mut process = run(testbed, side, words)?;
        let places = process.next_within("ready", START).await?;
        let places = places.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { _process: process, places })
    }

    /// Starts an echo server, with a congestion controller of the kernel if one is named.
    pub(super) async fn echo(
        testbed: &Testbed,
        side: Side,
        at: IpAddr,
        ports: usize,
        congestion: Option<&str>,
    ) -> anyhow::Result<Self> {
        let (at, ports) = (at.to_string(), ports.to_string());
        let mut words = vec!["echo", "--at", &at, "--ports", &ports];
        words.extend(congestion.iter().flat_map(|name| ["--congestion", name]));
        Self::start(testbed, side, &words).await
    }
}

/// Starts this program's command `program` with these arguments.
pub(super) fn run(testbed: &Testbed, side: Side, words: &[&str]) -> anyhow::Result<Process> {
    let arguments: Vec<String> = ["program"].iter().chain(words).map(|&word| word.to_owned()).collect();
    Process::run(testbed, side, &arguments)
}

/// Starts a client of an echo server.
pub(super) fn exchange(
    testbed: &Testbed,
    to: &[SocketAddr],
    socks: Option<&str>,
    load: &Load,
) -> anyhow::Result<Process> {
    let to: Vec<_> = to.iter().map(ToString::to_string).collect();
    let (to, load) = (to.join(","), serde_json::to_string(load)?);
    let mut words = vec!["exchange", "--to", &to, "--load", &load];
    words.extend(socks.iter().flat_map(|socks| ["--socks", socks]));
    run(testbed, Side::Caller, &words)
}

/// Waits for what a client of an echo server found.
pub(super) async fn exchanged(client: &mut Process, within: Duration) -> anyhow::Result<Exchanged> {
    let said = client.next_within("exchanged", within).await?;
    serde_json::from_str(&said).context("reading what a client found")
}

/// Makes one exchange through the proxies, so that they run and know each other before anything is measured.
pub(super) async fn reach(
    testbed: &Testbed,
    carrier: &Carrier,
    to: SocketAddr,
    socks: Option<&str>,
) -> anyhow::Result<()> {
    let mut client = exchange(testbed, &[to], socks, &Load::Reach)?;
    exchanged(&mut client, START).await.map(drop).map_err(|error| carrier.explain(error))
}

/// A request by curl.
pub(super) struct Request<'a> {
    /// The web server.
    pub(super) from: SocketAddr,
    /// Its path. Default: as many bytes.
    pub(super) path: Option<&'a str>,
    pub(super) bytes: u64,
    pub(super) patience: Duration,
    pub(super) socks: Option<&'a str>,
}

/// The outcome of a request, complete or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    /// Bytes that arrived.
    pub(super) bytes: u64,
    /// Seconds from the start of connecting to the last byte, or to giving up.
    pub(super) seconds: f64,
    /// Whether all of it arrived.
    pub(super) complete: bool,
}

/// Asks for bytes with curl.
pub(super) async fn fetch(testbed: &Testbed, request: &Request<'_>) -> anyhow::Result<Fetched> {
    let patience = request.patience.as_secs_f64().to_string();
    let path = request.path.map_or_else(|| request.bytes.to_string(), str::to_owned);
    let url = format!("http://{}/{path}", request.from);
    let mut words = vec!["-q", "-s", "-o", "/dev/null", "-m", &patience];
    words.extend(["-w", "%{size_download} %{time_total}", "--proxy"]);
    let proxy = request.socks.map_or(String::new(), |socks| format!("socks5h://{socks}"));
    words.extend([proxy.as_str(), &url]);
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let child = testbed.spawn(Side::Caller, "curl", &words, Stdio::piped())?;
    let output = child.wait_with_output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (bytes, seconds) = said.trim().split_once(' ').with_context(|| format!("curl printed `{said}`"))?;
    let (bytes, seconds) = (bytes.parse()?, seconds.parse()?);
    Ok(Fetched { bytes, seconds, complete: output.status.success() && bytes == request.bytes })
}

/// Checks that a program is installed.
pub(super) fn check(program: &str) -> anyhow::Result<()> {
    let found = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let works = found.is_ok_and(|output| output.status.success());
    ensure!(works, "{program} is not installed: run `apt-get install {program}` as root");
    Ok(())
}
