//! Gives messages a lifetime, counted from the send call. Messages undelivered by then are given up, and the receiver
//! skips them.

use std::error::Error;
use std::time::Duration;

use whimbrel::{Config, Endpoint, Outcome, Tag, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    // A bandwidth limit of 20 kB/s on the tag stands in for a slow link. 50 kB at once do not fit into 500 ms.
    let video = Tag(2);
    near.tag(video).bandwidth(20_000)?;
    let frames = near.sender().unsequenced().tag(video).lifetime(Duration::from_millis(500)).build();
    let mut deliveries = Vec::new();
    for number in 0..50_u8 {
        deliveries.push(frames.send_tracked(vec![number; 1_000]).await?);
    }

    let (mut delivered, mut expired) = (0, 0);
    for delivery in deliveries {
        match delivery.outcome().await {
            Outcome::Delivered => delivered += 1,
            Outcome::Expired => expired += 1,
            other => println!("{other:?}"),
        }
    }
    println!("{delivered} delivered, {expired} expired");

    near.begin_close(0, "");
    let mut received = 0;
    while far.recv().await.is_ok() {
        received += 1;
    }
    println!("{received} received");
    Ok(())
}
