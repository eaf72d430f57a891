//! Keeps positions fresh over a slow link: a newer one replaces the one still waiting.

use std::error::Error;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint, Tag, new_identity};

const POSITION: Tag = Tag(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    // A bandwidth limit on the tag stands in for a slow link: it lets only a few of the positions through.
    near.tag(POSITION).bandwidth(2_000)?;

    let sending = near.clone();
    tokio::spawn(async move {
        for number in 0..100 {
            // Padded to 200 bytes so that the limit matters: 100 a second are offered, 10 fit.
            if sending.replace(POSITION, format!("{number:<200}")).is_err() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });

    let mut count = 0;
    let mut newest = String::new();
    while newest != "99" {
        let message = timeout(Duration::from_secs(10), far.recv()).await??;
        newest = String::from_utf8_lossy(&message.payload).trim_end().to_owned();
        count += 1;
        println!("position {newest}");
    }
    println!("{count} of 100 travelled, the newest among them");
    println!("{} were replaced on the way", near.stats().session.total.replaced);
    Ok(())
}
