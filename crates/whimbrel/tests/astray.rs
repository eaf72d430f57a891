//! Somebody on the way, without keys, delivers genuine packets to another address of the client, outside a tunnel for
//! example. The client sends nothing from there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use whimbrel::{Config, Endpoint, Paths, new_identity};

const CHOSEN: &str = "127.0.0.1";
const OTHER: &str = "127.0.0.2";

/// The network between the client and the server. Each address of the client is another to the server, as without a
/// NAT. Once `armed`, one packet for the client goes to `lead_to` instead.
struct Network {
    address: SocketAddr,
    armed: Arc<AtomicBool>,
    lead_to: Arc<Mutex<Option<SocketAddr>>>,
    from_other: Arc<AtomicU32>,
    from_chosen: Arc<AtomicU32>,
}

impl Network {
    async fn to(server: SocketAddr) -> Self {
        let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let network = Self {
            address: inside.local_addr().unwrap(),
            armed: Arc::default(),
            lead_to: Arc::default(),
            from_other: Arc::default(),
            from_chosen: Arc::default(),
        };
        let (armed, lead_to) = (Arc::clone(&network.armed), Arc::clone(&network.lead_to));
        let (other, chosen) = (Arc::clone(&network.from_other), Arc::clone(&network.from_chosen));
        tokio::spawn(async move {
            let (mut outside, mut out) = (BTreeMap::<SocketAddr, Arc<UdpSocket>>::new(), vec![0; 65_536]);
            while let Ok((size, client)) = inside.recv_from(&mut out).await {
                let is_other = client.ip() == OTHER.parse::<IpAddr>().unwrap();
                if is_other { &other } else { &chosen }.fetch_add(1, Ordering::Relaxed);
                if let Entry::Vacant(place) = outside.entry(client) {
                    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                    place.insert(Arc::clone(&socket));
                    let (inside, armed, lead_to) =
                        (Arc::clone(&inside), Arc::clone(&armed), Arc::clone(&lead_to));
                    tokio::spawn(async move {
                        let mut back = vec![0; 65_536];
                        while let Ok((size, _)) = socket.recv_from(&mut back).await {
                            let led = if armed.swap(false, Ordering::Relaxed) {
                                *lead_to.lock().unwrap()
                            } else {
                                None
                            };
                            inside.send_to(&back[..size], led.unwrap_or(client)).await.ok();
                        }
                    });
                }
                outside[&client].send_to(&out[..size], server).await.ok();
            }
        });
        network
    }
}

/// Leads a packet to the other address, and returns how many packets came from there, and from the chosen address
/// afterwards.
async fn led_astray(paths: Paths) -> (u32, u32) {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let network = Network::to(server.local_addr().unwrap()).await;
    let client = Endpoint::bind(Config::default().paths(paths), "0.0.0.0:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), network.address);
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    far.send("hello").await.unwrap();
    near.recv().await.unwrap();
    let port = client.local_addr().unwrap().port();
    *network.lead_to.lock().unwrap() = Some(SocketAddr::new(OTHER.parse().unwrap(), port));
    network.armed.store(true, Ordering::Relaxed);
    far.send("led astray").await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), near.recv()).await.unwrap().unwrap();
    let before = network.from_chosen.load(Ordering::Relaxed);
    for _ in 0..10 {
        near.send("question").await.unwrap();
        far.recv().await.unwrap();
        far.send("answer").await.unwrap();
        near.recv().await.unwrap();
    }
    let chosen = network.from_chosen.load(Ordering::Relaxed) - before;
    (network.from_other.load(Ordering::Relaxed), chosen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_led_to_another_address_moves_no_path_there() {
    let (other, chosen) = led_astray(Paths::Single).await;
    assert!(other == 0 && chosen >= 10, "{other} and {chosen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaves_from_an_address_that_is_not_among_the_only_ones() {
    let (other, chosen) = led_astray(Paths::Only(vec![CHOSEN.parse().unwrap()])).await;
    assert!(other == 0 && chosen >= 10, "{other} and {chosen}");
}
