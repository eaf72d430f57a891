//! Sends in each of the four services, with and without waiting for room, one at a time and many at once.

use std::error::Error;

use bytes::Bytes;
use whimbrel::{Config, Endpoint, SendError, Service, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    // The simplest way: reliable and in order.
    near.send("plain").await?;

    // A sender has fixed options for its messages. Make it once, use it often.
    for service in Service::ALL {
        let sender = near.sender().service(service).ppid(7).build();
        sender.send(format!("{service:?}")).await?;
    }

    // Without waiting: a full queue is an error at once, and the caller decides what to do.
    match near.try_send("now or never") {
        Err(SendError::QueueFull) => println!("no room: try again later"),
        other => other?,
    }

    // Sends many messages for little more than the cost of one.
    let readings = near.sender().unsequenced().build();
    readings.send_many((0..3).map(|number: u32| Bytes::from(format!("reading {number}")))).await?;

    near.begin_close(0, "");
    while let Ok(message) = far.recv().await {
        println!("{:?} {}", message.service, String::from_utf8_lossy(&message.payload));
    }
    Ok(())
}
