//! `cargo xtask fuzz` runs the targets in `fuzz/` under libFuzzer, one after another, and prints a table at the end.

mod hours;

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::process::{cargo, program, root};
use crate::tools;
use hours::{Hours, Meter};

/// Additional arguments for one target.
struct Special {
    target: &'static str,
    build: &'static [&'static str],
    run: &'static [&'static str],
}

/// An input of `operations` decides a whole run of the simulator. Tracing comparisons finds nothing there and takes
/// most of the time. Several short inputs reach sooner what one long input reaches.
const SPECIAL: &[Special] =
    &[Special { target: "operations", build: &["--no-trace-compares"], run: &["-max_len=400"] }];

/// The sanitizer that checks memory accesses.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sanitizer {
    /// No sanitizer. The fastest, with the installed compiler.
    None,
    /// AddressSanitizer, which needs a nightly compiler. fuzz/hours.txt adds up the time.
    Address,
}

/// Runs fuzz targets under libFuzzer. Findings are written to `fuzz/artifacts`.
///
/// Inputs that reach new code are kept in `fuzz/corpus`, which is committed. `--until 1800 --sanitizer address` runs
/// each target until it has had half an hour in all. Ctrl-C loses some seconds at the most, and the same command
/// continues from there.
#[derive(clap::Args)]
pub(crate) struct Fuzz {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    time: u64,
    /// Processor seconds for each target in all, including those recorded in fuzz/hours.txt. Only with --sanitizer
    /// address.
    #[arg(long, conflicts_with_all = ["time", "planted"], value_name = "SECONDS")]
    until: Option<u64>,
    /// The sanitizer that checks memory accesses.
    #[arg(long, value_enum, default_value_t = Sanitizer::None)]
    sanitizer: Sanitizer,
    /// Plant faults, to see whether the fuzzer finds them: `sack` and `operations` must fail.
    #[arg(long)]
    planted: bool,
    /// The targets to run [default: all].
    targets: Vec<String>,
}

/// The results of a target, as libFuzzer reports them.
#[derive(Default)]
struct Figures {
    executions: u64,
    coverage: u64,
    corpus: String,
    /// The reason why it stopped early.
    fault: Option<String>,
}

impl Fuzz {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Err(reason) = tools::cargo_fuzz() {
            bail!(
                "{reason}; without it, `cargo test -p whimbrel-sim --test fuzz_smoke` runs random changes of the corpora"
            );
        }
        let is_address = self.sanitizer == Sanitizer::Address;
        if self.until.is_some() && !is_address {
            bail!("--until needs --sanitizer address: fuzz/hours.txt records only the time with it");
        }
        if is_address && let Err(reason) = tools::nightly() {
            bail!("{reason}");
        }
        let all = targets()?;
        if let Some(unknown) = self.targets.iter().find(|name| !all.contains(name)) {
            bail!("there is no target {unknown}; choose from {}", all.join(", "));
        }
        let chosen = if self.targets.is_empty() { &all } else { &self.targets };
        let mut hours = Hours::open()?;
        let mut table = Vec::new();
        for (index, target) in chosen.iter().enumerate() {
            let lacking = |hours: &Hours| match self.until {
                Some(until) => until.saturating_sub(hours.of(target).seconds),
                None => self.time,
            };
            let mut time = lacking(&hours);
            while time > 0 {
                println!("=> {target} ({} of {}), {time} s plus its build", index + 1, chosen.len());
                let figures = self.target(target, time, &mut hours)?;
                let found = figures.fault.is_some();
                table.push((target, figures));
                // On a busy machine, the target gets less processor time than it was given.
                time = if found || self.until.is_none() { 0 } else { lacking(&hours) };
            }
        }
        row("target", "executions", "coverage", "corpus", "");
        for (target, Figures { executions, coverage, corpus, fault }) in &table {
            row(target, executions, coverage, corpus, fault.as_deref().unwrap_or("good"));
        }
        let found = table.iter().any(|(_, figures)| figures.fault.is_some());
        Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn target(&self, target: &str, time: u64, hours: &mut Hours) -> anyhow::Result<Figures> {
        let (mut fuzzer, output) = start(self.command(target, time))?;
        let mut figures = Figures::default();
        let mut meter = (self.sanitizer == Sanitizer::Address && !self.planted)
            .then(|| Meter::new(hours, target, fuzzer.id()));
        for line in output.lines() {
            let line = line?;
            figures.read(&line);
            if let Some(meter) = meter.as_mut().filter(|_| line.starts_with(['#', 'I'])) {
                meter.heard(figures.executions)?;
            }
        }
        if !fuzzer.wait()?.success() {
            figures.fault.get_or_insert_with(|| "did not build or run".into());
        }
        if let Some(meter) = &mut meter {
            meter.keep(figures.executions)?;
        }
        Ok(figures)
    }

