//! An urgent message overtakes bulk that was queued before it.

use std::error::Error;

use bytes::Bytes;
use whimbrel::{Config, Endpoint, new_identity};

const COUNT: usize = 1_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    // Unsequenced, so that only priority decides which message goes first. 16 MB are queued at once.
    let bulk = near.sender().unsequenced().priority(10).build();
    let piece = Bytes::from(vec![0; 16_000]);
    bulk.send_many(std::iter::repeat_n(piece, COUNT)).await?;
    near.sender().unsequenced().priority(200).build().send("urgent").await?;

    for before in 0..=COUNT {
        let message = far.recv().await?;
        if message.priority == 200 {
            println!("urgent: {before} of {COUNT} pieces came before it");
        }
    }
    Ok(())
}
