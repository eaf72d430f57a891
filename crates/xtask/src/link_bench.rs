//! `cargo xtask bench link`: what crosses an emulated link, beside what the link leaves.
//!
//! The real program at both ends (`whimbrel perf`) and between them (`whimbrel link`). The share is of the link's rate, less its loss,
//! less headers: rate x (1 - loss) x 1,437 / 1,500. Seconds count from the connect call.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use indicatif::ProgressBar;
use serde_json::Value;

use crate::process::{cargo, root};

/// Measures over emulated links.
#[derive(clap::Args)]
pub(crate) struct LinkBench {
    /// Only experiments whose name contains this.
    filter: Option<String>,
    /// Trials of each, with seeds 1, 2, 3 …
    #[arg(long, default_value_t = 5)]
    trials: u64,
    /// Trials at a time. Links of some Mbit/s do not disturb each other.
    #[arg(long, default_value_t = 3)]
    parallel: usize,
}

/// One row of the table.
struct Experiment {
    name: &'static str,
    link: &'static [&'static str],
    load: &'static [&'static str],
    /// bit/s and loss, where the figure is a share of them.
    share_of: Option<(f64, f64)>,
    /// Seconds that an ideal transfer takes, where the figure is a multiple of it.
    ideal: Option<f64>,
}

const FOUR: &[&str] = &["--rate", "4mbit", "--delay", "25ms", "--queue", "100ms"];
const TWENTY: &[&str] = &["--rate", "20mbit", "--delay", "50ms", "--queue", "100ms"];
const HUNDRED: &[&str] = &["--rate", "100mbit", "--delay", "10ms", "--queue", "100ms"];
const RADIO: &[&str] = &["--rate", "100mbit", "--delay", "20ms", "--queue", "100ms"];
const BULK: &[&str] = &["--mode", "bulk", "--time", "20", "--size", "8192", "--service", "ru"];
const ORDERED: &[&str] = &["--mode", "bulk", "--time", "20", "--size", "8192"];
const FILE: &[&str] = &["--mode", "bulk", "--bytes", "2000000", "--size", "8192"];
const SMALL: &[&str] = &["--mode", "bulk", "--bytes", "10000", "--size", "10000"];
const SPARSE: &[&str] =
    &["--mode", "latency", "--rate", "100", "--size", "100", "--service", "ru", "--time", "60"];
const SPARSE_ONCE: &[&str] = &[
    "--mode",
    "latency",
    "--rate",
    "100",
    "--size",
    "100",
    "--service",
    "ru",
    "--time",
    "60",
    "--repeats",
    "0",
];

/// Round trips of set-up, half to the receiver, and the bytes at the share that the link leaves.
const fn ideal(rate: f64, rtt: f64, loss: f64, bytes: f64) -> f64 {
    rtt * 1.5 + bytes * 8.0 / (rate * (1.0 - loss) * 1437.0 / 1500.0)
}

macro_rules! bulk {
    ($name:literal, $link:expr, $loss:literal, $load:expr, $rate:expr, $share:expr) => {
        Experiment {
            name: $name,
            link: with_loss!($link, $loss),
            load: $load,
            share_of: Some(($rate, $share)),
            ideal: None,
        }
    };
}

macro_rules! timed {
    ($name:literal, $link:expr, $loss:literal, $load:expr, $ideal:expr) => {
        Experiment {
            name: $name,
            link: with_loss!($link, $loss),
            load: $load,
            share_of: None,
            ideal: Some($ideal),
        }
    };
}

macro_rules! plain {
    ($name:literal, $link:expr, $loss:literal, $load:expr) => {
        Experiment { name: $name, link: with_loss!($link, $loss), load: $load, share_of: None, ideal: None }
    };
}

macro_rules! with_loss {
    ($link:expr, $loss:literal) => {
        &[$link[0], $link[1], $link[2], $link[3], $link[4], $link[5], "--loss", $loss]
    };
}

