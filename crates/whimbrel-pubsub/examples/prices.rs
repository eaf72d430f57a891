//! Subscribes to prices, publishes one, and prints it: `cargo run -p whimbrel-pubsub --example prices -- URL…`, with the URLs of brokers.

use whimbrel::{Config, Endpoint};
use whimbrel_pubsub::client::{Client, ClientOptions, Event, Publish, Subscribing, endpoint_config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let brokers: Vec<whimbrel::Url> =
        std::env::args().skip(1).map(|url| url.parse()).collect::<Result<_, _>>()?;
    let endpoint = Endpoint::bind(endpoint_config(Config::default()), "[::]:0").await?;
    let client = Client::start(endpoint, ClientOptions::new(brokers));

    let mut prices = client.subscribe(Subscribing::new("prices/#"));
    let mut published = false;
    while let Some(event) = prices.recv().await {
        match event {
            // From here on nothing is missed.
            Event::Attached(broker) if !published => {
                println!("at {broker}");
                client.publish(Publish::new("prices/fish", "4.20")).await?.acknowledged().await?;
                published = true;
            }
            Event::Message(delivery) => {
                println!("{}: {:?}", delivery.message.topic(), delivery.message.payload());
                break;
            }
            Event::Refused(refusal) => return Err(refusal.into()),
            _ => {}
        }
    }
    Ok(())
}
