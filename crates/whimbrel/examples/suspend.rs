//! Connects to the `listen` example, sends a message, and suspends the session to a file with the reply unread. The
//! `resume` example continues it.
//!
//! `cargo run --example suspend whimbrel://KEY@HOST:PORT FILE`

use std::error::Error;

use whimbrel::{Config, Endpoint, SuspendMode, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("give the URL that the listener printed")?;
    let file = arguments.next().ok_or("name a file for the session")?;
    // The session belongs to this key. A real program has a key already and writes only the session.
    let identity = new_identity();
    let secret = *identity.secret();
    let endpoint = Endpoint::bind(Config::default().identity(identity), "0.0.0.0:0").await?;
    let mocket = endpoint.connect(&url).await?;
    mocket.send("sent by one process").await?;
    let state = mocket.suspend(SuspendMode::Snapshot).await?;
    std::fs::write(&file, [&secret[..], &state.seal_with_key(&secret)].concat())?;
    println!("suspended; the peer waits for {:?}", state.peer_waits());
    Ok(())
}