const EXPERIMENTS: &[Experiment] = &[
    bulk!("bulk 4 Mbit/s 50 ms 0 %", FOUR, "0%", BULK, 4e6, 0.0),
    bulk!("bulk 4 Mbit/s 50 ms 1 %", FOUR, "1%", BULK, 4e6, 0.01),
    bulk!("bulk 4 Mbit/s 50 ms 5 %", FOUR, "5%", BULK, 4e6, 0.05),
    bulk!("bulk 4 Mbit/s 50 ms 10 %", FOUR, "10%", BULK, 4e6, 0.10),
    bulk!("bulk 4 Mbit/s 50 ms 15 %", FOUR, "15%", BULK, 4e6, 0.15),
    bulk!("bulk 20 Mbit/s 100 ms 0 %", TWENTY, "0%", BULK, 20e6, 0.0),
    bulk!("bulk 20 Mbit/s 100 ms 1 %", TWENTY, "1%", BULK, 20e6, 0.01),
    bulk!("bulk 20 Mbit/s 100 ms 5 %", TWENTY, "5%", BULK, 20e6, 0.05),
    bulk!("bulk 100 Mbit/s 20 ms 5 %", HUNDRED, "5%", BULK, 100e6, 0.05),
    bulk!("ordered 4 Mbit/s 50 ms 5 %", FOUR, "5%", ORDERED, 4e6, 0.05),
    bulk!("ordered 4 Mbit/s 50 ms 15 %", FOUR, "15%", ORDERED, 4e6, 0.15),
    bulk!("ordered 20 Mbit/s 100 ms 5 %", TWENTY, "5%", ORDERED, 20e6, 0.05),
    timed!("2 MB 4 Mbit/s 50 ms 0 %", FOUR, "0%", FILE, ideal(4e6, 0.05, 0.0, 2e6)),
    timed!("2 MB 4 Mbit/s 50 ms 5 %", FOUR, "5%", FILE, ideal(4e6, 0.05, 0.05, 2e6)),
    timed!("2 MB 4 Mbit/s 50 ms 10 %", FOUR, "10%", FILE, ideal(4e6, 0.05, 0.10, 2e6)),
    timed!("2 MB 4 Mbit/s 50 ms 15 %", FOUR, "15%", FILE, ideal(4e6, 0.05, 0.15, 2e6)),
    timed!("2 MB 20 Mbit/s 100 ms 0 %", TWENTY, "0%", FILE, ideal(20e6, 0.1, 0.0, 2e6)),
    timed!("2 MB 20 Mbit/s 100 ms 1 %", TWENTY, "1%", FILE, ideal(20e6, 0.1, 0.01, 2e6)),
    timed!("2 MB 20 Mbit/s 100 ms 5 %", TWENTY, "5%", FILE, ideal(20e6, 0.1, 0.05, 2e6)),
    timed!("10 KB 4 Mbit/s 50 ms 5 %", FOUR, "5%", SMALL, ideal(4e6, 0.05, 0.0, 1e4)),
    plain!("sparse 40 ms 5 %", RADIO, "5%", SPARSE),
    plain!("sparse 40 ms 20 %", RADIO, "20%", SPARSE),
    plain!("sparse 40 ms 5 %, no repeats", RADIO, "5%", SPARSE_ONCE),
    plain!("sparse 40 ms 20 %, no repeats", RADIO, "20%", SPARSE_ONCE),
];

/// What one trial gave.
struct Trial {
    experiment: usize,
    figure: f64,
    p99_ms: f64,
    queue_p95_ms: f64,
    queue_drops: f64,
}

