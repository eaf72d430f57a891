//! `cargo xtask bench link` compares the goodput over an emulated link with the limit of that link.
//!
//! Both ends and the link between them are the real program: `whimbrel perf` and `whimbrel link`. The limit of a link
//! is its rate minus loss and headers: rate x (1 - loss) x 1,437 / 1,500. Seconds count from the connect call.

mod experiments;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use indicatif::ProgressBar;
use serde_json::Value;

use crate::process::{cargo, root};
use experiments::{Experiment, Figure};

/// Measures over emulated links.
#[derive(clap::Args)]
pub(crate) struct LinkBench {
    /// Run only experiments whose names contain this.
    filter: Option<String>,
    /// The number of trials of each experiment, with seeds 1, 2, 3 …
    #[arg(long, default_value_t = 5)]
    trials: u64,
    /// The number of trials at a time. Links of some Mbit/s do not disturb each other.
    #[arg(long, default_value_t = 3)]
    parallel: usize,
}

/// The result of one trial.
struct Trial {
    experiment: usize,
    figure: f64,
    queue_p95_ms: f64,
    queue_drops: f64,
    /// The packets and wire bytes that the sender spent on each message, as multiples of a packet with one message.
    packets: f64,
    bytes: f64,
    /// The highest latency of a message, in ms.
    latest_ms: f64,
    /// The number of messages that arrived out of order or twice.
    disorder: f64,
}

/// The size of a packet with one message of 100 bytes, including IPv4 and UDP headers.
const SMALL_PACKET: f64 = 165.0;

