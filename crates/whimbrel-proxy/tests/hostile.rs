//! A hostile peer gets what its permits and shares say, and nothing of others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint, Identity, Mocket, new_identity};
use whimbrel_proxy::protocol::{Announcement, Context, Datagram, Manner, Opening, PROTOCOL};
use whimbrel_proxy::upgrade::Parcel;
use whimbrel_proxy::{News, Proxy, Settings, TcpConnector};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn config(config: Config) -> Config {
    config.protocol(PROTOCOL.into())
}

async fn bind(identity: Identity) -> Endpoint {
    Endpoint::bind(config(Config::listen_as(identity)), "127.0.0.1:0").await.unwrap()
}

fn url(endpoint: &Endpoint) -> String {
    format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr().unwrap())
}

async fn start(
    text: &str,
    endpoint: &Endpoint,
    tell: impl Fn(News) + Clone + Send + Sync + 'static,
) -> Proxy {
    let settings: Settings = whimbrel_service::parse_config("x.toml", text).unwrap();
    Proxy::start(&settings, endpoint, None, tell).await.unwrap()
}

async fn dial(key: Identity, to: &Endpoint) -> (Endpoint, Mocket) {
    let endpoint = Endpoint::bind(config(Config::default().identity(key)), "127.0.0.1:0").await.unwrap();
    let mocket = endpoint.connect(url(to)).await.unwrap();
    (endpoint, mocket)
}

fn opening(target: &str) -> Vec<u8> {
    Opening { target: target.parse().unwrap(), source: None, manner: Manner::default() }.to_bytes()
}

/// Waits until this holds.
async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

/// Waits for a datagram.
async fn datagram(mocket: &Mocket) {
    loop {
        let message = mocket.recv().await.unwrap();
        let read = Datagram::from_bytes(message.payload);
        if matches!(read, Ok(Datagram::Plain(..) | Datagram::Announced(..))) {
            return;
        }
    }
}