    fn command(&self, target: &str, time: u64) -> Command {
        let mut command = match self.sanitizer {
            Sanitizer::None => cargo(&["fuzz", "run", "--sanitizer", "none"]),
            Sanitizer::Address => program("cargo", &["+nightly", "fuzz", "run", "--sanitizer", "address"]),
        };
        if self.planted {
            command.args(["--features", "planted"]);
        }
        let special = SPECIAL.iter().find(|special| special.target == target);
        command.args(special.map_or(&[][..], |special| special.build)).args([target, "--"]);
        command.args(special.map_or(&[][..], |special| special.run));
        command.arg(format!("-max_total_time={time}")).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

fn start(mut command: Command) -> anyhow::Result<(Child, BufReader<ChildStderr>)> {
    let mut child = command.spawn().context("cannot run cargo fuzz")?;
    let output = child.stderr.take().context("cargo fuzz has no output")?;
    Ok((child, BufReader::new(output)))
}

/// Returns the names of the targets in `fuzz/fuzz_targets`.
fn targets() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in root().join("fuzz/fuzz_targets").read_dir()? {
        names.extend(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

impl Figures {
    /// Reads a line of libFuzzer's output, such as `#4096 pulse cov: 321 ft: 700 corp: 60/1200b …`. Prints lines about
    /// progress and faults.
    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
        if let (Some(count), Some(coverage)) =
            (words.first().and_then(|word| word.strip_prefix('#')), after("cov:"))
        {
            self.executions = count.parse().unwrap_or(self.executions);
            self.coverage = coverage.parse().unwrap_or(self.coverage);
            self.corpus = after("corp:").map_or_else(String::new, |corpus| (*corpus).to_owned());
            if words.get(1).is_some_and(|event| *event == "pulse" || *event == "INITED") {
                println!("   {line}");
            }
        } else if let Some(done) = line.strip_prefix("Done ") {
            let runs = done.split_whitespace().next().and_then(|runs| runs.parse().ok());
            self.executions = runs.unwrap_or(self.executions);
        } else if line.contains("panicked at") || line.starts_with("SUMMARY:") || line.starts_with("error") {
            println!("   {line}");
            self.fault.get_or_insert_with(|| line.trim().to_owned());
        }
    }
}

fn row(target: &str, executions: impl Display, coverage: impl Display, corpus: &str, outcome: &str) {
    println!("{target:<12} {executions:>11} {coverage:>9} {corpus:>14}  {outcome}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_figures_count_and_the_first_fault_is_named() {
        let mut figures = Figures::default();
        for line in [
            "#2\tINITED cov: 100 ft: 100 corp: 1/7b exec/s: 0 rss: 40Mb",
            "#4096\tNEW    cov: 321 ft: 700 corp: 60/1200b lim: 40 exec/s: 2048 rss: 40Mb L: 9/40 MS: 1 CrossOver-",
            "#9000\tDONE   cov: 322 ft: 701 corp: 61/1210b lim: 40 exec/s: 2048 rss: 40Mb",
            "thread '<unnamed>' panicked at src/lib.rs:1:1:",
            "SUMMARY: libFuzzer: deadly signal",
        ] {
            figures.read(line);
        }
        assert_eq!((figures.executions, figures.coverage, figures.corpus.as_str()), (9000, 322, "61/1210b"));
        assert_eq!(figures.fault.as_deref(), Some("thread '<unnamed>' panicked at src/lib.rs:1:1:"));
    }
}
