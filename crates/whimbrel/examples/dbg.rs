//! dbg
use std::time::Instant;
use whimbrel::*;
#[tokio::main(worker_threads = 2)]
async fn main() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    let size: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(65536);
    let total: usize = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(1 << 30);
    let payload = bytes::Bytes::from(vec![7u8; size]);
    let start = Instant::now();
    let count = total / size;
    let n2 = near.clone();
    let near_stats = near.clone();
    tokio::spawn(async move {
        for _ in 0..count {
            near.send(payload.clone()).await.unwrap();
        }
        near.closed().await;
    });
    let n3 = near_stats.clone();
    std::thread::spawn(move || {
        let t0 = Instant::now();
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let s = n3.stats();
            let p = &s.connection.paths[0];
            eprintln!(
                "{:?} sent {} infl {} rtt {:?} {:?} lost {}",
                t0.elapsed(),
                p.sent_packets,
                p.in_flight,
                p.rtt,
                p.congestion,
                p.lost_packets
            );
        }
    });
    let mut got = 0;
    let mut out = Vec::new();
    while got < count {
        out.clear();
        got += far.recv_many(&mut out, 256).await.unwrap();
    }
    let t = start.elapsed().as_secs_f64();
    println!("{:.3} Gbit/s  {:.3} M msg/s", (count * size) as f64 * 8.0 / t / 1e9, count as f64 / t / 1e6);
    let s = n2.stats();
    let p = &s.connection.paths[0];
    println!(
        "sent {} lost {} spurious {} rtt {:?} min {:?} mtu {} cc {:?} retrans {}",
        p.sent_packets,
        p.lost_packets,
        p.spurious_packets,
        p.rtt,
        p.rtt_min,
        p.mtu,
        p.congestion,
        s.session.retransmitted
    );
    let s = far.stats();
    println!(
        "far recv {} dups {} sent {} | {:?}",
        s.connection.paths[0].received_packets,
        s.connection.paths[0].duplicates,
        s.connection.paths[0].sent_packets,
        s.connection.dropped
    );
}
