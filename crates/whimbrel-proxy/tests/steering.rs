//! Rules that change while flows run: by another file, and by the state of the network.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint, Identity, new_identity};
use whimbrel_proxy::protocol::{Answer, Datagram, Outcome, PROTOCOL};
use whimbrel_proxy::{News, Proxy, Settings};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for a byte that is not held to go there and back.
const MOMENT: Duration = Duration::from_millis(500);

fn settings(text: &str) -> Settings {
    whimbrel_service::parse_config("x.toml", text).unwrap()
}

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = tcp.split();
                drop(tokio::io::copy(&mut reader, &mut writer).await);
            });
        }
    });
    address
}

/// A near proxy with forwards to two targets.
struct Near {
    proxy: Proxy,
    base: String,
    forwards: Vec<SocketAddr>,
    news: mpsc::Receiver<News>,
    _endpoint: Endpoint,
}

impl Near {
    async fn start(identity: Identity, peer: &str, targets: [SocketAddr; 2], rules: &str) -> Self {
        let base = format!(
            "[in]\nforward = ['0={}', '0={}']\n[[peer]]\nname = 'far'\nurl = '{peer}'\n",
            targets[0], targets[1]
        );
        let config = Config::default().protocol(PROTOCOL.into());
        let endpoint = Endpoint::bind(config.identity(identity), "127.0.0.1:0").await.unwrap();
        let (send, news) = mpsc::channel();
        let proxy = Proxy::start(&settings(&format!("{base}{rules}")), &endpoint, None, move |told| {
            drop(send.send(told))
        })
        .await
        .unwrap();
        let forwards = (0..2).map(|_| match news.recv_timeout(PATIENCE).unwrap() {
            News::Serves(_, address) => address,
            other => panic!("{other}"),
        });
        let forwards = forwards.collect();
        Self { proxy, base, forwards, news, _endpoint: endpoint }
    }

    fn rules(&mut self, rules: &str) {
        let said = self.proxy.reload(&settings(&format!("{}{rules}", self.base)));
        assert_eq!(said, "rules changed");
    }
}

/// A far proxy that lets this key open everything here.
async fn far(near: &Identity) -> (Proxy, Endpoint, String) {
    let (endpoint, url) = listen().await;
    let text = format!("[listen]\n[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']", near.public());
    let proxy = Proxy::start(&settings(&text), &endpoint, None, drop).await.unwrap();
    (proxy, endpoint, url)
}

async fn listen() -> (Endpoint, String) {
    let config = Config::listen_as(new_identity()).protocol(PROTOCOL.into());
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr().unwrap());
    (endpoint, url)
}

