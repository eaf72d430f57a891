//! Receives one message with all its properties, then many at once, until the peer has closed.

use std::error::Error;

use whimbrel::{Config, Endpoint, Tag, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    near.sender().unsequenced().tag(Tag(3)).priority(200).ppid(51).build().send("first").await?;
    let message = far.recv().await?;
    println!("{:?} on {:?}", message.payload, message.stream);
    println!("  service {:?}, priority {}", message.service, message.priority);
    println!("  tag {:?}, PPID {:?}, early {}", message.tag, message.ppid, message.early);

    for number in 0..100 {
        near.send(format!("message {number}")).await?;
    }
    near.begin_close(0, "that was all");

    // Takes all messages received so far in one call, up to a limit.
    let (mut messages, mut total) = (Vec::new(), 0);
    while far.recv_many(&mut messages, 64).await.is_ok() {
        total += messages.len();
        messages.clear();
    }
    println!("{total} more; then: {}", far.closed().await);
    Ok(())
}