/// Opens a flow. Returns the outcome's code.
async fn open(mocket: &Mocket, target: &str) -> (whimbrel::Stream, u8) {
    let mut stream = mocket.open_stream_with(opening(target)).await.unwrap();
    let mut answer = [0; 2];
    timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    let mut address = vec![0; usize::from(answer[0]) - 1];
    timeout(PATIENCE, stream.read_exact(&mut address)).await.unwrap().unwrap();
    (stream, answer[1])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_sessions_are_one_peers_share() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let key = new_identity();
    let endpoint = bind(new_identity()).await;
    let text = format!(
        "[listen]\n[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']\n[limits]\nmax_flows_per_peer = 3\n",
        key.public()
    );
    let _proxy = start(&text, &endpoint, drop).await;
    let mut kept = Vec::new();
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        let (near, mocket) = dial(key.clone(), &endpoint).await;
        for _ in 0..2 {
            let (stream, outcome) = open(&mocket, &target).await;
            outcomes.push(outcome);
            kept.push((near.clone(), stream));
        }
    }
    assert_eq!(outcomes, [0, 0, 0, 7, 7, 7], "7 is the limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look_ups_of_one_peer_are_few_and_no_other_peer_waits_for_them() {
    let (flooder, victim) = (new_identity(), new_identity());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = bind(new_identity()).await;
    let text = format!(
        "[listen]\n[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:53']\n[[peer]]\nkey = '{}'\nmay_open = ['localhost:*']\n",
        flooder.public(),
        victim.public()
    );
    let _proxy = start(&text, &endpoint, drop).await;
    let (_one, flood) = dial(flooder, &endpoint).await;
    let (_other, mocket) = dial(victim, &endpoint).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let sender = flood.sender().unsequenced().build();
    for at in 0..3_000 {
        let announcement = Announcement {
            program: "127.0.0.1:1000".parse().unwrap(),
            remote: format!("n{at}.no-such-name.invalid:53").parse().unwrap(),
            to_program: false,
            manner: Manner::default(),
            heard_by: None,
        };
        sender.send(Datagram::Announcement(Context(at), announcement).to_bytes()).await.unwrap();
        if at % 500 == 499 {
            assert!(alive() < before + 40, "{before} tasks before, {} now", alive());
        }
    }
    assert_eq!(open(&mocket, &format!("localhost:{port}")).await.1, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_newer_session_leaves_the_older_one_in_use() {
    let peer = bind(new_identity()).await;
    let endpoint = bind(new_identity()).await;
    let proxy = start(&format!("[listen]\n[[peer]]\nurl = '{}'\n", url(&peer)), &endpoint, drop).await;
    let older = peer.accept().await.unwrap();
    let newer = peer.connect(url(&endpoint)).await.unwrap();
    until(|| endpoint.mockets().len() == 2).await;
    newer.close(0, "bye").await;
    until(|| endpoint.mockets().len() == 1).await;
    assert_eq!(proxy.status().shown()["peers"][0]["state"], "connected");
    assert!(!older.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_answers_for_no_remote_that_is_reached_over_another() {
    let peers = [bind(new_identity()).await, bind(new_identity()).await];
    let text = format!(
        "[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nname = 'video'\nurl = '{}'\n[[peer]]\nname = 'bank'\nurl = '{}'\n[[rule]]\n\
         name = 'r'\nto = ['10.0.0.53:53']\npeer = 'bank'\n",
        url(&peers[0]),
        url(&peers[1])
    );
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let endpoint = Endpoint::bind(config(Config::default()), "127.0.0.1:0").await.unwrap();
    let mut proxy = start(&text, &endpoint, move |news| drop(tell.send(news))).await;
    let socks = loop {
        if let News::Serves(_, address) = told.recv().await.unwrap() {
            break address;
        }
    };
    let (video, bank) = (peers[0].accept().await.unwrap(), peers[1].accept().await.unwrap());
    let mut tcp = TcpStream::connect(socks).await.unwrap();
    tcp.write_all(&[5, 1, 0]).await.unwrap();
    tcp.read_exact(&mut [0; 2]).await.unwrap();
    tcp.write_all(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).await.unwrap();
    let relay = ("127.0.0.1", u16::from_be_bytes([reply[8], reply[9]]));
    let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for (ip, mocket) in [([10, 0, 0, 9], &video), ([10, 0, 0, 53], &bank)] {
        let asks = async {
            // Until the proxy knows of its session, datagrams are lost.
            while timeout(Duration::from_millis(100), datagram(mocket)).await.is_err() {
                program.send_to(&[&[0, 0, 0, 1][..], &ip, &[0, 53], b"q"].concat(), relay).await.unwrap();
            }
        };
        timeout(PATIENCE, asks).await.unwrap();
    }
    let answer = |context, remote: &str, text: &'static [u8]| {
        let announcement = Announcement {
            program: program.local_addr().unwrap(),
            remote: remote.parse().unwrap(),
            to_program: true,
            manner: Manner::default(),
            heard_by: None,
        };
        Datagram::Announced(Context(context), announcement, Bytes::from_static(text)).to_bytes()
    };
    // In order: what comes first is the answer for its own remote.
    video.send(answer(0, "10.0.0.53:53", b"forged")).await.unwrap();
    video.send(answer(1, "10.0.0.9:53", b"its own")).await.unwrap();
    let mut buffer = [0; 100];
    let length = timeout(PATIENCE, program.recv(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(&buffer[10..length], b"its own");
    bank.send(answer(0, "10.0.0.53:53", b"genuine")).await.unwrap();
    let length = timeout(PATIENCE, program.recv(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(&buffer[10..length], b"genuine");
    // That holds also when nothing is remembered of what the program has sent.
    let changed = text.replace("name = 'r'", "name = 'renamed'");
    assert_eq!(proxy.reload(&whimbrel_service::parse_config("x.toml", &changed).unwrap()), "rules changed");
    program.send_to(&[&[0, 0, 0, 1][..], &[10, 0, 0, 9, 0, 53], b"q"].concat(), relay).await.unwrap();
    timeout(PATIENCE, datagram(&video)).await.unwrap();
    video.send(answer(0, "10.0.0.53:53", b"forged")).await.unwrap();
    video.send(answer(1, "10.0.0.9:53", b"its own")).await.unwrap();
    let length = timeout(PATIENCE, program.recv(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(&buffer[10..length], b"its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_is_half_closed_and_idle_ends_and_its_figures_are_those_of_now() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let key = new_identity();
    let endpoint = bind(new_identity()).await;
    let text = format!(
        "[listen]\n[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']\n[limits]\ntcp_half_closed_idle = '1500ms'\n",
        key.public()
    );
    let proxy = start(&text, &endpoint, drop).await;
    let (_near, mocket) = dial(key, &endpoint).await;
    let (mut stream, outcome) = open(&mocket, &target).await;
    assert_eq!(outcome, 0);
    let (mut tcp, _) = listener.accept().await.unwrap();
    stream.write_bytes(Bytes::from(vec![1; 5_000])).await.unwrap();
    tcp.read_exact(&mut [0; 5_000]).await.unwrap();
    until(|| proxy.status().shown()["flows"]["list"][0]["from_peer_bytes"] == 5_000).await;
    tcp.shutdown().await.unwrap();
    assert_eq!(timeout(PATIENCE, stream.read_bytes(9)).await.unwrap().unwrap(), None);
    let began = tokio::time::Instant::now();
    let reset = timeout(PATIENCE, tcp.read(&mut [0; 9])).await.unwrap();
    assert_eq!(reset.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_taken_out_of_the_file_opens_nothing_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let keys = [new_identity(), new_identity()];
    let endpoint = bind(new_identity()).await;
    let peer = |key: &Identity| format!("[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']\n", key.public());
    let file = |keys: &[Identity]| format!("[listen]\n{}", keys.iter().map(peer).collect::<String>());
    let mut proxy = start(&file(&keys), &endpoint, drop).await;
    let (_one, stays) = dial(keys[0].clone(), &endpoint).await;
    let (_other, goes) = dial(keys[1].clone(), &endpoint).await;
    assert_eq!((open(&stays, &target).await.1, open(&goes, &target).await.1), (0, 0));
    let new: Settings = whimbrel_service::parse_config("x.toml", &file(&keys[..1])).unwrap();
    let said = proxy.reload(&new);
    assert!(said.contains("is no longer allowed"), "{said}");
    timeout(PATIENCE, goes.closed()).await.unwrap();
    assert_eq!(open(&stays, &target).await.1, 0);
    assert_eq!(proxy.reload(&new), "nothing has changed");
}

/// Starts a proxy whose sessions may be carried by TCP.
async fn start_tcp(text: &str, identity: Identity, listener: Option<std::net::TcpListener>) -> Proxy {
    let settings: Settings = whimbrel_service::parse_config("x.toml", text).unwrap();
    let (endpoint, parcel) = (bind(identity.clone()).await, Parcel::default());
    let mut proxy = Proxy::prepare(&settings, &endpoint, None, drop, &parcel).await.unwrap();
    proxy.set_tcp(TcpConnector { identity, psk: None, listener });
    proxy.go_on(parcel);
    proxy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_peer_that_is_taken_out_of_the_file_is_not_dialled_again_over_tcp() {
    let (near, far) = (new_identity(), new_identity());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let comes = format!("[listen]\nconnector = 'tcp'\n[[peer]]\nkey = '{}'\n", near.public());
    let _far = start_tcp(&comes, far.clone(), Some(listener)).await;
    let dials = format!("[listen]\n[[peer]]\nurl = 'whimbrel+tcp://{}@{address}'\n", far.public());
    let mut proxy = start_tcp(&dials, near, None).await;
    let status = proxy.status();
    until(|| status.shown()["peers"][0]["state"] == "connected").await;
    let [without, with]: [Settings; 2] =
        ["[listen]\n", &dials].map(|text| whimbrel_service::parse_config("x.toml", text).unwrap());
    assert!(proxy.reload(&without).contains("is no longer allowed"));
    assert_eq!(status.shown()["peers"], serde_json::json!([]));
    // It does not come back by itself.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(status.shown()["peers"], serde_json::json!([]));
    assert!(proxy.reload(&with).contains("is a peer now"));
    until(|| status.shown()["peers"][0]["state"] == "connected").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_program_that_is_quiet_makes_room_for_another() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let key = new_identity();
    let endpoint = bind(new_identity()).await;
    let text = format!(
        "[listen]\n[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']\n[limits]\nmax_udp_programs = 1\nudp_idle = '40s'\n",
        key.public()
    );
    let _proxy = start(&text, &endpoint, drop).await;
    let (_near, mocket) = dial(key, &endpoint).await;
    let remote = server.local_addr().unwrap().to_string();
    let send = async |program: u16, text: &'static [u8]| {
        let announcement = Announcement {
            program: ([127, 0, 0, 1], program).into(),
            remote: remote.parse().unwrap(),
            to_program: false,
            heard_by: None,
            manner: Manner::default(),
        };
        let datagram = Datagram::Announced(Context(program.into()), announcement, Bytes::from_static(text));
        mocket.send(datagram.to_bytes()).await.unwrap();
    };
    let mut buffer = [0; 100];
    send(1, b"one").await;
    let length = timeout(PATIENCE, server.recv(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(&buffer[..length], b"one");
    let began = tokio::time::Instant::now();
    loop {
        send(2, b"two").await;
        match timeout(Duration::from_millis(100), server.recv(&mut buffer)).await {
            Ok(length) => break assert_eq!(&buffer[..length.unwrap()], b"two"),
            Err(_) => assert!(began.elapsed() < PATIENCE, "the first keeps its place"),
        }
    }
    assert!(began.elapsed() > Duration::from_secs(2), "it was in use a moment ago");
}
