//! Uses two networks at once: their bandwidth adds up, and everything goes on when one fails.
//!
//! `cargo run --example multihome [LOCAL LOCAL]`: two addresses of this host. By default, two loopback addresses
//! stand in for them. To use all networks of the host, a program needs no setting: `Paths::Auto` is the default.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use whimbrel::{Config, Endpoint, Event, LocalPath, PathState, Paths, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let first: IpAddr = arguments.next().as_deref().unwrap_or("127.0.0.1").parse()?;
    let second: IpAddr = arguments.next().as_deref().unwrap_or("127.0.0.2").parse()?;

    let server = Endpoint::bind(Config::listen_as(new_identity()), &format!("{first}:0")).await?;
    let paths = vec![LocalPath { prefer: true, ..first.into() }, second.into()];
    let client = Endpoint::bind(Config::default().paths(Paths::Only(paths)), "0.0.0.0:0").await?;

    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.begin_connect(&url).await?;
    let mut events = near.subscribe();
    let far = server.accept().await.ok_or("the endpoint is closed")?;
    while !matches!(events.recv().await?, Event::PathUp(_)) {}

    for number in 0..1000 {
        near.send(format!("message {number}")).await?;
        far.recv().await?;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for path in near.paths() {
        let local = path.local.map_or_else(|| "anywhere".to_owned(), |local| local.to_string());
        println!(
            "{local} to {}: {:?}, {} packets, rtt {:?}",
            path.remote, path.state, path.sent_packets, path.rtt
        );
        assert_eq!(path.state, PathState::Active);
    }
    near.close(0, "done").await;
    Ok(())
}
