//! Listens, prints the URL to connect to, and sends every message back to its sender.
//!
//! `cargo run --example listen [ADDRESS]`, then `cargo run --example connect URL` in another terminal.

use std::error::Error;

use whimbrel::{Config, Endpoint, Mocket, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    // This key lasts for one run. A server with a permanent URL keeps the 32 bytes of `Identity::secret`.
    let endpoint = Endpoint::bind(Config::listen_as(new_identity()), &address).await?;
    println!("listening whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr()?);
    while let Some(mocket) = endpoint.accept().await {
        tokio::spawn(echo(mocket));
    }
    Ok(())
}

async fn echo(mocket: Mocket) {
    while let Ok(message) = mocket.recv().await {
        if mocket.send(message.payload).await.is_err() {
            break;
        }
    }
    println!("{}: {}", mocket.peer_addr(), mocket.closed().await);
}
