//! Compression between a proxy and peers that do not know it, break it, or send bombs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint, Identity, Mocket, Stream, StreamIoError, new_identity};
use whimbrel_proxy::compress::{DatagramCodec, Encoder, Method};
use whimbrel_proxy::protocol::{
    Agreement, Answer, Compression, Context, Datagram, Manner, Opening, Outcome, PROTOCOL, Refusal, codes,
};
use whimbrel_proxy::{News, Proxy, Settings};
use whimbrel_service::{ActivityLog, ActivityOptions};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.unwrap()
}

async fn bind(identity: Identity) -> Endpoint {
    let config = Config::listen_as(identity).protocol(PROTOCOL.into());
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

/// A far proxy that this mocket's peer may open everything on loopback from.
async fn far(limits: &str) -> (Proxy, [Endpoint; 2], Mocket) {
    let (key, endpoint) = (new_identity(), bind(new_identity()).await);
    let peer = format!("[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']", key.public());
    let text = format!("[listen]\n{peer}\n[limits]\n{limits}\n");
    let settings: Settings = whimbrel_service::parse_config("x.toml", &text).unwrap();
    let proxy = Proxy::start(&settings, &endpoint, None, drop).await.unwrap();
    let config = Config::default().identity(key).protocol(PROTOCOL.into());
    let near = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr().unwrap());
    let mocket = near.connect(url).await.unwrap();
    (proxy, [endpoint, near], mocket)
}

fn method(text: &str) -> Method {
    text.parse().unwrap()
}

/// Opens a flow that asks for compression. Returns the stream and what was agreed on.
async fn open(mocket: &Mocket, to: SocketAddr, by: &str, plain: u32) -> (Stream, u8) {
    let compression = Some(Compression { method: method(by), dictionary: None, plain });
    let manner = Manner { compression, ..Manner::default() };
    let opening = Opening { target: to.to_string().parse().unwrap(), source: None, manner };
    let mut stream = mocket.open_stream_with(opening.to_bytes()).await.unwrap();
    if plain > 0 {
        stream.write_bytes(Bytes::from(vec![b'e'; plain as usize])).await.unwrap();
    }
    let mut answer = vec![0; 2];
    within(stream.read_exact(&mut answer)).await.unwrap();
    let mut rest = vec![0; usize::from(answer[0]) - 1];
    within(stream.read_exact(&mut rest)).await.unwrap();
    assert_eq!(answer[1], 0, "connected");
    (stream, rest.get(6).copied().unwrap_or(0))
}

/// A piece of the protocol: four times the length plus the kind, and the bytes.
fn piece(kind: u32, bytes: &[u8]) -> Vec<u8> {
    let number = (bytes.len() as u32 * 4 + kind) | 0x8000_0000;
    [&number.to_be_bytes()[..], bytes].concat()
}

