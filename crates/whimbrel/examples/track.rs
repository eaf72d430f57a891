//! Tracks the outcome of messages: whole in the peer's inbox (Delivered), confirmed by its application (Taken), or
//! cancelled.

use std::error::Error;

use whimbrel::{Config, Endpoint, Tag, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    // Delivered requires nothing of the receiving application.
    let delivery = near.sender().build().send_tracked("a report").await?;
    println!("{:?}: {:?}", delivery.id(), delivery.outcome().await);
    far.recv().await?;

    // Taken does: the application has confirmed that it is done with the message, for example that it has stored it.
    let delivery = near.sender().confirm().build().send_tracked("an order").await?;
    let order = far.recv().await?;
    far.confirm(&order);
    println!("{:?}: {:?}", delivery.id(), delivery.outcome().await);

    // A message that still waits (here because of its tag's bandwidth limit) can be cancelled.
    let frames = Tag(9);
    near.tag(frames).bandwidth(1_000)?;
    let sender = near.sender().unsequenced().tag(frames).build();
    let mut deliveries = Vec::new();
    for _ in 0..3 {
        deliveries.push(sender.send_tracked(vec![0; 1_000]).await?);
    }
    println!("{} cancelled", near.cancel(frames));
    for delivery in deliveries {
        println!("{:?}: {:?}", delivery.id(), delivery.outcome().await);
    }
    Ok(())
}
