//! Rules on the flows that they carry: caps, services, gathering, DNS, holding, and what services and logs learn.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint, Mocket, Service, new_identity};
use whimbrel_proxy::protocol::{Announcement, Capabilities, Context, Datagram, Gathered, Manner, PROTOCOL};
use whimbrel_proxy::{News, Proxy, Settings};
use whimbrel_service::{ActivityLog, ActivityOptions};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a program that is not let write is watched.
const MOMENT: Duration = Duration::from_millis(1_500);

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.unwrap()
}

fn settings(text: &str) -> Settings {
    whimbrel_service::parse_config("x.toml", text).unwrap()
}

/// A server that does as it is told: `s` and a number of bytes sends so many, `r` and a number reads so many and then
/// says `ok`.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(what) = tcp.read_u8().await {
                    let count = tcp.read_u32().await.unwrap() as usize;
                    if what == b's' {
                        tcp.write_all(&vec![7; count]).await.unwrap();
                    } else {
                        let mut all = vec![0; count];
                        tcp.read_exact(&mut all).await.unwrap();
                        assert!(all.iter().enumerate().all(|(at, byte)| *byte == at as u8));
                        tcp.write_all(b"ok").await.unwrap();
                    }
                }
            });
        }
    });
    address
}

async fn download(tcp: &mut TcpStream, count: usize) {
    tcp.write_u8(b's').await.unwrap();
    tcp.write_u32(count as u32).await.unwrap();
    within(tcp.read_exact(&mut vec![0; count])).await.unwrap();
}

async fn write_upload(tcp: &mut TcpStream, count: usize) {
    tcp.write_u8(b'r').await.unwrap();
    tcp.write_u32(count as u32).await.unwrap();
    let all: Vec<u8> = (0..count).map(|at| at as u8).collect();
    tcp.write_all(&all).await.unwrap();
}

async fn ok(tcp: &mut TcpStream) {
    let mut said = [0; 2];
    within(tcp.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"ok");
}

