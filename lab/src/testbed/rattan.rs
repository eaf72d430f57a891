//! A link by another emulator, [rattan](https://github.com/stack-rs/rattan), to compare with the laboratory's own.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use whimbrel_link::{LinkConfig, Loss, QueueLimit, Rate};

use super::host::Host;
use super::{LinkPlan, Side};

/// Path at which `cargo xtask lab` installs it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/rattan/bin/rattan");
/// Command that installs it there.
const INSTALL: &str = "cargo install --locked --root lab/target/rattan rattan@0.1.1";
/// Script that isolates rattan, which names its namespaces, locks addresses by files, and writes to the kernel's log.
/// Private mounts hide all of that from the system, and end with it. They may hide the program too, so it is opened
/// first. Like our links, it runs at real-time priority where that is permitted.
const ALONE: &str = r#"exec 3<"$1"
mount -t tmpfs none /run && mount -t tmpfs none /tmp || exit
if [ -e /dev/kmsg ]; then mount --bind /dev/null /dev/kmsg; fi
chrt --rr --pid 1 $$ 2> /dev/null
printf %s "$2" > /tmp/link.toml
printf %s "$3" > /tmp/up.json
printf %s "$4" > /tmp/down.json
exec /proc/self/fd/3 run --config /tmp/link.toml --left-stdout"#;
/// Commands that rattan runs in its two ends. It needs one in each, and ends with them.
const ENDS: &str = r#"
[env]
mode = "Isolated"
[commands]
left = ["sh", "-c", "echo ready; exec sleep infinity"]
right = ["sleep", "infinity"]
"#;
/// Longest wait until it is ready. Its devices take a third of a second, and several times that if others are being
/// made.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running link. It is killed with all its processes when this is dropped, and when this process dies.
pub(super) struct Rattan {
    process: u32,
    _child: Child,
    /// The pipe stays open so that rattan can write to it, although nothing reads the rest.
    _output: Lines<BufReader<ChildStdout>>,
    _host: Host,
}

impl Rattan {
    /// Starts rattan. `seed` decides which packets are lost. Call it within a tokio runtime.
    pub(super) async fn start(plan: &LinkPlan, seed: u64) -> anyhow::Result<Self> {
        if let Some(missing) = missing() {
            bail!(missing);
        }
        let host = Host::new("rattan")?;
        let unshare =
            ["--mount", "--fork", "--pid", "--mount-proc", "--kill-child", "--", "sh", "-c", ALONE, "sh"];
        let words = unshare.into_iter().chain([PROGRAM]).map(str::to_owned);
        let arguments: Vec<_> = words.chain(files(plan, seed)?).collect();
        let mut child = host.spawn("unshare", &arguments, Stdio::piped())?;
        let mut output = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let ready = tokio::time::timeout(PATIENCE, is_ready(&mut output)).await;
        ready.context("rattan was not ready in time")??;
        let process = child.id().context("rattan has ended")?;
        Ok(Self { process, _child: child, _output: output, _host: host })
    }

    /// Returns the host at one of its ends, with an address of the laboratory's first link.
    pub(super) fn host(&self, side: Side) -> anyhow::Result<Host> {
        let (name, letter, far) = match side {
            Side::Caller => ("left", "L", "10.2.1.1"),
            Side::Server => ("right", "R", "10.1.1.1"),
        };
        // `unshare` itself stays outside the new process namespace, but it sees the same files.
        let (namespace, id) =
            find(&format!("/proc/{}/root/run/netns", self.process), &format!("ns-{name}-"))?;
        let host = Host::of_namespace(name, File::open(namespace)?)?;
        let (device, mine, other) =
            (format!("v{letter}1-{letter}-{id}"), side.address(0), side.other().address(0));
        // rattan does not forward ARP. Each end has one neighbour, the other end, and routes through it.
        host.ip(&format!(
            "address add {mine}/32 dev {device}
             route add {other} via {far} dev {device} src {mine}"
        ))?;
        Ok(host)
    }
}

/// Returns why rattan cannot be used here, and what to do. `None` if it can.
pub(crate) fn missing() -> Option<String> {
    let what_to_do = format!("`{INSTALL}` (`cargo xtask lab run cross-check` does it, in minutes)");
    version().err().map(|_| format!("rattan is not installed: {what_to_do}"))
}

/// Describes rattan and its settings for the report.
pub(crate) fn settings() -> String {
    let version = version().unwrap_or_else(|_| "rattan".to_owned());
    format!(
        "{version} (stack-rs, Apache-2.0), isolated, AF_PACKET, one thread, before ordinary ones: cells for rate (IP bytes), loss and \
         delay, each where it is set, a drop-tail queue of as many bytes as leave in ours' time"
    )
}

