//! Several receive loops on one address.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use whimbrel::{Config, Endpoint, Mocket, new_identity};

async fn server(loops: Option<usize>) -> Endpoint {
    let mut config = Config::listen_as(new_identity()).receive_loops(loops);
    config.listen = config.listen.map(|listen| listen.pings_per_address(u32::MAX).max_per_key(usize::MAX));
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

fn url_at(server: &Endpoint, address: SocketAddr) -> String {
    format!("whimbrel://{}@{address}", server.public_key())
}

/// Answers every message of every connection.
fn echo(server: &Endpoint) {
    let server = server.clone();
    tokio::spawn(async move {
        while let Some(mocket) = server.accept().await {
            tokio::spawn(async move {
                while let Ok(message) = mocket.recv().await {
                    mocket.send(message.payload).await.ok();
                }
            });
        }
    });
}

async fn ask(mocket: &Mocket, question: &str) {
    mocket.send(question.to_owned()).await.unwrap();
    assert_eq!(mocket.recv().await.unwrap().payload, question);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_spread_over_the_loops() {
    let server = server(None).await;
    echo(&server);
    let url = url_at(&server, server.local_addr().unwrap());
    let mut held = Vec::new();
    for number in 0..100 {
        let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        assert_eq!(client.received_by_loop().len(), 1, "an endpoint that only connects has one loop");
        let mocket = client.connect(&url).await.unwrap();
        ask(&mocket, &format!("{number}")).await;
        held.push((client, mocket));
    }
    let received = server.received_by_loop();
    let all: u64 = received.iter().sum();
    assert_eq!(received.len(), 2, "one for each thread");
    assert!(received.iter().all(|count| count * 4 > all), "{received:?}");
}

/// Passes packets on like a NAT. After each [`Nat::rebind`] they come from another port.
struct Nat {
    address: SocketAddr,
    outside: Arc<tokio::sync::watch::Sender<Arc<UdpSocket>>>,
}

impl Nat {
    async fn to(server: SocketAddr) -> Self {
        let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let address = inside.local_addr().unwrap();
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let outside = Arc::new(tokio::sync::watch::Sender::new(socket));
        let mut current = outside.subscribe();
        tokio::spawn(async move {
            let (mut client, mut out, mut back) = (None, vec![0; 65_536], vec![0; 65_536]);
            loop {
                let socket = Arc::clone(&current.borrow_and_update());
                tokio::select! {
                    Ok((size, from)) = inside.recv_from(&mut out) => {
                        client = Some(from);
                        socket.send_to(&out[..size], server).await.ok();
                    }
                    Ok((size, _)) = socket.recv_from(&mut back) => {
                        if let Some(client) = client {
                            inside.send_to(&back[..size], client).await.ok();
                        }
                    }
                    _ = current.changed() => {}
                }
            }
        });
        Self { address, outside }
    }

    async fn rebind(&self) {
        self.outside.send_replace(Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap()));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_goes_on_where_its_packets_come_to_another_loop() {
    let server = server(Some(8)).await;
    echo(&server);
    let nat = Nat::to(server.local_addr().unwrap()).await;
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let mocket = client.connect(url_at(&server, nat.address)).await.unwrap();
    let before = server.received_by_loop();
    let mut loops = 0;
    for number in 0..20 {
        ask(&mocket, &format!("before {number}")).await;
        nat.rebind().await;
        ask(&mocket, &format!("after {number}")).await;
    }
    for (now, before) in server.received_by_loop().iter().zip(before) {
        loops += usize::from(*now > before);
    }
    assert!(loops >= 3, "eight loops, and 21 addresses: {:?}", server.received_by_loop());
    mocket.close(0, "").await;
    tokio::time::timeout(Duration::from_secs(20), server.wait_idle()).await.expect("it ends once");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_loops_end_with_the_endpoint() {
    let server = server(Some(4)).await;
    let address = server.local_addr().unwrap();
    echo(&server);
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let mocket = client.connect(url_at(&server, address)).await.unwrap();
    ask(&mocket, "there?").await;
    let second = Endpoint::bind(Config::listen_as(new_identity()), address).await;
    assert!(second.unwrap_err().to_string().contains("choose"), "the port is taken");
    assert_eq!(server.close(0, "", Duration::from_secs(5)).await, 0);
    drop(server);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while std::net::UdpSocket::bind(address).is_err() {
        assert!(tokio::time::Instant::now() < deadline, "a socket is still open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_socket_that_was_handed_over_stays_alone_unless_told() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::bind(Config::listen_as(new_identity()), socket).await.unwrap();
    assert_eq!(endpoint.received_by_loop().len(), 1);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = Config::listen_as(new_identity()).receive_loops(Some(2));
    let endpoint = Endpoint::bind(config, socket).await;
    if cfg!(target_os = "linux") {
        assert_eq!(endpoint.unwrap().received_by_loop().len(), 2);
    } else {
        assert!(endpoint.unwrap_err().to_string().contains("receive_loops"));
    }
}
