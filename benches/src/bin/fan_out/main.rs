//! Measures fan-out: one publisher, and many subscribers of one topic, with messages of 50 bytes.
//!
//! The broker is a process of its own. The publisher and all subscribers are in this one, raw and cheap: they count payloads and read their
//! stamps, and no more. Rates are stepped up until the broker does not keep up. Processor time is read from `/proc`, for the broker and for
//! this process apart.

mod audience;
mod broker;
mod load;
mod native;
mod publisher;
mod stamp;
mod stream;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use load::{Plan, Report};

/// Measures how many deliveries a second a broker makes to many subscribers of one topic
#[derive(Parser, Clone, Debug)]
#[command(max_term_width = 110)]
struct Cli {
    /// The broker, and how its clients reach it
    #[arg(long, value_enum)]
    peer: Peer,
    /// The broker's program. By default that of the project's release build, `mosquitto`, or `nats-server`
    #[arg(long)]
    program: Option<PathBuf>,
    /// Subscribers that read
    #[arg(long, default_value_t = 100)]
    subscribers: usize,
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
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(run(&cli))?;
    println!("{}", serde_json::to_string(&report)?);
    runtime.shutdown_background();
    Ok(())
}

async fn run(cli: &Cli) -> anyhow::Result<Report> {
    let broker = broker::Broker::start(cli.peer, cli.program.as_deref()).await?;
    let empty = broker.usage()?;
    let audience = audience::Audience::new(cli.subscribers);
    let kind = native::Wanted { semi_durable: cli.semi_durable };
    let quiet = match broker.wire {
        None => native::subscribe(&broker.address, &audience, cli.slow, kind).await?,
        Some(wire) => stream::subscribe(wire, &broker.address, &audience, cli.slow).await?,
    };
    let publisher = publisher::start(broker.wire, &broker.address)?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let full = broker.usage()?;
    let bytes_each = full.resident.saturating_sub(empty.resident) as f64 / (cli.subscribers + cli.slow) as f64;
    if cli.pause {
        eprintln!("the broker is process {}; press Enter", broker.id()?);
        std::io::stdin().read_line(&mut String::new())?;
    }
    let plan = Plan {
        rate: cli.rate,
        factor: cli.factor,
        steps: cli.steps,
        time: Duration::from_secs_f64(cli.time),
        p99: Duration::from_secs_f64(cli.p99 / 1e3),
    };
    let (steps, best) = plan.run(&broker, &audience, &publisher).await?;
    drop(quiet);
    Ok(Report { bytes_each, steps, best })
}
