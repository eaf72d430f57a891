//! Measures brokers: subscribers that roam, come back by the thousand, or read what they missed; and durable publishing.
//!
//! Brokers are processes of their own. Publishers and subscribers are in this one. `fan-out` measures fan-out.

mod brokers;
mod churn;
mod client;
mod durable;
mod live;
mod mobility;
mod overwriting;
mod replay;
mod returning;
mod roam;
mod usage;
#[path = "../../walk.rs"]
mod walk;

use clap::Parser;
use serde::Serialize;
use whimbrel_cli::broker::BrokerCommand;

#[derive(Parser)]
#[command(about = "Measures brokers whose subscribers roam", max_term_width = 110)]
enum Cli {
    Overwriting(overwriting::Overwriting),
    Roam(roam::Roam),
    Replay(replay::Replay),
    Churn(churn::Churn),
    Returning(returning::Returning),
    Durable(durable::Durable),
    /// `whimbrel broker`. This program starts it itself.
    #[command(hide = true)]
    Broker(Box<BrokerCommand>),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse() {
        Cli::Overwriting(load) => print(&load.run()?),
        Cli::Roam(load) => measure(load.run()),
        Cli::Replay(load) => measure(load.run()),
        Cli::Churn(load) => measure(load.run()),
        Cli::Returning(load) => measure(load.run()),
        Cli::Durable(load) => measure(load.run()),
        Cli::Broker(broker) => broker.run(),
    }
}

/// Runs a load and prints its figures.
fn measure<T: Serialize>(load: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime.block_on(load)?;
    print(&figures)?;
    runtime.shutdown_background();
    Ok(())
}

fn print(figures: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(figures)?);
    Ok(())
}
