//! A listener that accepts one key only. Others get no answer at all, as if nothing listened.

use std::error::Error;
use std::time::Duration;

use whimbrel::{Config, Endpoint, TransportConfig, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let friend = new_identity();
    let config = Config::listen_as(new_identity()).allow([friend.public()]);
    let server = Endpoint::bind(config, "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);

    // Both clients would wait ten seconds for an answer; one second is enough here.
    let mut transport = TransportConfig::default();
    transport.handshake_timeout = Duration::from_secs(1);
    let config = Config::default().transport(transport);

    let known = Endpoint::bind(config.clone().identity(friend), "127.0.0.1:0").await?;
    let mocket = known.connect(&url).await?;
    let accepted = server.accept().await.ok_or("the endpoint is closed")?;
    println!("let in: {:?}, who talks to {:?}", accepted.peer_key(), mocket.peer_key());

    let stranger = Endpoint::bind(config.identity(new_identity()), "127.0.0.1:0").await?;
    match stranger.connect(&url).await {
        Ok(_) => return Err("the stranger was let in".into()),
        Err(error) => println!("kept out: {error}"),
    }
    println!("the listener refused {} PINGs", server.stats().refused);
    Ok(())
}