impl LinkBench {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let built = cargo(&["build", "--release", "--quiet", "--package", "whimbrel-cli"]).status()?;
        anyhow::ensure!(built.success(), "whimbrel could not be built");
        let experiments = experiments::all();
        let is_chosen = |name: &str| self.filter.as_ref().is_none_or(|filter| name.contains(filter));
        let chosen: Vec<usize> =
            (0..experiments.len()).filter(|index| is_chosen(&experiments[*index].name)).collect();
        anyhow::ensure!(!chosen.is_empty(), "no experiment's name contains the filter");
        // The jobs go seed by seed, so that a slow minute of the machine hits all experiments alike.
        let jobs: Vec<(usize, u64)> =
            (1..=self.trials).flat_map(|seed| chosen.iter().map(move |index| (*index, seed))).collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let bar = ProgressBar::new(jobs.len() as u64);
        std::thread::scope(|scope| {
            for _ in 0..self.parallel.max(1) {
                scope.spawn(|| {
                    while let Some((index, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = trial(*index, &experiments[*index], *seed);
                        if let Err(error) = &outcome {
                            bar.suspend(|| eprintln!("{}, seed {seed}: {error:#}", experiments[*index].name));
                        }
                        if let (Ok(trial), Ok(mut done)) = (outcome, done.lock()) {
                            done.push(trial);
                        }
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let done = done.into_inner().unwrap_or_default();
        println!(
            "| experiment | figure | median | spread | 95 of 100 | queue p95, ms | dropped at the queue | more |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for index in chosen {
            let trials: Vec<&Trial> = done.iter().filter(|trial| trial.experiment == index).collect();
            self.print(&experiments[index], &trials);
        }
        Ok(())
    }

    fn print(&self, experiment: &Experiment, trials: &[&Trial]) {
        let kind = match experiment.figure {
            Figure::Share { .. } => "share of what the link leaves",
            Figure::Seconds { .. } => "s",
            Figure::Latency { .. } => "p99 one way, ms",
            Figure::Silence { .. } => "silence beyond the outage, ms",
        };
        let figures = sorted(trials.iter().map(|trial| trial.figure));
        if figures.is_empty() {
            println!("| {} | {kind} | every trial failed | | | | | |", experiment.name);
            return;
        }
        let middle = |value: fn(&Trial) -> f64| median(&sorted(trials.iter().map(|trial| value(trial))));
        let most = |value: fn(&Trial) -> f64| trials.iter().map(|trial| value(trial)).fold(0.0, f64::max);
        let more = match experiment.figure {
            Figure::Share { .. } => String::new(),
            Figure::Seconds { ideal } => format!("{:.3} x ideal", median(&figures) / ideal),
            Figure::Latency { .. } => {
                format!(
                    "{:.2} x the packets, {:.2} x the bytes",
                    middle(|trial| trial.packets),
                    middle(|trial| trial.bytes)
                )
            }
            Figure::Silence { .. } => format!(
                "latest message {:.0} ms; {} out of order or twice",
                most(|trial| trial.latest_ms),
                most(|trial| trial.disorder)
            ),
        };
        let missing = self.trials - trials.len() as u64;
        println!(
            "| {} | {kind} | {:.4} | {:.4} to {:.4}{} | {:.4} | {:.1} | {:.2} % | {more} |",
            experiment.name,
            median(&figures),
            figures[0],
            figures[figures.len() - 1],
            if missing == 0 { String::new() } else { format!(", {missing} trials failed") },
            figures[(figures.len() - 1) * 95 / 100],
            middle(|trial| trial.queue_p95_ms),
            middle(|trial| trial.queue_drops) * 100.0,
        );
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A program that is killed when dropped.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn whimbrel(args: &[&str]) -> Command {
    let mut command = Command::new(root().join("target/release/whimbrel"));
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Starts a program whose first line is `listening ADDRESS`. Returns it with the address and its output.
fn listening(
    mut command: Command,
) -> anyhow::Result<(Stopped, String, BufReader<std::process::ChildStdout>)> {
    let mut child = command.spawn().context("cannot start whimbrel")?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let child = Stopped(child);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening ").with_context(|| format!("not listening: {line}"))?;
    Ok((child, address.to_owned(), output))
}

fn trial(index: usize, experiment: &Experiment, seed: u64) -> anyhow::Result<Trial> {
    let (_server, url, _) = listening(whimbrel(&["perf", "serve", "--listen", "127.0.0.1:0"]))?;
    let (key, far) = url.split_once('@').context("no key in the URL")?;
    let seed_text = seed.to_string();
    let mut link =
        whimbrel(&["link", "--listen", "127.0.0.1:0", "--to", far, "--json", "--seed", &seed_text]);
    link.args(&experiment.link);
    let (link, near, mut report) = listening(link)?;
    let mut load = whimbrel(&["perf", "run", &format!("{key}@{near}"), "--json"]);
    load.args(["--wait", "30"]).args(&experiment.load);
    let ticket = Ticket::new(experiment.by_ticket, &format!("{index}-{seed}"))?;
    if let Some(ticket) = &ticket {
        load.args(ticket.arguments());
        load.output()?;
    }
    let run = load.output()?;
    let figures: Value = serde_json::from_slice(&run.stdout).context("no figures")?;
    // The link prints its report when interrupted, but not when killed.
    Command::new("kill").args(["-INT", &link.0.id().to_string()]).status()?;
    let mut text = String::new();
    report.read_to_string(&mut text)?;
    let report: Value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
    Ok(read(index, experiment, &figures, &report["up"]))
}

/// Computes the result of a trial from the receiver's `figures` and from the upward direction of the link's report.
fn read(experiment: usize, Experiment { figure, .. }: &Experiment, figures: &Value, up: &Value) -> Trial {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let messages = number(&figures["messages"]);
    let p99_ms = number(&figures["latency_us"]["p99"]) / 1000.0;
    let (figure, messages) = match *figure {
        Figure::Share { rate, loss } => (number(&figures["goodput_bps"]) / (rate * (1.0 - loss)), messages),
        Figure::Seconds { .. } => (number(&figures["seconds"]), messages),
        Figure::Latency { messages } => (p99_ms, messages),
        Figure::Silence { outage } => (number(&figures["longest_gap_ms"]) - outage * 1000.0, messages),
    };
    Trial {
        experiment,
        figure,
        queue_p95_ms: number(&up["queue_delay_us"]["p95"]) / 1000.0,
        queue_drops: number(&up["queue_drops"]) / number(&up["offered"]),
        packets: number(&figures["packets_sent"]) / messages,
        bytes: number(&figures["wire_bytes_sent"]) / (messages * SMALL_PACKET),
        latest_ms: number(&figures["latency_us"]["max"]) / 1000.0,
        disorder: number(&figures["out_of_order"]) + number(&figures["duplicated"]),
    }
}

/// A folder for a key and a ticket. It is removed when dropped.
struct Ticket(PathBuf);

impl Ticket {
    fn new(wanted: bool, name: &str) -> anyhow::Result<Option<Self>> {
        if !wanted {
            return Ok(None);
        }
        let folder = std::env::temp_dir().join(format!("whimbrel-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let ticket = Self(folder);
        let made = whimbrel(&["key", "new", "--out"]).arg(ticket.0.join("key")).output()?;
        anyhow::ensure!(made.status.success(), "no key could be made");
        Ok(Some(ticket))
    }

    fn arguments(&self) -> [OsString; 4] {
        ["--key".into(), self.0.join("key").into(), "--ticket".into(), self.0.join("ticket").into()]
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