/// Waits until the peer has stopped the stream. Returns its code.
async fn stopped(stream: &mut Stream) -> u64 {
    loop {
        match within(stream.read_bytes(1_000)).await {
            Err(StreamIoError::Reset(code)) => return code.0,
            Err(error) => panic!("{error}"),
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ends as if all were well"),
        }
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Whether a flow works: a write in pieces arrives.
async fn works(mocket: &Mocket, listener: &TcpListener, to: SocketAddr) {
    let (mut stream, agreed) = open(mocket, to, "zstd:1", 7).await;
    assert_eq!(agreed, 1);
    let (mut server, _) = listener.accept().await.unwrap();
    let mut packed = Vec::new();
    Encoder::new(method("zstd:1"), None).unwrap().encode(b"hello", &mut packed).unwrap();
    stream.write_bytes([piece(2, &packed), piece(3, b" you")].concat().into()).await.unwrap();
    let mut came = [0; 16];
    within(server.read_exact(&mut came)).await.unwrap();
    assert_eq!(&came, b"eeeeeeehello you", "what came before the answer, then pieces");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_malformed_resets_its_flow_only() {
    let (_proxy, _ends, mocket) = far("").await;
    let (listener, to) = listen().await;
    let mut packed = Vec::new();
    Encoder::new(method("zlib:1"), None).unwrap().encode(&[7; 1_000], &mut packed).unwrap();
    let cut = &packed[..packed.len() / 2];
    for (by, wrong, ends) in [
        ("zstd:3", piece(2, &[0xff; 40]), false),
        ("xz:1", piece(2, &[0xff; 40]), false),
        ("zlib:1", piece(2, &[0xff; 40]), false),
        ("zlib:1", piece(1, &packed), false),
        ("zlib:1", vec![0], false),
        ("zlib:1", vec![0xff; 8], false),
        ("zlib:1", [&piece(2, &packed)[..], &piece(3, b"x"), &piece(1, &packed)].concat(), false),
        ("zlib:1", piece(2, &packed)[..4 + cut.len()].to_vec(), true),
    ] {
        let (mut stream, agreed) = open(&mocket, to, by, 0).await;
        assert_eq!(agreed, 1);
        let (mut server, _) = listener.accept().await.unwrap();
        stream.write_bytes(wrong.clone().into()).await.unwrap();
        if ends {
            stream.shutdown().await.unwrap();
        }
        assert_eq!(stopped(&mut stream).await, codes::PROTOCOL, "{by}: {wrong:?}");
        let ended = within(async {
            loop {
                match server.read(&mut [0; 2_000]).await {
                    Ok(0) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error.kind()),
                }
            }
        });
        assert_eq!(ended.await, Some(std::io::ErrorKind::ConnectionReset), "{by}: {wrong:?}");
    }
    works(&mocket, &listener, to).await;
}

/// The resident memory of this process, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(target_os = "linux")]
async fn bombs_take_no_more_memory_than_other_flows() {
    let (_proxy, _ends, mocket) = far("").await;
    let (listener, to) = listen().await;
    let mut packed = Vec::new();
    // 64 MB of zeros.
    let mut encoder = Encoder::new(method("zstd:3"), None).unwrap();
    let mut bomb = Vec::new();
    for at in 0..64 {
        packed.clear();
        encoder.encode(&vec![0; 1_000_000], &mut packed).unwrap();
        bomb.extend(piece(if at == 0 { 2 } else { 1 }, &packed));
    }
    println!("64 MB are {} bytes", bomb.len());
    let (mut kept, before) = (Vec::new(), resident());
    for _ in 0..32 {
        let (mut stream, agreed) = open(&mocket, to, "zstd:3", 0).await;
        assert_eq!(agreed, 1);
        stream.write_bytes(bomb.clone().into()).await.unwrap();
        // Nobody reads here.
        let (server, _) = listener.accept().await.unwrap();
        server.readable().await.unwrap();
        kept.push((stream, server));
    }
    works(&mocket, &listener, to).await;
    let more = resident().saturating_sub(before);
    assert!(more < 100, "{more} MiB for 32 bombs of 64 MB");
    // Whoever reads gets all of it.
    let (_stream, mut server) = kept.pop().unwrap();
    let mut room = vec![1; 1_000_000];
    for _ in 0..64 {
        within(server.read_exact(&mut room)).await.unwrap();
        assert!(room.iter().all(|byte| *byte == 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_beyond_the_limit_are_carried_as_they_are() {
    let (_proxy, _ends, mocket) = far("max_compressed_flows = 2\n").await;
    let (listener, to) = listen().await;
    let mut kept = Vec::new();
    for expected in [1, 1, 0] {
        let (stream, agreed) = open(&mocket, to, "xz:1", 0).await;
        assert_eq!(agreed, expected);
        kept.push((stream, listener.accept().await.unwrap().0));
    }
    let (stream, server) = &mut kept[2];
    stream.write_bytes(Bytes::from_static(b"plain")).await.unwrap();
    let mut came = [0; 5];
    within(server.read_exact(&mut came)).await.unwrap();
    assert_eq!(&came, b"plain");
    kept.remove(0);
    // The share is given back once the flow has ended.
    within(async {
        loop {
            let (stream, agreed) = open(&mocket, to, "xz:1", 0).await;
            drop((listener.accept().await.unwrap(), stream));
            if agreed == 1 {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A near proxy with this way in and these rules, whose peer is this endpoint.
async fn near(far: &Endpoint, way_in: &str, rules: &str) -> (Proxy, Endpoint, SocketAddr) {
    near_noting(far, way_in, rules, None).await
}

async fn near_noting(
    far: &Endpoint,
    way_in: &str,
    rules: &str,
    activity: Option<ActivityLog>,
) -> (Proxy, Endpoint, SocketAddr) {
    let url = format!("whimbrel://{}@{}", far.public_key(), far.local_addr().unwrap());
    let address = if way_in == "forward" { "['127.0.0.1:0=host.example:80']" } else { "'127.0.0.1:0'" };
    let text = format!("[in]\n{way_in} = {address}\n[[peer]]\nurl = '{url}'\n{rules}\n");
    let settings: Settings = whimbrel_service::parse_config("x.toml", &text).unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let config = Config::default().protocol(PROTOCOL.into());
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let proxy =
        Proxy::start(&settings, &endpoint, activity, move |news| drop(tell.send(news))).await.unwrap();
    loop {
        if let News::Serves(_, address) = told.recv().await.unwrap() {
            return (proxy, endpoint, address);
        }
    }
}

const RULE: &str = "[[rule]]\nname = 'r'\ncompression = 'zlib:1'";

/// Asks for a connection, with the program's first bytes in the same segment.
async fn connect(to: SocketAddr) -> TcpStream {
    let mut program = TcpStream::connect(to).await.unwrap();
    program.write_all(b"CONNECT host.example:80 HTTP/1.1\r\n\r\nfirst").await.unwrap();
    program
}

const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_know_compression_gets_and_sends_plain_bytes() {
    let peer = bind(new_identity()).await;
    let (_proxy, _endpoint, way_in) = near(&peer, "connect", RULE).await;
    let mocket = within(peer.accept()).await.unwrap();
    let mut program = connect(way_in).await;
    let mut stream = within(mocket.accept_stream()).await.unwrap();
    let asked = Opening::from_bytes(stream.opening()).unwrap().manner.compression.unwrap();
    assert_eq!((asked.method, asked.plain), (method("zlib:1"), 5));
    let address = Some("192.0.2.1:80".parse().unwrap());
    let answer = Answer { outcome: Outcome::Connected, address, agreement: Agreement::Plain };
    // As before there was compression.
    assert_eq!(answer.to_bytes(), [7, 0, 192, 0, 2, 1, 0, 80]);
    stream.write_bytes([&answer.to_bytes()[..], b"welcome"].concat().into()).await.unwrap();
    let mut came = vec![0; CONNECTED.len() + 7];
    within(program.read_exact(&mut came)).await.unwrap();
    assert_eq!(came, [CONNECTED, b"welcome"].concat());
    program.write_all(b", then").await.unwrap();
    let mut came = [0; 11];
    within(stream.read_exact(&mut came)).await.unwrap();
    assert_eq!(&came, b"first, then");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_come_before_the_answer_are_plain_and_others_are_in_pieces() {
    let peer = bind(new_identity()).await;
    let (_proxy, _endpoint, way_in) = near(&peer, "connect", RULE).await;
    let mocket = within(peer.accept()).await.unwrap();
    let mut program = connect(way_in).await;
    let mut stream = within(mocket.accept_stream()).await.unwrap();
    let mut first = [0; 5];
    within(stream.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"first");
    let answer = Answer { outcome: Outcome::Connected, address: None, agreement: Agreement::Compressed };
    stream.write_bytes([&answer.to_bytes()[..], &piece(0, b"hi")].concat().into()).await.unwrap();
    let mut came = vec![0; CONNECTED.len() + 2];
    within(program.read_exact(&mut came)).await.unwrap();
    assert!(came.ends_with(b"hi"));
    program.write_all(&[b'a'; 1_000]).await.unwrap();
    let mut header = [0; 2];
    within(stream.read_exact(&mut header)).await.unwrap();
    let number = u16::from_be_bytes(header) & 0x3fff;
    assert_eq!(number % 4, 2, "compressed, by a new context");
    assert!(number / 4 < 40, "a thousand bytes in {}", number / 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_agrees_to_what_nobody_asked_for_breaks_the_protocol() {
    let peer = bind(new_identity()).await;
    let (_proxy, _endpoint, way_in) = near(&peer, "connect", "").await;
    let mocket = within(peer.accept()).await.unwrap();
    let mut program = connect(way_in).await;
    let mut stream = within(mocket.accept_stream()).await.unwrap();
    let answer = Answer { outcome: Outcome::Connected, address: None, agreement: Agreement::Compressed };
    stream.write_bytes(answer.to_bytes().into()).await.unwrap();
    let mut came = [0; 12];
    within(program.read_exact(&mut came)).await.unwrap();
    assert_eq!(&came, b"HTTP/1.1 502");
    assert_eq!(stopped(&mut stream).await, codes::PROTOCOL);
}

/// A flow through a forward, which waits for the peer to agree on compression. Returns the program and the stream.
async fn waiting_forward(rule: &str) -> (Proxy, [Endpoint; 2], Mocket, TcpStream, Stream) {
    let peer = bind(new_identity()).await;
    let (proxy, endpoint, way_in) = near(&peer, "forward", rule).await;
    let mocket = within(peer.accept()).await.unwrap();
    let program = TcpStream::connect(way_in).await.unwrap();
    let stream = within(mocket.accept_stream()).await.unwrap();
    (proxy, [endpoint, peer], mocket, program, stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_program_that_gives_up_before_the_answer_costs_nothing_more() {
    let (proxy, _ends, _mocket, program, mut stream) = waiting_forward(RULE).await;
    assert_eq!(proxy.status().shown()["flows"]["running"], 1);
    socket2::SockRef::from(&program).set_linger(Some(Duration::ZERO)).unwrap();
    drop(program);
    // The peer never answers.
    stopped(&mut stream).await;
    within(async {
        while proxy.status().shown()["flows"]["running"] != 0 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_rules_reset_a_flow_that_waits_to_agree_on_compression() {
    let (mut proxy, [_near, far], _mocket, mut program, mut stream) = waiting_forward(RULE).await;
    let url = format!("whimbrel://{}@{}", far.public_key(), far.local_addr().unwrap());
    let text =
        format!("[[peer]]\nurl = '{url}'\n[[rule]]\nname = 'no'\naction = 'reject'\nexisting = true\n");
    let said = proxy.reload(&whimbrel_service::parse_config("x.toml", &text).unwrap());
    assert!(said.starts_with("rules changed"), "{said}");
    assert_eq!(stopped(&mut stream).await, codes::RULE);
    let ended = within(program.read(&mut [0; 9])).await.map_err(|error| error.kind());
    assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset));
}

/// The next message about datagrams that is no mere announcement.
async fn next(mocket: &Mocket) -> Datagram {
    loop {
        let message = within(mocket.recv()).await.unwrap();
        let datagram = Datagram::from_bytes(message.payload).unwrap();
        if !matches!(datagram, Datagram::Announcement(..) | Datagram::Capabilities(_)) {
            return datagram;
        }
    }
}

/// Asks for a UDP association. Returns it, and where its datagrams go.
async fn associate(socks: SocketAddr) -> (TcpStream, SocketAddr) {
    let mut tcp = TcpStream::connect(socks).await.unwrap();
    tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    let mut reply = [0; 12];
    within(tcp.read_exact(&mut reply)).await.unwrap();
    (tcp, ([127, 0, 0, 1], u16::from_be_bytes([reply[10], reply[11]])).into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_are_plain_until_the_peer_takes_them_compressed_and_numbers_do_not_collide() {
    let peer = bind(new_identity()).await;
    let (proxy, _endpoint, socks) = near(&peer, "socks", RULE).await;
    let mocket = within(peer.accept()).await.unwrap();
    // Without a session, datagrams are lost.
    within(async {
        while proxy.status().shown()["peers"][0]["state"] != "connected" {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (_tcp, relay) = associate(socks).await;
    let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let payload = Bytes::from(b"text ".repeat(100));
    let send = async |host: u8| {
        let datagram = [&[0, 0, 0, 1, 10, 0, 0, host, 0, 53][..], &payload].concat();
        program.send_to(&datagram, relay).await.unwrap();
        next(&mocket).await
    };
    let mut numbers = Vec::new();
    for host in [1, 2] {
        let Datagram::Announced(number, _, came) = send(host).await else { panic!("not announced") };
        assert_eq!(came, payload);
        numbers.push(number);
    }
    assert_eq!(numbers, [Context(0), Context(2)], "a number is left to compressed datagrams");
    // Once the announcements are delivered, datagrams are plain for who says nothing.
    for (host, number) in [(1, 0), (2, 2)] {
        while send(host).await != Datagram::Plain(Context(number), payload.clone()) {}
    }
    let tell = async |message: Datagram| mocket.send(message.to_bytes()).await.unwrap();
    tell(Datagram::Compresses(Context(0))).await;
    let mut codec = DatagramCodec::new(method("zlib:1"), None).unwrap();
    let packed = loop {
        match send(1).await {
            Datagram::Plain(Context(0), _) => {}
            Datagram::Plain(Context(1), packed) => break packed,
            other => panic!("{other:?}"),
        }
    };
    assert!(packed.len() < 40 && codec.unpack(&packed, 1_000).unwrap() == payload);
    assert_eq!(send(2).await, Datagram::Plain(Context(2), payload.clone()), "not asked for");
    // A peer that has forgotten a context names the number that it got.
    tell(Datagram::Refused(Context(1), Refusal::Unknown)).await;
    while !matches!(send(1).await, Datagram::Announced(Context(0), ..)) {}
    // Nothing becomes of a number that nobody has.
    tell(Datagram::Refused(Context(77), Refusal::Denied)).await;
    tell(Datagram::Compresses(Context(77))).await;
    assert_eq!(send(2).await, Datagram::Plain(Context(2), payload.clone()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_peer_that_forgets_and_reads_nothing_gathers_no_tasks() {
    let peer = bind(new_identity()).await;
    let (proxy, _endpoint, socks) = near(&peer, "socks", "").await;
    let mocket = within(peer.accept()).await.unwrap();
    within(async {
        while proxy.status().shown()["peers"][0]["state"] != "connected" {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (_tcp, relay) = associate(socks).await;
    let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (before, mut most) = (alive(), 0);
    let datagram = [&[0, 0, 0, 1, 10, 0, 0, 1, 0, 53][..], &[7; 9_000]].concat();
    let sender = mocket.sender().unsequenced().build();
    // Credit for what it does not read ends after a few megabytes.
    for _ in 0..3_000 {
        program.send_to(&datagram, relay).await.unwrap();
        sender.send(Datagram::Refused(Context(0), Refusal::Unknown).to_bytes()).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        most = most.max(alive());
    }
    assert!(most < before + 40, "{before} tasks before, {most} at most");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_why_a_forward_was_refused_is_noted_also_if_its_stream_is_stopped_before_the_answer() {
    let file = std::env::temp_dir().join(format!("whimbrel-forward-why-{}", std::process::id()));
    let activity = ActivityLog::open(ActivityOptions::new(&file)).unwrap();
    let peer = bind(new_identity()).await;
    let (proxy, _endpoint, way_in) = near_noting(&peer, "forward", "", Some(activity)).await;
    let mocket = within(peer.accept()).await.unwrap();
    let mut program = TcpStream::connect(way_in).await.unwrap();
    program.write_all(b"hello").await.unwrap();
    let mut stream = within(mocket.accept_stream()).await.unwrap();
    stream.stop(codes::RESET);
    // The stop arrives by itself.
    sleep(Duration::from_millis(200)).await;
    stream.write_bytes(Answer::of(Outcome::Denied).to_bytes().into()).await.unwrap();
    let ended = within(async {
        loop {
            if let Err(error) = program.read(&mut [0; 9]).await {
                break error.kind();
            }
        }
    });
    assert_eq!(ended.await, std::io::ErrorKind::ConnectionReset);
    within(async {
        while proxy.status().shown()["flows"]["running"] != 0 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let noted = within(async {
        loop {
            match std::fs::read_to_string(&file).unwrap() {
                noted if noted.contains("flow ") => break noted,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    std::fs::remove_file(&file).unwrap();
    let why = Outcome::Denied.to_string();
    assert!(noted.contains("\"flow refused\"") && noted.contains(&why), "{noted}");
    assert_eq!(proxy.status().shown()["flows"]["refused"], 1);
}
