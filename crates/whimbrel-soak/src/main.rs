//! Random runs of the simulator by the million: `cargo xtask soak`.

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

use shift::Shift;

/// Runs the random-operation test on many seeds, on all cores, and makes failures short.
///
/// A seed decides a whole run: settings, links, some two hundred operations on both ends, and how it ends. A model outside the transport
/// knows what must come of it and complains where something else does. Every tenth seed also runs a session that moves between hosts.
#[derive(Parser)]
#[command(bin_name = "cargo xtask soak", max_term_width = 100, after_long_help = HELP)]
struct Cli {
    /// How many seeds.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    seeds: u64,
    /// The first seed. CI runs those from 0: begin far from there.
    #[arg(long, default_value_t = 0, value_name = "S")]
    from: u64,
    /// Threads [default: one for each core].
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Only one kind of run [default: both].
    #[arg(long, value_parser = kind, value_name = "operations|moves")]
    kind: Option<Kind>,
    /// Forget which seeds are done.
    #[arg(long)]
    fresh: bool,
    /// Runs that making one failure short may take, besides its time. 0: failures are listed only.
    #[arg(long, default_value_t = 3_000, value_name = "RUNS")]
    effort: u32,
    /// Seconds that making one failure short may take.
    #[arg(long, default_value_t = 120, value_name = "S")]
    patience: u64,
    /// Play the run in this file instead, and say what is wrong with it.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Plant a fault, to see whether it is found.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
}

const HELP: &str = "\
Examples:
  cargo xtask soak --seeds 1000000 --from 5000000000    a million far from those of CI
  cargo xtask soak --seeds 1000 --from 17 --fresh       those again that were done before
  cargo xtask soak --replay target/soak/operations-17.txt

Ctrl-C: what is done is kept in target/soak/, and the same command goes on from there. A change of
the program begins anew, since what was done says nothing about it.

A failure is run again and again with operations left out and numbers made smaller, as long as it
fails in the same way. What is left is printed and written to target/soak/KIND-SEED.txt: a line for
each operation, with the decisions that make it and, behind #, what it does. Delete lines and change
numbers there as you like, and --replay it. Of failures that complain alike one is made short.

A change that only moves code leaves the digest as it was: compare that of the same seeds with --fresh
before and after. It is of all packets, events and suspended states, with their times.

Ends with 0 if nothing failed, with 1 if something did, with 2 if it was called wrongly.";

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
    mutant.map(Some).ok_or_else(|| anyhow!("no fault is called {name}; there are {}", known()))
}

#[cfg(not(feature = "mutants"))]
fn planted(_: &Cli) -> anyhow::Result<trial::Planted> {
    Ok(None)
}

/// Plays what a file says.
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
