//! Measures fan-out: publishers, and many subscribers of one topic, with messages of 50 bytes.
//!
//! The broker is a process of its own. Publishers and subscribers are in this one, raw and cheap: they count payloads and read their
//! stamps, and no more. Rates are stepped up until the broker does not keep up. Processor time is read from `/proc`, for the broker and for
//! this process apart.

mod audience;
mod broker;
mod load;
mod native;
mod publisher;
mod stamp;
mod stream;
#[path = "../../walk.rs"]
mod walk;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use whimbrel_cli::broker::BrokerCommand;

use load::{Plan, Report};

#[derive(Parser)]
#[command(
    about = "Measures how many deliveries a second a broker makes to many subscribers",
    max_term_width = 110
)]
enum Cli {
    /// Steps up the rate of publishers until the broker does not keep up
    Load(Load),
    /// `whimbrel broker`. This program starts it itself.
    #[command(hide = true)]
    Broker(Box<BrokerCommand>),
}

#[derive(clap::Args, Clone, Debug)]
struct Load {
    /// The broker, and how its clients reach it
    #[arg(long, value_enum)]
    peer: Peer,
    /// The broker's program, if it is not this one, `mosquitto`, or the `nats-server` that the laboratory builds
    #[arg(long)]
    program: Option<PathBuf>,
    /// Subscribers that read
    #[arg(long, default_value_t = 100)]
    subscribers: usize,
    /// Publishers. Each of ours waits for an answer once it has 1,000 messages on the way
    #[arg(long, default_value_t = 1)]
    publishers: u32,
    /// Subscribers beside them that never read
    #[arg(long, default_value_t = 0)]
    slow: usize,
    /// Native subscriptions are semi-durable
    #[arg(long)]
    semi_durable: bool,
    /// Messages a second of the first step
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Each step's rate over that of the one before
    #[arg(long, default_value_t = 1.25)]
    factor: f64,
    /// The most steps
    #[arg(long, default_value_t = 40)]
    steps: usize,
    /// Seconds of a step
    #[arg(long, default_value_t = 1.0)]
    time: f64,
    /// The longest p99 of a step that counts, ms
    #[arg(long, default_value_t = 25.0)]
    p99: f64,
    /// Wait for Enter before and after the steps, to attach a profiler
    #[arg(long)]
    pause: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Our broker, with native clients
    Whimbrel,
    /// Our broker, with clients of MQTT 3.1.1
    WhimbrelMqtt,
    /// Mosquitto, with clients of MQTT 3.1.1
    Mosquitto,
    /// nats-server
    Nats,
}

fn main() -> anyhow::Result<()> {
    let load = match Cli::parse() {
        Cli::Load(load) => load,
        Cli::Broker(broker) => return broker.run(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(run(&load))?;
    println!("{}", serde_json::to_string(&report)?);
    runtime.shutdown_background();
    Ok(())
}

async fn run(load: &Load) -> anyhow::Result<Report> {
    let broker = broker::Broker::start(load.peer, load.program.as_deref()).await?;
    let empty = broker.usage()?;
    let audience = audience::Audience::new(load.subscribers);
    let kind = native::Wanted { semi_durable: load.semi_durable };
    let quiet = match broker.wire {
        None => native::subscribe(&broker.address, &audience, load.slow, kind).await?,
        Some(wire) => stream::subscribe(wire, &broker.address, &audience, load.slow).await?,
    };
    let publishers = publisher::start(broker.wire, &broker.address, load.publishers)?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let full = broker.usage()?;
    let bytes_each =
        full.resident.saturating_sub(empty.resident) as f64 / (load.subscribers + load.slow) as f64;
    if load.pause {
        eprintln!("the broker is process {}; press Enter", broker.id()?);
        std::io::stdin().read_line(&mut String::new())?;
    }
    let plan = Plan {
        rate: load.rate,
        factor: load.factor,
        steps: load.steps,
        time: Duration::from_secs_f64(load.time),
        p99: Duration::from_secs_f64(load.p99 / 1e3),
    };
    let (steps, best) = plan.run(&broker, &audience, &publishers).await?;
    drop(quiet);
    Ok(Report { bytes_each, steps, best })
}
