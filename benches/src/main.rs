//! Loopback figures of what one would use instead of Whimbrel, and of Whimbrel beside them.
//!
//! One process a side, each on a core of its own where there are two. The receiving side measures; the latency is
//! measured where the question is asked. Trials go round the peers (A B C, A B C), so that a slow minute of the
//! machine hits all alike. To add a peer, implement [`peer::Peer`] and name it in [`peer::all`].

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
#[command(about = "Loopback figures: bulk, 50-byte messages, 64-byte round trips", max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    plan: Plan,
    #[command(subcommand)]
    side: Option<Side>,
}

/// One side of one measurement; started by this program itself.
#[derive(Subcommand)]
enum Side {
    /// The side that is connected to. Prints `ready ADDRESS`, then perhaps its figures.
    #[command(hide = true)]
    Serve(Job),
    /// The side that connects. Perhaps prints its figures.
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
