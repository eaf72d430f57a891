//! Opens a message stream beside the default one, and reads only the latest of its messages.

use std::error::Error;

use whimbrel::{Config, CreditPolicy, Endpoint, StreamOptions, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    let readings = near.open_messages(StreamOptions::default().priority(50)).await?;
    // The peer learns of a stream with its first message.
    readings.send("begin").await?;
    let mut reader = far.accept_messages().await?;
    println!("{}", String::from_utf8_lossy(&reader.recv().await?.payload));

    let credit = CreditPolicy::Latest { unread: 1 };
    reader.set_options(reader.options().credit(credit))?;
    let sender = readings.sender().unreliable().build();
    for number in 0..1_000 {
        sender.send(format!("reading {number}")).await?;
    }
    near.close(0, "").await;
    if let Some(message) = reader.try_recv() {
        println!("{}", String::from_utf8_lossy(&message.payload));
    }
    println!("{} older ones made room", far.stats().session.discarded);
    Ok(())
}
