//! Connects to the `listen` example, sends a message, prints the reply, and closes gracefully.
//!
//! `cargo run --example connect whimbrel://KEY@HOST:PORT`

use std::error::Error;

use whimbrel::{Config, Endpoint};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("give the URL that the listener printed")?;
    // Uses a socket for both families if the host has IPv6, or else for IPv4.
    let endpoint = match Endpoint::bind(Config::default(), "[::]:0").await {
        Ok(endpoint) => endpoint,
        Err(_) => Endpoint::bind(Config::default(), "0.0.0.0:0").await?,
    };
    let mocket = endpoint.connect(&url).await?;
    mocket.send("hello").await?;
    let answer = mocket.recv().await?;
    println!("{}", String::from_utf8_lossy(&answer.payload));
    mocket.close(0, "done").await;
    // The last packet of the close may have to be repeated.
    endpoint.wait_idle().await;
    Ok(())
}
