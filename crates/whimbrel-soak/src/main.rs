//! Runs the simulator on random seeds by the million: `cargo xtask soak`.

mod failures;
mod ranges;
mod shift;
mod state;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Parser;
use whimbrel_sim::checker::{Kind, Tape};

use failures::Limits;
use shift::Shift;

/// Runs the random-operation test on many seeds, on all cores, and shortens failures.
///
/// A seed decides a whole run: settings, links, some two hundred operations on both ends, and how it ends. A model
/// outside the transport predicts the results and complains about any other. Every tenth seed also runs a session that
/// moves between hosts.
#[derive(Parser)]
#[command(bin_name = "cargo xtask soak", max_term_width = 100, after_long_help = HELP)]
struct Cli {
    /// The number of seeds.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    seeds: u64,
    /// The first seed. CI runs the seeds from 0, so start far from there.
    #[arg(long, default_value_t = 0, value_name = "S")]
    from: u64,
    /// The number of threads [default: one for each core].
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Run only this kind [default: both].
    #[arg(long, value_parser = kind, value_name = "operations|moves")]
    kind: Option<Kind>,
    /// Forget which seeds are done.
    #[arg(long)]
    fresh: bool,
    /// The most runs for shortening one failure. 0 only lists failures.
    #[arg(long, default_value_t = 3_000, value_name = "RUNS")]
    effort: u32,
    /// The most seconds for shortening one failure.
    #[arg(long, default_value_t = 120, value_name = "S")]
    patience: u64,
    /// Run what this file describes instead, and report what is wrong.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Run this input of the fuzz target `operations` instead, and shorten it if it fails.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    input: Option<PathBuf>,
    /// Plant a fault, to see whether the test finds it.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

const HELP: &str = "\
Examples:
  cargo xtask soak --seeds 1000000 --from 5000000000    a million seeds that CI does not run
  cargo xtask soak --seeds 1000 --from 17 --fresh       seeds that were done before, once more
  cargo xtask soak --replay target/soak/operations-17.txt
  cargo xtask soak --input fuzz/artifacts/operations/crash-0a1b2c

The seeds that are done are recorded in target/soak/. After Ctrl-C, the same command continues from
there. After a change of the program it starts over, since the record is about another program.

A failed run is repeated with operations left out and numbers lowered, as long as it fails in the
same way. The shortened run is printed and written to target/soak/KIND-SEED.txt. Each line is an
operation: its decisions, and after # its meaning. Delete lines and change numbers there as you
like, and run the file with --replay. Of several similar failures, only one is shortened.

The digest covers all packets, events and suspended states, with their times. A change that only
moves code does not change it. To check that, compare the digests of the same seeds, with --fresh,
before and after the change.

The exit code is 0 if nothing failed, 1 if something failed, and 2 if the command line is wrong.";

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    trial::be_quiet();
    let planted = planted(&cli)?;
    if let Some(file) = &cli.replay {
        return replay(file);
    }
    let limits = Limits { runs: cli.effort, time: Duration::from_secs(cli.patience) };
    if let Some(file) = &cli.input {
        return input(file, limits);
    }
    let kinds = cli.kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
    let threads = cli.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    let shift = Shift {
        from: cli.from,
        seeds: cli.seeds,
        kinds,
        threads: threads.unwrap_or(1).max(1),
        fresh: cli.fresh,
        effort: cli.effort,
        patience: Duration::from_secs(cli.patience),
        planted,
    };
    let failed = shift.work()?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn kind(name: &str) -> Result<Kind, String> {
    name.parse()
}

#[cfg(feature = "mutants")]
fn planted(cli: &Cli) -> anyhow::Result<trial::Planted> {
    use whimbrel_proto::mutants::Mutant;
    let Some(name) = &cli.mutant else { return Ok(None) };
    let mutant = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == *name);
    let known = || Mutant::ALL.map(|mutant| format!("{mutant:?}")).join(", ");
    mutant.map(Some).ok_or_else(|| anyhow!("there is no fault {name}; choose from {}", known()))
}

#[cfg(not(feature = "mutants"))]
fn planted(_: &Cli) -> anyhow::Result<trial::Planted> {
    Ok(None)
}

/// Runs a fuzzer's input, and shortens it if it fails.
fn input(file: &std::path::Path, limits: Limits) -> anyhow::Result<ExitCode> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let tape = Tape::of_input(&bytes);
    let Err(complaint) = trial::run(&tape) else {
        println!("good: every promise was kept in {} operations", tape.len());
        return Ok(ExitCode::SUCCESS);
    };
    println!("{}", failures::shorten(&tape, "input", &complaint, limits));
    Ok(ExitCode::FAILURE)
}

/// Runs what a file describes.
fn replay(file: &std::path::Path) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let tape: Tape = text.parse().map_err(|why: String| anyhow!("{}: {why}", file.display()))?;
    print!("{tape}");
    match trial::run(&tape) {
        Ok(_) => {
            println!("good: every promise was kept");
            Ok(ExitCode::SUCCESS)
        }
        Err(complaint) => {
            println!("FAILED: {complaint}");
            Ok(ExitCode::FAILURE)
        }
    }
}