async fn exchange(tcp: &mut TcpStream, bytes: &[u8]) {
    tcp.write_all(bytes).await.unwrap();
    let mut back = vec![0; bytes.len()];
    timeout(PATIENCE, tcp.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(back, bytes);
}

async fn is_silent(tcp: &mut TcpStream) -> bool {
    timeout(MOMENT, tcp.read_u8()).await.is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_hold_release_and_end_flows_that_run() {
    let identity = new_identity();
    let (_far, _endpoint, url) = far(&identity).await;
    let targets = [echo().await, echo().await];
    let mut near = Near::start(identity, &url, targets, "").await;
    let mut flow = TcpStream::connect(near.forwards[0]).await.unwrap();
    let mut other = TcpStream::connect(near.forwards[1]).await.unwrap();
    exchange(&mut flow, b"one").await;
    exchange(&mut other, b"one").await;

    let to = format!("to = ['{}']", targets[0]);
    near.rules(&format!("[[rule]]\nname = 'shed'\n{to}\naction = 'hold'"));
    flow.write_all(b"two").await.unwrap();
    let mut late = TcpStream::connect(near.forwards[0]).await.unwrap();
    late.write_all(b"late").await.unwrap();
    assert!(is_silent(&mut flow).await && is_silent(&mut late).await, "both are held");
    exchange(&mut other, b"two").await;
    let status = near.proxy.status().shown();
    let flows = status["flows"]["list"].as_array().unwrap();
    assert_eq!(flows.iter().filter(|flow| flow["state"] == "held").count(), 2, "{status}");

    near.rules("[[rule]]\nname = 'all'");
    for (tcp, held) in [(&mut flow, &b"two"[..]), (&mut late, b"late")] {
        let mut back = vec![0; held.len()];
        timeout(PATIENCE, tcp.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!(back, held);
        exchange(tcp, b"three").await;
    }

    // New flows are refused, and running ones go on unless the rule says otherwise.
    near.rules(&format!("[[rule]]\nname = 'no'\n{to}\naction = 'reject'"));
    exchange(&mut flow, b"four").await;
    near.rules(&format!("[[rule]]\nname = 'no'\n{to}\naction = 'reject'\nexisting = true"));
    let error = timeout(PATIENCE, flow.read_u8()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    exchange(&mut other, b"five").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_far_end_follows_a_priority_that_changes() {
    let (endpoint, url) = listen().await;
    let unused: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let mut near = Near::start(new_identity(), &url, [unused; 2], "").await;
    let mut flow = TcpStream::connect(near.forwards[0]).await.unwrap();
    let mocket = timeout(PATIENCE, endpoint.accept()).await.unwrap().unwrap();
    let mut stream = timeout(PATIENCE, mocket.accept_stream()).await.unwrap().unwrap();
    stream.write_bytes(Answer::of(Outcome::Connected).to_bytes().into()).await.unwrap();
    stream.write_bytes("ready".into()).await.unwrap();
    flow.read_exact(&mut [0; 5]).await.unwrap();
    for (rule, priority) in [("priority = 200", Some(200)), ("", None)] {
        near.rules(&format!("[[rule]]\nname = 'all'\n{rule}"));
        let told = loop {
            let told = timeout(PATIENCE, mocket.recv()).await.unwrap().unwrap();
            match Datagram::from_bytes(told.payload) {
                Ok(Datagram::Capabilities(_)) => {}
                told => break told,
            }
        };
        assert_eq!(told, Ok(Datagram::Priority(stream.id().0, priority)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_begins_holds_a_flow() {
    let identity = new_identity();
    let (_far, _endpoint, url) = far(&identity).await;
    let targets = [echo().await, echo().await];
    let rules = format!(
        "[[rule]]\nname = 'slow'\nto = ['{}']\nwhen = ['rtt > 1us', 'paths > 0']\naction = 'hold'\n\
         [[rule]]\nname = 'never'\nto = ['{}']\nwhen = 'rtt > 20s'\naction = 'hold'",
        targets[0], targets[1]
    );
    let mut near = Near::start(identity, &url, targets, &rules).await;
    let mut flow = TcpStream::connect(near.forwards[0]).await.unwrap();
    let mut other = TcpStream::connect(near.forwards[1]).await.unwrap();
    let began = Instant::now();
    let mut told = Vec::new();
    // The first exchanges may come before the conditions begin.
    while told.len() < 2 {
        assert!(began.elapsed() < PATIENCE, "{told:?}");
        if let Ok(News::Condition(peer, condition, true)) = near.news.try_recv() {
            told.push(format!("{peer}: {condition}"));
        }
        sleep(Duration::from_millis(20)).await;
    }
    told.sort();
    assert_eq!(told, ["far: paths > 0", "far: rtt > 1us"]);
    flow.write_all(b"held").await.unwrap();
    assert!(is_silent(&mut flow).await);
    exchange(&mut other, b"goes on").await;
    near.rules("");
    let mut back = [0; 4];
    timeout(PATIENCE, flow.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back, b"held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_flow_goes_on_when_rules_move() {
    let identity = new_identity();
    let (_far, _endpoint, url) = far(&identity).await;
    let targets = [echo().await, echo().await];
    let direct = format!(
        "[[rule]]\nname = 'here'\nprotocol = 'tcp'\nto = ['{}']\naction = 'direct'\nexisting = true\n",
        targets[0]
    );
    let mut near = Near::start(identity, &url, targets, &direct).await;
    let mut flow = TcpStream::connect(near.forwards[0]).await.unwrap();
    exchange(&mut flow, b"one").await;
    near.rules(&format!("[[rule]]\nname = 'other'\nto = ['192.0.2.0/24:*']\n{direct}"));
    exchange(&mut flow, b"two").await;
    near.rules(&format!(
        "[[rule]]\nname = 'no'\nto = ['{}']\naction = 'reject'\nexisting = true",
        targets[0]
    ));
    assert!(timeout(PATIENCE, flow.read_u8()).await.unwrap().is_err());
}