fn version() -> anyhow::Result<String> {
    let output = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{PROGRAM} failed");
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

async fn is_ready(output: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<()> {
    let mut said = Vec::new();
    while let Some(line) = output.next_line().await? {
        if line == "ready" {
            return Ok(());
        }
        said.push(line);
    }
    bail!("rattan ended: {}", said.join("; "))
}

/// Finds the file in a folder whose name begins with `start`. Returns its path and the rest of its name.
fn find(folder: &str, start: &str) -> anyhow::Result<(PathBuf, String)> {
    for entry in fs::read_dir(Path::new(folder)).with_context(|| format!("no {folder}"))?.flatten() {
        if let Some(end) = entry.file_name().to_string_lossy().strip_prefix(start) {
            return Ok((entry.path(), end.to_owned()));
        }
    }
    bail!("rattan has created no {start}… in {folder}")
}

/// Returns the files that rattan reads: the link, and the losses in both directions.
fn files(plan: &LinkPlan, seed: u64) -> anyhow::Result<[String; 3]> {
    Ok([words(plan, seed)?, trace(&plan.up.loss)?, trace(&plan.down.loss)?])
}

/// Returns the link in rattan's configuration format.
fn words(plan: &LinkPlan, seed: u64) -> anyhow::Result<String> {
    let mut words = ENDS.to_owned();
    let mut links = String::from("[links]\n");
    for (name, config, from, to, seed) in
        [("up", &plan.up, "left", "right", seed), ("down", &plan.down, "right", "left", seed + 1)]
    {
        let mut last = from.to_owned();
        for (kind, cell) in cells(name, config, seed)? {
            write!(words, "[cells.{name}-{kind}]\n{cell}\n")?;
            writeln!(links, "{last} = \"{name}-{kind}\"")?;
            last = format!("{name}-{kind}");
        }
        writeln!(links, "{last} = \"{to}\"")?;
    }
    Ok(words + &links)
}

/// Returns the cells of one direction, in the order of the laboratory's model.
fn cells(name: &str, config: &LinkConfig, seed: u64) -> anyhow::Result<Vec<(&'static str, String)>> {
    let LinkConfig { rate, delay, queue, loss, .. } = config.clone();
    let known = LinkConfig::default().rate(rate.clone()).delay(delay).queue(queue).loss(loss);
    ensure!(*config == known, "rattan cannot model this link: {config}");
    let mut cells = Vec::new();
    match rate {
        Some(Rate::Constant(rate)) => cells.push(("rate", bottleneck(rate, queue))),
        Some(Rate::Trace(_)) => bail!("rattan is not used with rates that change over time"),
        None => {}
    }
    if loss != Loss::None {
        cells.push(("loss", format!("type = \"LossReplay\"\ntrace = \"/tmp/{name}.json\"\nseed = {seed}")));
    }
    if !delay.is_zero() {
        cells.push(("delay", format!("type = \"Delay\"\ndelay = \"{}us\"", delay.as_micros())));
    }
    Ok(cells)
}

fn bottleneck(rate: u64, queue: QueueLimit) -> String {
    let cell =
        format!("type = \"Bw\"\nbandwidth = \"{}Gbps {}bps\"", rate / 1_000_000_000, rate % 1_000_000_000);
    let bytes = match queue {
        QueueLimit::Time(time) => (rate as f64 * time.as_secs_f64() / 8.0) as usize,
        QueueLimit::Bytes(bytes) => bytes,
        QueueLimit::Unlimited => return cell + "\nqueue = \"Infinite\"",
    };
    format!("{cell}\nqueue = \"DropTail\"\nqueue_config = {{ byte_limit = {bytes} }}")
}

/// Returns the losses as a trace. Only with a trace does rattan take a seed.
fn trace(loss: &Loss) -> anyhow::Result<String> {
    let share = match loss {
        Loss::None => 0.0,
        Loss::Independent(share) => *share,
        Loss::Bursts { .. } | Loss::Clocked { .. } => bail!("rattan is not used with bursts of loss"),
    };
    Ok(format!("{{\"StaticLossConfig\":{{\"loss\":[{share}],\"duration\":\"1day\"}}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str) -> LinkPlan {
        let config: LinkConfig = words.parse().unwrap();
        LinkPlan { up: config.clone(), down: config }
    }

    #[test]
    fn a_link_is_said_in_its_words() {
        let [words, up, _] = files(&plan("rate=1500mbit, delay=5ms, queue=50ms, loss=5%"), 3).unwrap();
        assert!(up.contains("[0.05]"), "{up}");
        for word in [
            "left = \"up-rate\"\nup-rate = \"up-loss\"\nup-loss = \"up-delay\"\nup-delay = \"right\"\n",
            "right = \"down-rate\"",
            "bandwidth = \"1Gbps 500000000bps\"",
            "byte_limit = 9375000",
            "delay = \"5000us\"",
            "trace = \"/tmp/up.json\"\nseed = 3",
            "trace = \"/tmp/down.json\"\nseed = 4",
        ] {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert!(files(&plan(""), 1).unwrap()[0].ends_with("left = \"right\"\nright = \"left\"\n"));
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        let beyond =
            ["jitter=1ms", "loss=ge:950ms/50ms", "rate=trace:10mbit/1s+2mbit/1s", "outage=at 1s for 1s"];
        for words in beyond {
            assert!(files(&plan(words), 1).is_err(), "{words}");
        }
    }
}
