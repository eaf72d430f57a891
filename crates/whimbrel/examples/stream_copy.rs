//! Uses a byte stream like a TCP socket: copies into it, reads it to its end, and answers. Each direction ends by
//! itself.

use std::error::Error;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{Config, Endpoint, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    let serving = tokio::spawn(async move {
        let mut stream = far.accept_stream().await.map_err(std::io::Error::other)?;
        let mut file = Vec::new();
        stream.read_to_end(&mut file).await?;
        // The peer has ended its direction; this one is still open.
        stream.write_all(format!("{} bytes, thank you", file.len()).as_bytes()).await?;
        stream.shutdown().await?;
        // The mocket stays open until the peer has read the answer.
        far.closed().await;
        Ok::<_, std::io::Error>(())
    });

    let mut file: &[u8] = &vec![7; 3_000_000];
    let mut stream = near.open_stream().await?;
    tokio::io::copy(&mut file, &mut stream).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{answer}");

    drop(stream);
    near.close(0, "").await;
    serving.await??;
    Ok(())
}
