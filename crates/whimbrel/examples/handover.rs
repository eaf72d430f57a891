//! Moves a session from one network to another in mid-conversation: make before break.
//!
//! `cargo run --example handover [OLD NEW]`: OLD and NEW are two addresses of this host. By default, two loopback
//! addresses stand in for them. With `Paths::Auto`, the default, sessions follow the host by themselves. This example
//! is for programs that know better when to switch.

use std::error::Error;
use std::net::IpAddr;

use whimbrel::{Config, Endpoint, Event, Paths, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let old: IpAddr = arguments.next().as_deref().unwrap_or("127.0.0.1").parse()?;
    let new: IpAddr = arguments.next().as_deref().unwrap_or("127.0.0.2").parse()?;

    let server = Endpoint::bind(Config::listen_as(new_identity()), &format!("{old}:0")).await?;
    let paths = Paths::Only(vec![old.into()]);
    let client = Endpoint::bind(Config::default().paths(paths), "0.0.0.0:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;
    println!("the peer sees us at {}", far.peer_addr());

    let mut events = near.subscribe();
    near.set_paths(Paths::Only(vec![old.into(), new.into()]))?;
    while !matches!(events.recv().await?, Event::PathUp(_)) {}
    println!("the new network works; what was under way goes on");
    near.set_paths(Paths::Only(vec![new.into()]))?;
    for number in 0..100 {
        near.send(format!("message {number}")).await?;
        assert_eq!(far.recv().await?.payload, format!("message {number}"));
    }
    while !matches!(events.recv().await?, Event::PathClosed(_)) {}
    println!("the peer sees us at {}", far.peer_addr());
    near.close(0, "done").await;
    Ok(())
}
