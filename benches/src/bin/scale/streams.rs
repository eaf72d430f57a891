//! Measures the memory of many idle byte streams.

use anyhow::Context;
use bytes::Bytes;
use whimbrel::{Config, Endpoint, Mocket, Stream, new_identity};

/// The options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Streams {
    /// The number of streams
    #[arg(long, default_value_t = 100_000)]
    streams: usize,
}

/// The number of streams that are opened before their answers are read.
const AT_A_TIME: usize = 256;

impl Streams {
    /// Opens the streams of one session, with both ends in this process. Each stream carries an opening, a request and
    /// an answer, and is idle from then on.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut config = Config::listen_as(new_identity());
        config.transport.session.max_streams = self.streams as u64 + 1;
        // Streams are granted only if what may be sent on them could be held.
        config.transport.memory_budget = 1 << 38;
        let server = Endpoint::bind(config, "127.0.0.1:0").await?;
        let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
        let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
        let (asking, answering) = tokio::join!(client.connect(&url), server.accept());
        let (asking, answering) = (asking?, answering.context("the endpoint is open")?);
        // The first streams are not counted, since they allocate memory that is needed only once.
        let mut held = Vec::with_capacity(2 * self.streams);
        held.extend(exchange(&asking, &answering, AT_A_TIME).await?);
        let before = resident()?;
        while held.len() < 2 * self.streams {
            let next = AT_A_TIME.min(self.streams - held.len() / 2);
            held.extend(exchange(&asking, &answering, next).await?);
        }
        let taken = resident()? - before;
        let streams = self.streams - AT_A_TIME;
        println!("{} open streams", held.len() / 2);
        println!("{} bytes of resident memory each, both ends and their handles", taken / streams as u64);
        println!("{} MB in all", taken / 1_000_000);
        Ok(())
    }
}

/// Opens streams, and exchanges a few bytes on each.
async fn exchange(asking: &Mocket, answering: &Mocket, count: usize) -> anyhow::Result<Vec<Stream>> {
    let mut held = Vec::with_capacity(2 * count);
    for _ in 0..count {
        let mut stream = asking.open_stream_with(b"example.org:443").await?;
        stream.write_bytes(Bytes::from_static(b"question")).await?;
        held.push(stream);
    }
    for _ in 0..count {
        let mut stream = answering.accept_stream().await?;
        stream.read_bytes(100).await?.context("a question")?;
        stream.write_bytes(Bytes::from_static(b"answered")).await?;
        held.push(stream);
    }
    for stream in &mut held[..count] {
        stream.read_bytes(100).await?.context("an answer")?;
    }
    Ok(held)
}

/// Returns the resident memory of this process in bytes.
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
