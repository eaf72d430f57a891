//! `cargo demo`: two processes on loopback with a bad link between them, over which a file, positions and urgent
//! messages are sent.
//!
//! This process is the near end. It starts itself a second time as the far end, opens links of the project's own
//! emulator towards it, and sends. All results are measured by the far end, where the data arrives. It reports them
//! over a pipe, so that the figures do not cross the links they are about. Both processes share the machine's
//! monotonic clock, so ages are exact.

mod bad_link;
mod broker;
mod cargo;
mod child;
mod far;
mod far_end;
mod file;
mod findings;
mod positions;
mod proxy;
mod rebinding;
mod receiver;
mod report;
mod scale;
mod screen;
mod show;
mod stage;
mod urgent;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use whimbrel_cli::output::{OutputClosed, note};
use whimbrel_cli::process::{Flavour, Interrupted, RuntimeOptions};

/// Shows on this machine, within a minute, what Whimbrel does on a bad link: a file, positions, an urgent message, a
/// change of address.
#[derive(Parser)]
#[command(name = "cargo demo", version, max_term_width = 110)]
struct Cli {
    /// Run everything at a small scale, in a few seconds.
    #[arg(long, global = true)]
    quick: bool,
    /// Print exactly one JSON document, at the end.
    #[arg(long, global = true)]
    json: bool,
    /// The seed of the links' random losses.
    #[arg(long, global = true, value_name = "N", default_value_t = 2026)]
    seed: u64,
    /// Run as the far end.
    #[arg(long, hide = true)]
    far: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Shows what the proxy does for programs that know nothing of Whimbrel: curl and a video over UDP, through an outage.
    Proxy,
    /// Shows what the broker does for subscribers that roam: twenty of them between three brokers, of which one is killed.
    Broker,
    /// Run a broker or a subscriber until standard input ends.
    #[command(hide = true)]
    Member(Box<broker::Member>),
    /// Run `whimbrel proxy` until standard input ends.
    #[command(hide = true)]
    End(Box<proxy::End>),
}

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    let part = match cli.part.take() {
        Some(Part::End(end)) => return exit_code(end.run().map(|()| true)),
        Some(Part::Member(member)) => return exit_code(member.run().map(|()| true)),
        Some(Part::Proxy) => show::Part::Proxy,
        Some(Part::Broker) => show::Part::Broker,
        None => show::Part::Transport,
    };
    let runtime = RuntimeOptions { runtime: Some(Flavour::Multi) };
    let result = match cli.far {
        true => runtime.block_on(far::run()).map(|()| true),
        false => {
            runtime.block_on(show::Show { part, quick: cli.quick, json: cli.json, seed: cli.seed }.run())
        }
    };
    exit_code(result)
}

fn exit_code(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader closed our output on purpose, so this is no error.
        Err(error) if error.is::<OutputClosed>() => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Interrupted>() {
            Some(signal) => ExitCode::from(signal.exit_code()),
            None => {
                note(format_args!("error: {error:#}"));
                ExitCode::FAILURE
            }
        },
    }
}
