//! A peer that cannot be reached any more, and its standby.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;
use whimbrel::{Config, Endpoint, PublicKey, new_identity};
use whimbrel_proxy::protocol::{Agreement, Answer, Outcome, PROTOCOL};
use whimbrel_proxy::{News, Proxy, Settings};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn settings(text: &str) -> Settings {
    whimbrel_service::parse_config("x.toml", text).unwrap()
}

/// Says its name to each connection, and then what it reads.
async fn server(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                tcp.write_all(name.as_bytes()).await.unwrap();
                let (mut reader, mut writer) = tcp.split();
                drop(tokio::io::copy(&mut reader, &mut writer).await);
            });
        }
    });
    address
}

struct Far {
    _proxy: Proxy,
    endpoint: Endpoint,
}

async fn far(near: PublicKey) -> Far {
    let config = Config::listen_as(new_identity()).protocol(PROTOCOL.into());
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let text = format!("[listen]\n[[peer]]\nkey = '{near}'\nmay_open = ['127.0.0.0/8:*']");
    Far { _proxy: Proxy::start(&settings(&text), &endpoint, None, drop).await.unwrap(), endpoint }
}

/// A link for one client that can be cut.
async fn link(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let (front, back) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    back.connect(to).await.unwrap();
    let (address, is_cut) = (front.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
    let cut = Arc::clone(&is_cut);
    tokio::spawn(async move {
        let (mut one, mut other, mut client) = (vec![0; 65_536], vec![0; 65_536], None);
        loop {
            tokio::select! {
                Ok((length, from)) = front.recv_from(&mut one) => {
                    client = Some(from);
                    if !cut.load(Ordering::Relaxed) {
                        back.send(&one[..length]).await.ok();
                    }
                }
                Ok(length) = back.recv(&mut other) => {
                    if let Some(client) = client.filter(|_| !cut.load(Ordering::Relaxed)) {
                        front.send_to(&other[..length], client).await.ok();
                    }
                }
            }
        }
    });
    (address, is_cut)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_flows_go_to_the_standby_of_a_peer_that_is_gone() {
    let identity = new_identity();
    let (main, other) = (far(identity.public()).await, far(identity.public()).await);
    let (address, is_cut) = link(main.endpoint.local_addr().unwrap()).await;
    let url = |far: &Far, at: SocketAddr| format!("whimbrel://{}@{at}", far.endpoint.public_key());
    let target = server("hello").await;
    let text = format!(
        "[in]\nforward = ['0={target}']\n\
         [[peer]]\nname = 'main'\nurl = '{}'\nstandby = 'other'\n[[peer]]\nname = 'other'\nurl = '{}'\n\
         [[rule]]\nname = 'all'\noutage = '2s'",
        url(&main, address),
        url(&other, other.endpoint.local_addr().unwrap()),
    );
    let endpoint =
        Endpoint::bind(Config::default().protocol(PROTOCOL.into()).identity(identity), "127.0.0.1:0")
            .await
            .unwrap();
    let (send, mut news) = tokio::sync::mpsc::unbounded_channel();
    let proxy =
        Proxy::start(&settings(&text), &endpoint, None, move |told| drop(send.send(told))).await.unwrap();
    let mut next = async || timeout(PATIENCE, news.recv()).await.unwrap().unwrap();
    let News::Serves(_, forward) = next().await else { panic!("it serves first") };
    let mut connected = 0;
    while connected < 2 {
        connected += usize::from(next().await.to_string().starts_with("connected to"));
    }
    let peers = || {
        let status = proxy.status().shown();
        let flows = status["flows"]["list"].as_array().unwrap();
        flows.iter().map(|flow| flow["peer"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let hello = async |tcp: &mut TcpStream| {
        let mut hello = [0; 5];
        timeout(PATIENCE, tcp.read_exact(&mut hello)).await.unwrap().unwrap();
        assert_eq!(&hello, b"hello");
    };
    let mut first = TcpStream::connect(forward).await.unwrap();
    hello(&mut first).await;
    assert_eq!(peers(), ["main"]);

    is_cut.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let mut second = TcpStream::connect(forward).await.unwrap();
    hello(&mut second).await;
    let took = began.elapsed();
    // About a second on an idle machine.
    assert!(took < Duration::from_secs(5), "{took:?}");
    println!("the standby answered after {took:?}");
    assert!(peers().contains(&"other".to_owned()), "{:?}", peers());
    // The flow of the peer that is gone waits as long as its rule says.
    first.write_all(b"more").await.unwrap();
    let error = timeout(PATIENCE, first.read_u8()).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), peers()), (std::io::ErrorKind::ConnectionReset, vec!["other".to_owned()]));
    assert_eq!(next().await.to_string(), "main cannot be reached: new flows go to other");

    is_cut.store(false, Ordering::Relaxed);
    while next().await.to_string() != "new flows go to main again" {}
    let mut third = TcpStream::connect(forward).await.unwrap();
    hello(&mut third).await;
    assert_eq!(peers(), ["other", "main"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listening_proxy_carries_flows_to_a_peer_that_has_connected() {
    let (near, key) = (new_identity(), new_identity());
    let target = server("hello").await;
    let listening = Endpoint::bind(Config::listen_as(key.clone()).protocol(PROTOCOL.into()), "127.0.0.1:0")
        .await
        .unwrap();
    // As with `ssh -R`: the port is at the listening end, and the target behind the one that dials.
    let text = format!("[listen]\n[in]\nforward = ['0={target}']\n[[peer]]\nkey = '{}'", near.public());
    let (send, mut news) = tokio::sync::mpsc::unbounded_channel();
    let _far =
        Proxy::start(&settings(&text), &listening, None, move |told| drop(send.send(told))).await.unwrap();
    let Some(News::Serves(_, forward)) = news.recv().await else { panic!("it serves first") };
    let mut early = TcpStream::connect(forward).await.unwrap();

    let address = listening.local_addr().unwrap();
    let text = format!("[[peer]]\nurl = 'whimbrel://{}@{address}'\nmay_open = ['{target}']", key.public());
    let config = Config::default().protocol(PROTOCOL.into()).identity(near);
    let dialling = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let _near = Proxy::start(&settings(&text), &dialling, None, drop).await.unwrap();
    let mut hello = [0; 5];
    timeout(PATIENCE, early.read_exact(&mut hello)).await.unwrap().unwrap();
    assert_eq!(&hello, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_program_that_waits_for_an_absent_peer_is_served_by_a_standby_that_comes() {
    let identity = new_identity();
    let (main, other) = (far(identity.public()).await, far(identity.public()).await);
    let (to_main, main_is_cut) = link(main.endpoint.local_addr().unwrap()).await;
    let (to_other, other_is_cut) = link(other.endpoint.local_addr().unwrap()).await;
    for is_cut in [&main_is_cut, &other_is_cut] {
        is_cut.store(true, Ordering::Relaxed);
    }
    let url = |far: &Far, at: SocketAddr| format!("whimbrel://{}@{at}", far.endpoint.public_key());
    let text = format!(
        "[in]\nforward = ['0={}']\n\
         [[peer]]\nname = 'main'\nurl = '{}'\nstandby = 'other'\n[[peer]]\nname = 'other'\nurl = '{}'",
        server("hello").await,
        url(&main, to_main),
        url(&other, to_other),
    );
    let config = Config::default().protocol(PROTOCOL.into()).identity(identity);
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let (send, mut news) = tokio::sync::mpsc::unbounded_channel();
    let proxy =
        Proxy::start(&settings(&text), &endpoint, None, move |told| drop(send.send(told))).await.unwrap();
    let Some(News::Serves(_, forward)) = news.recv().await else { panic!("it serves first") };
    let mut program = TcpStream::connect(forward).await.unwrap();
    while proxy.status().shown()["flows"]["running"] != 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other_is_cut.store(false, Ordering::Relaxed);
    let mut hello = [0; 5];
    timeout(PATIENCE, program.read_exact(&mut hello)).await.unwrap().unwrap();
    assert_eq!(&hello, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_program_waits_for_the_session_that_follows_one_that_has_ended() {
    let config = Config::listen_as(new_identity()).protocol(PROTOCOL.into());
    let far = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let text = format!(
        "[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nname = 'far'\nurl = 'whimbrel://{}@{}'",
        far.public_key(),
        far.local_addr().unwrap()
    );
    let config = Config::default().protocol(PROTOCOL.into()).identity(new_identity());
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let (send, mut news) = tokio::sync::mpsc::unbounded_channel();
    let _near =
        Proxy::start(&settings(&text), &endpoint, None, move |told| drop(send.send(told))).await.unwrap();
    let Some(News::Serves(_, socks)) = news.recv().await else { panic!("it serves first") };
    let program = async {
        let mut program = TcpStream::connect(socks).await.unwrap();
        program.write_all(&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0, 80]).await.unwrap();
        let mut reply = [0; 12];
        program.read_exact(&mut reply).await.unwrap();
        reply[3]
    };
    let peer = async {
        // As after a kill, the session ends while a flow is being opened.
        let killed = far.accept().await.unwrap();
        let opened = killed.accept_stream().await.unwrap();
        killed.abort(0, "killed");
        drop(opened);
        let next = far.accept().await.unwrap();
        let mut stream = next.accept_stream().await.unwrap();
        let answer = Answer { outcome: Outcome::Connected, address: None, agreement: Agreement::Plain };
        stream.write_all(&answer.to_bytes()).await.unwrap();
        (next, stream)
    };
    let (code, _kept) = timeout(PATIENCE, async { tokio::join!(program, peer) }).await.unwrap();
    assert_eq!(code, 0, "it is connected by the next session");
}
