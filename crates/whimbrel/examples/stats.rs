//! Shows the statistics of a mocket: messages by outcome, and the path they took.

use std::error::Error;

use whimbrel::{Config, Endpoint, new_identity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await?;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr()?);
    let near = client.connect(&url).await?;
    let far = server.accept().await.ok_or("the endpoint is closed")?;

    for _ in 0..1_000 {
        near.send(vec![0; 1_000]).await?;
    }
    for _ in 0..1_000 {
        far.recv().await?;
    }
    // Closes gracefully, so that every acknowledgement has arrived.
    near.close(0, "").await;

    let stats = near.stats();
    let total = stats.session.total;
    println!("queued {}, sent {}, delivered {}", total.queued, total.sent, total.delivered);
    println!("sent again {}, repeated on the chance {}", stats.session.retransmitted, stats.session.repeated);
    for path in &stats.connection.paths {
        println!("{:?} to {}", path.id, path.remote);
        println!("  round trip {:?}, lowest {:?}", path.rtt, path.rtt_min);
        println!(
            "  packets sent {}, lost {}, now {:.1} %",
            path.sent_packets,
            path.lost_packets,
            path.loss * 100.0
        );
        println!("  largest packet {} bytes, window {} bytes", path.mtu, path.congestion.window);
    }
    println!("the listener: {:?}", server.stats());
    Ok(())
}
