//! The laboratory: experiments in network namespaces on one Linux machine, with the transport and its peers over the same
//! links. `cargo xtask lab --help` lists what there is.
//!
//! `testbed` makes hosts and links, `peer` holds one adapter a transport, `experiment` one file an experiment, `run` goes
//! through trials, `report` makes pages of them.

mod clock;
mod condition;
mod experiment;
mod flow;
mod job;
mod machine;
mod peer;
mod report;
mod run;
mod sample;
mod shelf;
mod stats;
mod testbed;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(bin_name = "cargo xtask lab", about, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Experiments in network namespaces: what is true about the transport, beside its peers
#[derive(Subcommand)]
enum Command {
    /// What there is: experiments, conditions, peers
    List,
    /// Runs experiments and keeps their samples
    Run(run::Run),
    /// Makes the pages of the samples that are kept
    Report(report::Report),
    /// One flow over one link
    Try(flow::Try),
    /// Ends what a killed run may have left, and takes away the samples of runs that did not come to their end
    Clean,
    /// The side of a trial that is connected to; started by this program itself
    #[command(hide = true)]
    Serve(peer::Serve),
    /// The side of a trial that connects; started by this program itself
    #[command(hide = true)]
    Call(peer::Call),
    /// One that suspends its session; started by this program itself
    #[command(hide = true)]
    Leave(peer::Leave),
    /// One that resumes it; started by this program itself
    #[command(hide = true)]
    Arrive(peer::Arrive),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::List => experiment::list(&mut io::stdout().lock()),
        Command::Run(run) => run.run(),
        Command::Report(report) => report.run(),
        Command::Try(trial) => trial.run(),
        Command::Clean => clean(),
        Command::Serve(serve) => serve.run(),
        Command::Call(call) => call.run(),
        Command::Leave(leave) => leave.run(),
        Command::Arrive(arrive) => arrive.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read what is printed has enough, as `head` has.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn clean() -> anyhow::Result<()> {
    let (ended, cleared) = (testbed::end_leftovers()?, shelf::clear()?);
    if ended > 0 {
        println!("{ended} processes ended");
    }
    cleared.iter().for_each(|path| println!("{} is gone", path.display()));
    if ended == 0 && cleared.is_empty() {
        println!("nothing was left");
    }
    Ok(())
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
