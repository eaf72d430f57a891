//! Resumes the session that the `suspend` example left in a file, and reads the reply to a message that another
//! process sent.
//!
//! `cargo run --example resume FILE`

use std::error::Error;

use whimbrel::{Config, Endpoint, Identity, SuspendedMocket};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("name the file that `suspend` wrote")?;
    let bytes = std::fs::read(&file)?;
    let (secret, sealed) = bytes.split_first_chunk::<32>().ok_or("the file is too short")?;
    let state = SuspendedMocket::open_with_key(sealed, secret)?;
    let config = Config::default().identity(Identity::from_secret(*secret));
    let endpoint = Endpoint::bind(config, "0.0.0.0:0").await?;
    let mocket = endpoint.resume(&state, None).await?;
    let answer = mocket.recv().await?;
    println!("{}", String::from_utf8_lossy(&answer.payload));
    mocket.close(0, "done").await;
    endpoint.wait_idle().await;
    Ok(())
}
