//! Reports when the round-trip time, the loss rate or the queue crosses a threshold.

use std::error::Error;
use std::time::Duration;

use whimbrel::{Config, Endpoint, Event, Quality, Threshold, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;

    let mut events = near.subscribe();
    // Loopback is never bad, so one threshold is below any round-trip time.
    let levels = [Quality::Rtt(Duration::from_nanos(1)), Quality::Loss(50), Quality::Queue(1_000_000)];
    near.watch(levels.map(Threshold::new))?;
    near.send("something").await?;
    loop {
        if let Event::Quality(change) = events.recv().await? {
            let way = if change.above { "above" } else { "below" };
            println!("{:?} is {way} {:?}", change.now, change.threshold.quality);
            return Ok(());
        }
    }
}