impl LinkBench {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let built = cargo(&["build", "--release", "--quiet", "--package", "whimbrel-cli"]).status()?;
        anyhow::ensure!(built.success(), "whimbrel could not be built");
        let chosen: Vec<usize> = (0..EXPERIMENTS.len())
            .filter(|index| {
                self.filter.as_ref().is_none_or(|filter| EXPERIMENTS[*index].name.contains(filter))
            })
            .collect();
        anyhow::ensure!(!chosen.is_empty(), "no experiment has that in its name");
        // Seed by seed, so that a slow minute of the machine hits all alike.
        let jobs: Vec<(usize, u64)> =
            (1..=self.trials).flat_map(|seed| chosen.iter().map(move |index| (*index, seed))).collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let bar = ProgressBar::new(jobs.len() as u64);
        std::thread::scope(|scope| {
            for _ in 0..self.parallel.max(1) {
                scope.spawn(|| {
                    while let Some((index, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = trial(*index, *seed);
                        if let Err(error) = &outcome {
                            bar.println(format!("{}, seed {seed}: {error:#}", EXPERIMENTS[*index].name));
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
        self.print(&chosen, &done);
        Ok(())
    }

    fn print(&self, chosen: &[usize], done: &[Trial]) {
        println!(
            "| experiment | figure | median | spread | 95 of 100 | p99, ms | queue p95, ms | dropped at the queue |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for index in chosen {
            let trials: Vec<&Trial> = done.iter().filter(|trial| trial.experiment == *index).collect();
            let experiment = &EXPERIMENTS[*index];
            let kind = match (experiment.share_of, experiment.ideal) {
                (Some(_), _) => "share of what the link leaves",
                (_, Some(_)) => "s",
                _ => "p50 one way, ms",
            };
            let figures = sorted(trials.iter().map(|trial| trial.figure));
            if figures.is_empty() {
                println!("| {} | {kind} | every trial failed | | | | | |", experiment.name);
                continue;
            }
            let against = experiment
                .ideal
                .map_or(String::new(), |ideal| format!(" ({:.3} x ideal)", median(&figures) / ideal));
            println!(
                "| {} | {kind} | {:.4}{against} | {:.4} to {:.4}{} | {:.4} | {:.1} | {:.1} | {:.2} % |",
                experiment.name,
                median(&figures),
                figures[0],
                figures[figures.len() - 1],
                if trials.len() as u64 == self.trials {
                    String::new()
                } else {
                    format!(", {} trials", trials.len())
                },
                figures[(figures.len() - 1) * 95 / 100],
                median(&sorted(trials.iter().map(|trial| trial.p99_ms))),
                median(&sorted(trials.iter().map(|trial| trial.queue_p95_ms))),
                median(&sorted(trials.iter().map(|trial| trial.queue_drops))) * 100.0,
            );
        }
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

/// A program that is stopped when it is no longer needed.
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

/// Starts a program whose first line is `listening ADDRESS`.
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

fn trial(index: usize, seed: u64) -> anyhow::Result<Trial> {
    let experiment = &EXPERIMENTS[index];
    let (_server, url, _) = listening(whimbrel(&["perf", "serve", "--listen", "127.0.0.1:0"]))?;
    let (key, far) = url.split_once('@').context("no key in the URL")?;
    let seed = seed.to_string();
    let mut link = whimbrel(&["link", "--listen", "127.0.0.1:0", "--to", far, "--json", "--seed", &seed]);
    link.args(experiment.link);
    let (link, near, mut report) = listening(link)?;
    let run =
        whimbrel(&["perf", "run", &format!("{key}@{near}"), "--json"]).args(experiment.load).output()?;
    let figures: Value = serde_json::from_slice(&run.stdout).context("no figures")?;
    // Interrupted it reports; killed it could not.
    Command::new("kill").args(["-INT", &link.0.id().to_string()]).status()?;
    let mut text = String::new();
    report.read_to_string(&mut text)?;
    let report: Value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
    let up = &report["up"];
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let p50_ms = number(&figures["latency_us"]["p50"]) / 1000.0;
    let figure = match (experiment.share_of, experiment.ideal) {
        (Some((rate, loss)), _) => number(&figures["goodput_bps"]) / (rate * (1.0 - loss) * 1437.0 / 1500.0),
        (_, Some(_)) => number(&figures["seconds"]),
        _ => p50_ms,
    };
    Ok(Trial {
        experiment: index,
        figure,
        p99_ms: number(&figures["latency_us"]["p99"]) / 1000.0,
        queue_p95_ms: number(&up["queue_delay_us"]["p95"]) / 1000.0,
        queue_drops: number(&up["queue_drops"]) / number(&up["offered"]),
    })
}
