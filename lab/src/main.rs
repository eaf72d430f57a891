//! The laboratory: experiments in network namespaces on one Linux machine. They run the transport and its peers over
//! the same links. `cargo xtask lab --help` lists the commands.
//!
//! `testbed` makes hosts and links. `peer` holds one adapter per transport, and `experiment` one file per experiment.
//! `run` goes through the trials, and `report` turns their samples into pages.

mod carrier;
mod clock;
mod condition;
mod experiment;
mod flow;
mod job;
mod machine;
mod peer;
mod program;
mod report;
mod run;
mod sample;
mod shelf;
mod stats;
mod testbed;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use whimbrel_cli::proxy::ProxyCommand;

#[derive(Parser)]
#[command(bin_name = "cargo xtask lab", about, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Experiments in network namespaces that measure the transport beside its peers
#[derive(Subcommand)]
enum Command {
    /// Lists the experiments, the conditions and the peers
    List,
    /// Runs experiments and keeps their samples
    Run(run::Run),
    /// Writes the report from the samples that are kept
    Report(report::Report),
    /// Runs one flow and prints its figures
    Try(flow::Try),
    /// Ends processes that a killed run has left, and removes the samples of unfinished runs
    Clean,
    /// The side of a trial that receives; started by this program itself
    #[command(hide = true)]
    Serve(peer::Serve),
    /// The side of a trial that sends; started by this program itself
    #[command(hide = true)]
    Call(peer::Call),
    /// A caller that suspends its session; started by this program itself
    #[command(hide = true)]
    Leave(peer::Leave),
    /// A caller that resumes a session; started by this program itself
    #[command(hide = true)]
    Arrive(peer::Arrive),
    /// A program of an experiment with the proxy; started by this program itself
    #[command(hide = true)]
    Program(program::Run),
    /// `whimbrel proxy`; started by this program itself
    #[command(hide = true)]
    Proxy(Box<ProxyCommand>),
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
        Command::Program(program) => program.run(),
        Command::Proxy(proxy) => proxy.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, as `head` does. That is no failure.
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
        println!("nothing to clean up");
    }
    Ok(())
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