async fn upload(tcp: &mut TcpStream, count: usize) {
    write_upload(tcp, count).await;
    ok(tcp).await;
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

/// A near and a far proxy, with a link between them that can be cut.
struct Pair {
    near: Proxy,
    base: String,
    forwards: Vec<SocketAddr>,
    is_cut: Arc<AtomicBool>,
    _far: (Proxy, Endpoint, Endpoint),
}

impl Pair {
    /// The near proxy has a forward to each target. `far` is said of the peer at the far end.
    async fn start(targets: &[SocketAddr], rules: &str, far: &str, activity: Option<ActivityLog>) -> Self {
        let (identity, key) = (new_identity(), new_identity());
        let listening = Config::listen_as(key.clone()).protocol(PROTOCOL.into());
        let listening = Endpoint::bind(listening, "127.0.0.1:0").await.unwrap();
        let text =
            format!("[listen]\n[[peer]]\nkey = '{}'\nmay_open = ['127.0.0.0/8:*']\n{far}", identity.public());
        let far = Proxy::start(&settings(&text), &listening, None, drop).await.unwrap();
        let (address, is_cut) = link(listening.local_addr().unwrap()).await;
        let forwards: Vec<_> = targets.iter().map(|target| format!("0={target}")).collect();
        let base = format!(
            "[in]\nforward = {forwards:?}\n[[peer]]\nname = 'far'\nurl = 'whimbrel://{}@{address}'\n",
            key.public()
        );
        let config = Config::default().protocol(PROTOCOL.into()).identity(identity);
        let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
        let (send, mut news) = mpsc::unbounded_channel();
        let near = Proxy::start(&settings(&format!("{base}{rules}")), &endpoint, activity, move |told| {
            drop(send.send(told))
        })
        .await
        .unwrap();
        let mut forwards = Vec::new();
        while forwards.len() < targets.len() {
            if let News::Serves(_, address) = within(news.recv()).await.unwrap() {
                forwards.push(address);
            }
        }
        Self { near, base, forwards, is_cut, _far: (far, listening, endpoint) }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Waits until the near proxy says so of its peer.
    async fn until(&self, state: &str) {
        within(async {
            while self.near.status().shown()["peers"][0]["state"] != state {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_holds_for_all_flows_of_a_rule_in_each_direction() {
    let target = server().await;
    // 50 kB/s, of which 5 kB may come at once.
    let pair = Pair::start(&[target], "[[rule]]\nname = 'slow'\ncap = '400kbit'", "", None).await;
    let mut one = TcpStream::connect(pair.forwards[0]).await.unwrap();
    let mut other = TcpStream::connect(pair.forwards[0]).await.unwrap();
    tokio::join!(download(&mut one, 1), download(&mut other, 1));
    for is_up in [true, false] {
        let began = Instant::now();
        match is_up {
            true => tokio::join!(upload(&mut one, 40_000), upload(&mut other, 40_000)),
            false => tokio::join!(download(&mut one, 40_000), download(&mut other, 40_000)),
        };
        let took = began.elapsed();
        println!("80 kB at 50 kB/s took {took:?}");
        assert!(took > Duration::from_millis(1_450), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_that_begins_or_ends_reaches_running_flows_at_both_ends() {
    let target = server().await;
    let mut pair = Pair::start(&[target], "", "", None).await;
    let mut flow = TcpStream::connect(pair.forwards[0]).await.unwrap();
    download(&mut flow, 100_000).await;
    // 10 kB/s.
    let rules = format!("{}[[rule]]\nname = 'slow'\ncap = '80kbit'", pair.base);
    assert_eq!(pair.near.reload(&settings(&rules)), "rules changed");
    let took = async |flow: &mut TcpStream, is_up: bool| {
        let began = Instant::now();
        if is_up {
            upload(flow, 12_000).await
        } else {
            download(flow, 12_000).await
        };
        began.elapsed()
    };
    let slow = Duration::from_millis(900);
    within(async { while took(&mut flow, true).await < slow {} }).await;
    within(async { while took(&mut flow, false).await < slow {} }).await;
    assert_eq!(pair.near.reload(&settings(&pair.base)), "rules changed");
    within(async { while took(&mut flow, true).await >= slow {} }).await;
    within(async { while took(&mut flow, false).await >= slow {} }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_may_go_on_writing_in_an_outage_as_far_as_its_rule_lets_it() {
    /// More than windows and the system's buffers take.
    const MUCH: usize = 24 << 20;
    let targets = [server().await, server().await];
    let rules = format!("[[rule]]\nname = 'hold'\nto = ['{}']\nhold_bytes = '32MB'", targets[0]);
    let pair = Pair::start(&targets, &rules, "", None).await;
    let mut held = TcpStream::connect(pair.forwards[0]).await.unwrap();
    let mut other = TcpStream::connect(pair.forwards[1]).await.unwrap();
    tokio::join!(upload(&mut held, 10), upload(&mut other, 10));
    pair.cut(true);
    // One writes before the outage is noticed, too.
    let writing = tokio::spawn(async move {
        write_upload(&mut other, MUCH).await;
        other
    });
    within(write_upload(&mut held, MUCH)).await;
    pair.until("unreachable").await;
    sleep(MOMENT).await;
    assert!(!writing.is_finished(), "without the rule it waits");
    pair.cut(false);
    ok(&mut held).await;
    let mut other = within(writing).await.unwrap();
    ok(&mut other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keep_alives_of_a_program_are_answered_in_an_outage() {
    let target = server().await;
    let pair = Pair::start(&[target], "", "", None).await;
    let mut flow = TcpStream::connect(pair.forwards[0]).await.unwrap();
    download(&mut flow, 1).await;
    // Without an answer, it would be reset after 3 s.
    let often = socket2::TcpKeepalive::new().with_time(Duration::from_secs(1));
    let often = often.with_interval(Duration::from_secs(1)).with_retries(2);
    socket2::SockRef::from(&flow).set_tcp_keepalive(&often).unwrap();
    pair.cut(true);
    pair.until("unreachable").await;
    timeout(Duration::from_secs(6), flow.read_u8()).await.unwrap_err();
    pair.cut(false);
    download(&mut flow, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_learns_whose_connection_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let plain = server().await;
    let pair = Pair::start(&[target, plain], "", &format!("proxy_protocol = ['{target}']"), None).await;
    let mut program = TcpStream::connect(pair.forwards[0]).await.unwrap();
    program.write_all(b"hello").await.unwrap();
    let (mut tcp, _) = within(listener.accept()).await.unwrap();
    let mut read = [0; 28 + 5];
    within(tcp.read_exact(&mut read)).await.unwrap();
    let source = program.local_addr().unwrap();
    let ports = [source.port().to_be_bytes(), target.port().to_be_bytes()].concat();
    let head =
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01"[..], &ports, b"hello"].concat();
    assert_eq!(read[..], head[..]);
    // Another target would take it for data.
    upload(&mut TcpStream::connect(pair.forwards[1]).await.unwrap(), 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_may_log_its_flows_and_know_them_by_their_way_in() {
    let target = server().await;
    let path = std::env::temp_dir().join(format!("whimbrel-logged-{}", std::process::id()));
    let activity = ActivityLog::open(ActivityOptions::new(&path)).unwrap();
    let rules = "[[rule]]\nname = 'others'\nby = ['socks', 'connect']\naction = 'reject'\nlog = true\n
                 [[rule]]\nname = 'forwards'\nby = 'forward'\nlog = true";
    let pair = Pair::start(&[target], rules, "", Some(activity)).await;
    let mut program = TcpStream::connect(pair.forwards[0]).await.unwrap();
    download(&mut program, 1).await;
    let read = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let line = read.lines().find(|line| line.contains("rule matched")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let wanted = serde_json::json!({
        "rule": "forwards", "action": "carry", "by": "forward", "protocol": "tcp", "target": target.to_string(),
        "program": program.local_addr().unwrap().to_string(),
    });
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(&line[name], value, "{name}: {line}");
    }
    assert_eq!(pair.near.status().shown()["flows"]["list"][0]["rule"], "forwards");
}

/// A near proxy whose peer is this test, and a UDP program that uses it by SOCKS5.
struct Spied {
    near: Proxy,
    mocket: Mocket,
    program: UdpSocket,
    relay: SocketAddr,
    _kept: (Endpoint, Endpoint, TcpStream),
}

impl Spied {
    async fn start(rules: &str) -> Self {
        let key = new_identity();
        let listening = Config::listen_as(key.clone()).protocol(PROTOCOL.into());
        let listening = Endpoint::bind(listening, "127.0.0.1:0").await.unwrap();
        let text = format!(
            "[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nurl = 'whimbrel://{}@{}'\n{rules}",
            key.public(),
            listening.local_addr().unwrap()
        );
        let config = Config::default().protocol(PROTOCOL.into()).identity(new_identity());
        let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
        let (send, mut news) = mpsc::unbounded_channel();
        let text = settings(&text);
        let near = Proxy::start(&text, &endpoint, None, move |told| drop(send.send(told))).await.unwrap();
        let Some(News::Serves(_, socks)) = news.recv().await else { panic!("it serves first") };
        let mocket = within(listening.accept()).await.unwrap();
        within(async {
            while near.status().shown()["peers"][0]["state"] != "connected" {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let mut tcp = TcpStream::connect(socks).await.unwrap();
        tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let mut reply = [0; 12];
        within(tcp.read_exact(&mut reply)).await.unwrap();
        let relay = (std::net::Ipv4Addr::LOCALHOST, u16::from_be_bytes([reply[10], reply[11]])).into();
        let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        Self { near, mocket, program, relay, _kept: (listening, endpoint, tcp) }
    }

    /// The program sends to port 53 of this host.
    async fn send(&self, host: u8, payload: &[u8]) {
        let datagram = [&[0, 0, 0, 1, 10, 0, 0, host, 0, 53][..], payload].concat();
        self.program.send_to(&datagram, self.relay).await.unwrap();
    }

    /// The next message about datagrams that is no mere announcement, with its service.
    async fn next(&self) -> (Datagram, Service) {
        loop {
            let message = within(self.mocket.recv()).await.unwrap();
            match Datagram::from_bytes(message.payload).unwrap() {
                Datagram::Announcement(..) | Datagram::Capabilities(_) => {}
                datagram => return (datagram, message.service),
            }
        }
    }

    /// Returns the datagram that the program hears, and its host.
    async fn hears(&self) -> (u8, Vec<u8>) {
        let mut buffer = [0; 2_000];
        let length = within(self.program.recv(&mut buffer)).await.unwrap();
        (buffer[7], buffer[10..length].to_vec())
    }

    /// The remote at this host, for datagrams to the program.
    fn announced(&self, number: u64, host: u8, payload: &[u8]) -> Datagram {
        let announcement = Announcement {
            program: self.program.local_addr().unwrap(),
            remote: SocketAddr::from(([10, 0, 0, host], 53)).into(),
            to_program: true,
            heard_by: None,
            manner: Manner::default(),
        };
        Datagram::Announced(Context(number), announcement, Bytes::copy_from_slice(payload))
    }

    async fn tell(&self, message: Datagram) {
        self.mocket.send(message.to_bytes()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_have_the_service_of_their_rule() {
    for service in Service::ALL {
        let spied = Spied::start(&format!("[[rule]]\nname = 'r'\nservice = '{}'", service.short())).await;
        spied.send(1, b"x").await;
        let (Datagram::Announced(_, announcement, _), by) = spied.next().await else {
            panic!("not announced")
        };
        assert_eq!((by, announcement.manner.service), (service, Some(service)));
    }
    let spied = Spied::start("").await;
    spied.send(1, b"x").await;
    assert_eq!(spied.next().await.1, Service::UnreliableUnsequenced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_datagrams_travel_together_to_a_peer_that_understands_it() {
    let spied = Spied::start("[[rule]]\nname = 'r'\ngather = '50ms'").await;
    // Until the announcement is delivered, each has it.
    within(async {
        loop {
            spied.send(1, b"x").await;
            if matches!(spied.next().await.0, Datagram::Plain(..)) {
                return;
            }
        }
    })
    .await;
    let burst = async |spied: &Spied| {
        for number in 0..8_u8 {
            spied.send(1, &[number; 20]).await;
        }
    };
    // A peer of an earlier version has said nothing.
    burst(&spied).await;
    for _ in 0..8 {
        assert!(matches!(spied.next().await.0, Datagram::Plain(..)));
    }
    spied.tell(Datagram::Capabilities(Capabilities::OURS)).await;
    let gathered = within(async {
        loop {
            burst(&spied).await;
            let (mut all, mut messages) = (Vec::new(), 0);
            while all.len() < 8 {
                match spied.next().await.0 {
                    Datagram::Gathered(content) => all.extend(Gathered::read(&content).unwrap()),
                    other => all.push(other),
                }
                messages += 1;
            }
            if messages < 8 {
                return all;
            }
        }
    })
    .await;
    let mut payloads: Vec<_> = gathered
        .into_iter()
        .map(|datagram| match datagram {
            Datagram::Plain(Context(0), payload) => payload,
            other => panic!("{other:?}"),
        })
        .collect();
    payloads.sort();
    assert!(
        payloads.iter().enumerate().all(|(number, payload)| **payload == [number as u8; 20]),
        "{payloads:?}"
    );
    // A long one does not wait for others, and is whole.
    spied.send(1, &[9; 1_000]).await;
    assert_eq!(spied.next().await.0, Datagram::Plain(Context(0), Bytes::from(vec![9; 1_000])));

    // The other way: each of them reaches the program.
    spied.tell(spied.announced(0, 1, b"first")).await;
    assert_eq!(spied.hears().await, (1, b"first".to_vec()));
    let mut together = Gathered::default();
    for payload in [&b"one"[..], b"", b"two"] {
        together.add(&Datagram::Plain(Context(0), Bytes::copy_from_slice(payload)).to_bytes());
    }
    spied.mocket.send(together.take().unwrap()).await.unwrap();
    for payload in [&b"one"[..], b"", b"two"] {
        assert_eq!(spied.hears().await, (1, payload.to_vec()));
    }
}

/// A query for the address of a name with one label.
fn query(id: u8, label: &[u8]) -> Vec<u8> {
    let head = [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8][..], label].concat();
    [&head[..], &[0, 0, 1, 0, 1]].concat()
}

/// Its answer, which is valid for so many seconds.
fn answer(query: &[u8], time: u8) -> Vec<u8> {
    let mut answer = query.to_vec();
    (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, time, 0, 4, 192, 0, 2, 7]);
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_heard_is_given_again_by_the_near_end() {
    let cached = "[[rule]]\nname = 'dns'\nto = ['10.0.0.1:53', '10.0.0.2:53']\ndns = 'cache'";
    let spied = Spied::start(cached).await;
    let asked = async |spied: &Spied| match spied.next().await.0 {
        Datagram::Announced(_, _, payload) | Datagram::Plain(_, payload) => payload.to_vec(),
        other => panic!("{other:?}"),
    };
    spied.send(1, &query(1, b"a")).await;
    assert_eq!(asked(&spied).await, query(1, b"a"));
    let first = answer(&query(1, b"a"), 60);
    spied.tell(spied.announced(0, 1, &first)).await;
    assert_eq!(spied.hears().await, (1, first));
    spied.send(1, &query(2, b"a")).await;
    let (host, heard) = spied.hears().await;
    assert_eq!((host, &heard[..2], &heard[heard.len() - 4..]), (1, &[0, 2][..], &[192, 0, 2, 7][..]));
    // Neither another name, nor another server, nor a rule without the cache.
    for (host, id, label) in [(1, 3, b"b"), (2, 4, b"a"), (9, 5, b"a")] {
        spied.send(host, &query(id, label)).await;
        assert_eq!(asked(&spied).await, query(id, label), "{host}");
    }
    // What is no query goes on as it is.
    spied.send(1, b"what is this?").await;
    assert_eq!(asked(&spied).await, b"what is this?");
    drop(spied.near);
}
