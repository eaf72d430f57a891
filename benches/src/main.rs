//! Measures Whimbrel and its alternatives on loopback.
//!
//! Each side is a process, on a core of its own if there are two. The receiving side measures, but latency is measured
//! by the side that sends the requests. Trials go round the peers (A B C, A B C), so that a slow minute of the machine
//! hits all alike. To add a peer, implement [`peer::Peer`] and name it in [`peer::all`].

mod certificate;
mod job;
mod meter;
mod peer;
mod report;
mod runner;

use clap::{Parser, Subcommand};

use job::Job;
use runner::Plan;

#[derive(Parser)]
#[command(about = "Measures bulk, small messages and round trips on loopback", max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    plan: Plan,
    #[command(subcommand)]
    side: Option<Side>,
}

/// One side of a measurement. This program starts both sides itself.
#[derive(Subcommand)]
enum Side {
    /// Runs the listening side. It prints `ready ADDRESS`, and its figures if it is the side that measures.
    #[command(hide = true)]
    Serve(Job),
    /// Runs the connecting side. It prints its figures if it is the side that measures.
    #[command(hide = true)]
    Run {
        #[command(flatten)]
        job: Job,
        address: String,
    },
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.side {
        None => runtime(false)?.block_on(cli.plan.run()),
        Some(Side::Serve(job)) => {
            job.pin(1);
            runtime(job.threads)?.block_on(peer::serve(&job))
        }
        Some(Side::Run { job, address }) => {
            job.pin(0);
            runtime(job.threads)?.block_on(peer::run(&job, &address))
        }
    }
}

fn runtime(threads: bool) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = if threads {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build()
}
