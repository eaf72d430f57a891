//! Tests of `whimbrel proxy`: programs, two proxies, and servers behind the far one, all real.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use socket2::{Domain, SockRef, Socket, Type};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A near and a far proxy.
struct Pair {
    near: Running,
    far: Running,
    socks: SocketAddr,
    connect: SocketAddr,
    forward: SocketAddr,
    control: String,
    metrics: SocketAddr,
    /// The folders last: they are deleted when nothing runs in them any more.
    _homes: [Home; 2],
}

/// Starts two proxies. The near one may open `permits` from the far one. `between` may put something between them.
fn pair(name: &str, permits: &str, forward: &str, between: impl FnOnce(&str) -> String) -> Pair {
    pair_over("whimbrel", name, permits, forward, "", between)
}

/// Starts two proxies as [`pair`] does, with this connector and these settings of the far one.
fn pair_over(
    connector: &str,
    name: &str,
    permits: &str,
    forward: &str,
    settings: &str,
    between: impl FnOnce(&str) -> String,
) -> Pair {
    let name = &format!("{name}-{connector}");
    let homes = [Home::new(&format!("{name}-near")), Home::new(&format!("{name}-far"))];
    let made = whimbrel(&homes[0]).args(["key", "new"]).output().unwrap();
    assert!(made.status.success());
    let shown = whimbrel(&homes[0]).args(["key", "show"]).output().unwrap();
    let key = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
    std::fs::write(homes[1].file("far.toml"), settings).unwrap();
    let far = Running::listening(whimbrel(&homes[1]).args([
        "proxy",
        "run",
        "--config",
        &homes[1].file("far.toml").display().to_string(),
        "--listen",
        "127.0.0.1:0",
        "--connector",
        connector,
        "--allow",
        &format!("{key}={permits}"),
    ]));
    if far.listening.is_empty() {
        panic!("the far proxy does not listen: {:?}", far.end());
    }
    let control = homes[0].file("near.sock").display().to_string();
    let (near, said) = Running::saying(
        whimbrel(&homes[0]).args([
            "proxy",
            "run",
            "--peer",
            &between(&far.listening),
            "--socks",
            "127.0.0.1:0",
            "--connect",
            "127.0.0.1:0",
            "--forward",
            &format!("0={forward}"),
            "--control",
            &control,
            "--metrics",
            "127.0.0.1:0",
        ]),
        "connected to ",
    );
    let port = |begin: &str| {
        let line = said.iter().find_map(|line| line.strip_prefix(begin)).unwrap();
        line.trim_end_matches("/metrics").parse().unwrap()
    };
    let metrics = port("metrics on http://");
    let (socks, connect, forward) = (port("SOCKS5 on "), port("HTTP CONNECT on "), port("a forward on "));
    Pair { near, far, socks, connect, forward, control, metrics, _homes: homes }
}

impl Pair {
    /// Asks for a connection by SOCKS5. Returns it and the reply's code.
    fn socks(&self, host: &str, port: u16) -> (TcpStream, u8) {
        let mut tcp = dial(self.socks);
        tcp.write_all(&[5, 1, 0]).unwrap();
        tcp.read_exact(&mut [0; 2]).unwrap();
        let mut request = vec![5, 1, 0, 3, host.len() as u8];
        request.extend_from_slice(host.as_bytes());
        request.extend_from_slice(&port.to_be_bytes());
        tcp.write_all(&request).unwrap();
        let mut reply = [0; 10];
        tcp.read_exact(&mut reply).unwrap();
        (tcp, reply[1])
    }
}

fn dial(address: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

/// Serves the next connection in a thread.
fn serve<T: Send + 'static>(
    listener: &TcpListener,
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> JoinHandle<T> {
    let listener = listener.try_clone().unwrap();
    thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        serve(tcp)
    })
}

fn read_to_end(mut tcp: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Bytes that differ from place to place.
fn payload(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Reads to the end, then says how much that was.
fn count(tcp: TcpStream) {
    let length = read_to_end(&tcp).len();
    (&tcp).write_all(format!("{length} bytes").as_bytes()).unwrap();
}

fn open(connector: &str, name: &str) -> (Pair, TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let permits = format!("127.0.0.1:{port},localhost:{port}");
    let pair = pair_over(connector, name, &permits, &format!("127.0.0.1:{port}"), "", str::to_owned);
    (pair, listener, port)
}

/// Tests that hold whatever carries the session.
macro_rules! over_each_connector {
    ($($test:ident)*) => {
        mod over_whimbrel {
            $(#[test]
            fn $test() {
                super::$test("whimbrel");
            })*
        }
        mod over_tcp {
            $(#[test]
            fn $test() {
                super::$test("tcp");
            })*
        }
    };
}

over_each_connector! {
    each_way_in_carries_every_byte_in_both_directions
    fin_and_rst_are_what_they_are_without_a_proxy
    a_program_is_told_why_there_is_no_connection
    a_program_that_gives_up_while_it_waits_costs_nothing_more
    programs_that_do_not_read_hold_back_nobody_else
    datagrams_go_both_ways_and_a_reply_may_come_from_anywhere
    a_killed_proxy_resets_what_it_carried
}

fn each_way_in_carries_every_byte_in_both_directions(connector: &str) {
    let (pair, listener, port) = open(connector, "proxy-ways");
    let sent = payload(3_000_000);
    let ways: [&dyn Fn() -> TcpStream; 3] = [
        &|| {
            let (tcp, code) = pair.socks("localhost", port);
            assert_eq!(code, 0);
            tcp
        },
        &|| {
            let mut tcp = dial(pair.connect);
            write!(tcp, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = [0; 39];
            tcp.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 Connection established\r\n\r\n");
            tcp
        },
        &|| dial(pair.forward),
    ];
    for way in ways {
        let (back, wanted) = (sent.clone(), sent.clone());
        let server = serve(&listener, move |mut tcp| {
            tcp.write_all(&back).unwrap();
            tcp.shutdown(Shutdown::Write).unwrap();
            assert!(read_to_end(&tcp) == wanted, "what the server read");
        });
        let mut tcp = way();
        let reading = {
            let tcp = tcp.try_clone().unwrap();
            thread::spawn(move || read_to_end(&tcp))
        };
        tcp.write_all(&sent).unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        assert!(reading.join().unwrap() == sent, "what the program read");
        server.join().unwrap();
    }
    let status = whimbrel(&Home::new(&format!("proxy-ways-status-{connector}")))
        .args(["status", &pair.control, "--json"])
        .output()
        .unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        (&status["more"]["flows"]["opened"], &status["more"]["peers"][0]["state"]),
        (&3.into(), &"connected".into())
    );
    assert_eq!(status["more"]["peers"][0]["connector"], connector);
    let output = whimbrel(&Home::new(&format!("proxy-ways-text-{connector}")))
        .args(["proxy", "status", &pair.control])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let state = if connector == "tcp" { ": connected over tcp\n" } else { ": connected\n" };
    assert_eq!(text.contains("1 session\n"), connector == "whimbrel", "{text}");
    for part in ["1 peer\n", state, "flows, ", " so far, 0 refused\n"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let mut scrape = dial(pair.metrics);
    scrape.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let metrics = String::from_utf8(read_to_end(&scrape)).unwrap();
    let opened = metrics.lines().find(|line| line.starts_with("whimbrel_proxy_flows_opened_total{")).unwrap();
    assert!(opened.contains("protocol=\"tcp\",opened_by=\"us\"") && opened.ends_with("} 3"), "{opened}");
    let bytes = metrics.lines().find(|line| line.starts_with("whimbrel_proxy_to_peer_bytes_total{")).unwrap();
    assert!(bytes.ends_with("} 9000000"), "{bytes}");
    pair.near.signal("-TERM");
    assert_eq!(pair.near.end().0, Some(0));
    pair.far.signal("-TERM");
    assert_eq!(pair.far.end().0, Some(0));
}

fn fin_and_rst_are_what_they_are_without_a_proxy(connector: &str) {
    let (pair, listener, port) = open(connector, "proxy-ends");
    // The program ends first, and still gets the answer.
    let server = serve(&listener, count);
    let (mut tcp, _) = pair.socks("127.0.0.1", port);
    tcp.write_all(&payload(1_000_000)).unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&tcp), b"1000000 bytes");
    server.join().unwrap();
    // The server ends first, and still reads.
    let server = serve(&listener, |tcp| {
        (&tcp).write_all(b"bye").unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        read_to_end(&tcp).len()
    });
    let (mut tcp, _) = pair.socks("127.0.0.1", port);
    assert_eq!(read_to_end(&tcp), b"bye");
    tcp.write_all(&payload(1_000_000)).unwrap();
    drop(tcp);
    assert_eq!(server.join().unwrap(), 1_000_000);
    // The server resets.
    let server = serve(&listener, |mut tcp| {
        tcp.read_exact(&mut [0; 2]).unwrap();
        SockRef::from(&tcp).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let (mut tcp, _) = pair.socks("127.0.0.1", port);
    tcp.write_all(b"hi").unwrap();
    assert_eq!(tcp.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    server.join().unwrap();
    // The program resets.
    let (has_read, read) = mpsc::channel();
    let server = serve(&listener, move |mut tcp| {
        tcp.read_exact(&mut [0; 2]).unwrap();
        has_read.send(()).unwrap();
        tcp.read(&mut [0; 9]).unwrap_err().kind()
    });
    let (mut tcp, _) = pair.socks("127.0.0.1", port);
    tcp.write_all(b"hi").unwrap();
    read.recv_timeout(PATIENCE).unwrap();
    SockRef::from(&tcp).set_linger(Some(Duration::ZERO)).unwrap();
    drop(tcp);
    assert_eq!(server.join().unwrap(), ErrorKind::ConnectionReset);
}

fn a_program_is_told_why_there_is_no_connection(connector: &str) {
    // A port that is taken and refuses: one that was set free could be another test's by now.
    let refusing = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    refusing.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = refusing.local_addr().unwrap().as_socket().unwrap().port();
    let pair = pair_over(
        connector,
        "proxy-refused",
        &format!("127.0.0.1:{port}"),
        &format!("127.0.0.1:{port}"),
        "",
        str::to_owned,
    );
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let not_permitted = other.local_addr().unwrap().port();
    // RFC 1928 section 6: 2 is not allowed by ruleset, 4 host unreachable, 5 refused.
    assert_eq!(pair.socks("127.0.0.1", not_permitted).1, 2, "not permitted");
    assert_eq!(pair.socks("no-such-name.invalid", port).1, 4, "no such name");
    assert_eq!(pair.socks("127.0.0.1", port).1, 5, "nobody listens");
    let mut tcp = dial(pair.connect);
    write!(tcp, "CONNECT 127.0.0.1:{not_permitted} HTTP/1.1\r\n\r\n").unwrap();
    let answer = String::from_utf8(read_to_end(&tcp)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("does not let this key"), "{answer}");
    let mut tcp = dial(pair.forward);
    let ended = tcp.read(&mut [0; 9]).map_err(|error| error.kind());
    assert_eq!(ended, Err(ErrorKind::ConnectionReset), "a forward resets what it cannot carry");
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "nobody connected to what is not permitted");
}

/// A listener that answers no SYN any more: its queue is full of the connections that are returned, too.
fn deaf() -> (Socket, Vec<Socket>, SocketAddr) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while queue.len() < 50 {
        let waiting = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let connected = waiting.connect_timeout(&address, Duration::from_millis(300)).is_ok();
        queue.push(waiting);
        if !connected {
            break;
        }
    }
    (listener, queue, address.as_socket().unwrap())
}

fn a_program_that_gives_up_while_it_waits_costs_nothing_more(connector: &str) {
    let (_listener, _queue, address) = deaf();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let permits = format!("{address},127.0.0.1:{port}");
    // Longer than anything takes here, so that no attempt ends by itself.
    let settings = "[limits]\nconnect_timeout = '10min'\n";
    let pair = pair_over(connector, "gives-up", &permits, &address.to_string(), settings, str::to_owned);
    let running = |wanted: u64| {
        let began = Instant::now();
        loop {
            let text = http(pair.metrics);
            let counts = text.lines().filter(|line| line.starts_with("whimbrel_proxy_flows{"));
            let now: u64 = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
            if now == wanted || began.elapsed() > PATIENCE {
                return now;
            }
            thread::sleep(Duration::from_millis(20));
        }
    };
    let mut socks = dial(pair.socks);
    socks.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1]).unwrap();
    socks.write_all(&address.port().to_be_bytes()).unwrap();
    let mut connect = dial(pair.connect);
    write!(connect, "CONNECT {address} HTTP/1.1\r\n\r\n").unwrap();
    let forward = dial(pair.forward);
    assert_eq!(running(3), 3, "all wait for the far end");
    // A program of the forward may end its direction and wait; it gives up by a reset.
    forward.shutdown(Shutdown::Write).unwrap();
    drop((socks, connect));
    assert_eq!(running(1), 1, "the forward still waits");
    SockRef::from(&forward).set_linger(Some(Duration::ZERO)).unwrap();
    drop(forward);
    assert_eq!(running(0), 0);

    // Bytes that nobody reads do not hide a reset.
    let (mut flow, code) = pair.socks("127.0.0.1", port);
    assert_eq!((code, running(1)), (0, 1));
    let (mut server, _) = silent.accept().unwrap();
    flow.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    while flow.write(&[7; 1 << 20]).is_ok() {}
    SockRef::from(&flow).set_linger(Some(Duration::ZERO)).unwrap();
    drop(flow);
    assert_eq!(running(0), 0);
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let error = std::io::copy(&mut server, &mut std::io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Fetches the metrics.
fn http(address: SocketAddr) -> String {
    let mut tcp = dial(address);
    tcp.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    String::from_utf8(read_to_end(&tcp)).unwrap()
}

fn programs_that_do_not_read_hold_back_nobody_else(connector: &str) {
    let (pair, listener, port) = open(connector, "proxy-stalled");
    // Each server writes until nothing more is taken, then waits for its connection to end.
    let (is_stuck, stuck) = mpsc::channel();
    let stalled: Vec<_> = (0..4)
        .map(|_| {
            let is_stuck = is_stuck.clone();
            let server = serve(&listener, move |mut tcp| {
                tcp.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
                while tcp.write_all(&[0; 65_536]).is_ok() {}
                is_stuck.send(()).unwrap();
                drop(tcp.read(&mut [0; 1]));
            });
            (pair.socks("127.0.0.1", port).0, server)
        })
        .collect();
    stalled.iter().for_each(|_| stuck.recv_timeout(PATIENCE).unwrap());
    let server = serve(&listener, count);
    let (mut tcp, _) = pair.socks("127.0.0.1", port);
    tcp.write_all(&payload(2_000_000)).unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&tcp), b"2000000 bytes");
    server.join().unwrap();
    drop(stalled);
}

fn datagrams_go_both_ways_and_a_reply_may_come_from_anywhere(connector: &str) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let third = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let pair =
        pair_over(connector, "proxy-udp", &format!("127.0.0.1:{port}"), "localhost:1", "", str::to_owned);
    let mut tcp = dial(pair.socks);
    tcp.write_all(&[5, 1, 0]).unwrap();
    tcp.read_exact(&mut [0; 2]).unwrap();
    tcp.write_all(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).unwrap();
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[8], reply[9]])));
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [&program, &server] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let head = |port: u16| [&[0, 0, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat();
    let mut buffer = vec![0; 70_000];
    for length in [0, 1, 1_400, 20_000, 60_000] {
        let sent = payload(length);
        program.send_to(&[head(port), sent.clone()].concat(), relay).unwrap();
        let (got, from) = server.recv_from(&mut buffer).unwrap();
        assert!(buffer[..got] == sent, "{length} bytes to the server");
        server.send_to(&sent, from).unwrap();
        let got = program.recv(&mut buffer).unwrap();
        assert!(buffer[..got] == [head(port), sent].concat(), "{length} bytes back");
        // Somebody else answers: endpoint-independent filtering.
        third.send_to(b"from elsewhere", from).unwrap();
        let got = program.recv(&mut buffer).unwrap();
        let wanted = [head(third.local_addr().unwrap().port()), b"from elsewhere".to_vec()].concat();
        assert!(buffer[..got] == wanted);
    }
    // What is not permitted is not sent: what comes next is the first that arrives.
    program.send_to(&[head(third.local_addr().unwrap().port()), b"no".to_vec()].concat(), relay).unwrap();
    program.send_to(&[head(port), b"yes".to_vec()].concat(), relay).unwrap();
    let got = server.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..got], b"yes");
    third.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(third.recv(&mut buffer).is_err(), "the far end sends nowhere that is not permitted");
    // Another program's datagrams are not taken for this one's.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(&[head(port), b"stranger".to_vec()].concat(), relay).unwrap();
    program.send_to(&[head(port), b"last".to_vec()].concat(), relay).unwrap();
    let got = server.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..got], b"last");
}

#[test]
fn a_session_over_tcp_is_dialled_again_refuses_an_heir_and_compresses() {
    let homes = [Home::new("proxy-tcp-near"), Home::new("proxy-tcp-far")];
    assert!(whimbrel(&homes[0]).args(["key", "new"]).output().unwrap().status.success());
    let shown = whimbrel(&homes[0]).args(["key", "show"]).output().unwrap();
    let key = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let file = homes[1].file("far.toml");
    let far = |address: &str| {
        let text = format!(
            "[listen]\naddress = '{address}'\nconnector = 'tcp'\n[[peer]]\nkey = '{key}'\nmay_open = ['127.0.0.1:{port}']\n"
        );
        std::fs::write(&file, text).unwrap();
        let far = Running::listening(whimbrel(&homes[1]).args(["proxy", "run", "--config"]).arg(&file));
        if !far.listening.starts_with("whimbrel+tcp://") {
            panic!("the far proxy does not listen over TCP: {:?}", far.end());
        }
        far
    };
    let first = far("127.0.0.1:0");
    let control = homes[0].file("near.sock").display().to_string();
    let near_file = homes[0].file("near.toml");
    let text = format!(
        "[in]\nsocks = '127.0.0.1:0'\n[service]\ncontrol = '{control}'\nmetrics = '127.0.0.1:0'\n[[peer]]\nname = 'far'\nurl = '{}'\n[[rule]]\nname = 'all'\ncompression = 'zstd:3'\n",
        first.listening
    );
    std::fs::write(&near_file, text).unwrap();
    let (near, said) = Running::saying(
        whimbrel(&homes[0]).args(["proxy", "run", "--config"]).arg(&near_file),
        "connected to ",
    );
    let socks = said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap().parse().unwrap();
    let exchange = || {
        let serving = serve(&server, count);
        let mut tcp = dial(socks);
        let head = [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat();
        tcp.write_all(&head).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3], 0);
        tcp.write_all(&b"<event uid='one'/>".repeat(10_000)).unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&tcp), b"180000 bytes");
        serving.join().unwrap();
    };
    let status = || {
        let shown = whimbrel(&homes[0]).args(["status", &control, "--json"]).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&shown.stdout).unwrap()["more"].clone()
    };
    exchange();
    let metrics = said.iter().find_map(|line| line.strip_prefix("metrics on http://")).unwrap();
    let text = http(metrics.trim_end_matches("/metrics").parse().unwrap());
    let link =
        text.lines().find(|line| line.starts_with("whimbrel_proxy_to_peer_link_bytes_total{")).unwrap();
    let link: u64 = link.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(link > 0 && link < 18_000, "180,000 bytes were {link} on the link");
    // Nobody takes over; this one goes on.
    let heir = whimbrel(&homes[0])
        .args(["proxy", "run", "--socks", "127.0.0.1:0", "--control", &control, "--replace", "--peer"])
        .arg(first.listening.replace("whimbrel+tcp", "whimbrel"))
        .output()
        .unwrap();
    assert_fails(&heir, "nothing was taken over");
    exchange();
    // The far end comes again at the same address.
    let address = first.listening.split_once('@').unwrap().1.to_owned();
    first.signal("-KILL");
    drop(first);
    let _second = far(&address);
    let began = Instant::now();
    while status()["peers"][0]["state"] != "connected" {
        assert!(began.elapsed() < PATIENCE, "{}", status());
        thread::sleep(Duration::from_millis(20));
    }
    exchange();
    near.signal("-TERM");
    let (code, _, errors) = near.end();
    assert!(code == Some(0) && errors.contains("a session over TCP cannot be replaced"), "{errors}");
}

#[test]
fn flows_wait_through_an_outage_and_lose_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let home = Home::new("proxy-outage-link");
    let mut link = None;
    let between = |url: &str| {
        let (key, to) = url.strip_prefix("whimbrel://").unwrap().split_once('@').unwrap();
        let running = Running::listening(whimbrel(&home).args([
            "link",
            "--listen",
            "127.0.0.1:0",
            "--to",
            to,
            "--delay",
            "5ms",
            "--rate",
            "20mbit",
            "--outage",
            // One in any eight seconds, however long it takes until the flow is open.
            "2s/3s",
        ]));
        let url = format!("whimbrel://{key}@{}", running.listening);
        link = Some(running);
        url
    };
    let pair = pair("proxy-outage", &format!("127.0.0.1:{port}"), "localhost:1", between);
    let server = serve(&listener, |mut tcp| {
        let mut numbers = Vec::new();
        let mut number = [0; 4];
        while tcp.read_exact(&mut number).is_ok() {
            numbers.push((u32::from_be_bytes(number), Instant::now()));
        }
        numbers
    });
    let (mut tcp, code) = pair.socks("127.0.0.1", port);
    assert_eq!(code, 0);
    for number in 0..160_u32 {
        tcp.write_all(&number.to_be_bytes()).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    drop(tcp);
    let numbers = server.join().unwrap();
    assert!(numbers.iter().map(|(number, _)| *number).eq(0..160), "every byte, in order, once");
    let longest = numbers.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap();
    assert!(longest > Duration::from_secs(2), "there was an outage: {longest:?}");
    drop(link);
}

#[test]
fn a_wrong_command_line_is_one_sentence() {
    let home = Home::new("proxy-wrong");
    let key = "9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0";
    let url = format!("whimbrel://{key}@127.0.0.1:9");
    let over_tcp = format!("whimbrel+tcp://{key}@127.0.0.1:9");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_address = taken.local_addr().unwrap().to_string();
    for (arguments, hint, code) in [
        (&[][..], "the proxy would do nothing", 2),
        (&["--socks", "127.0.0.1:0"], "there is no peer to carry connections to", 2),
        (&["--socks", "0.0.0.0:0", "--peer", &url], "is open to other hosts", 2),
        (&["--socks", "127.0.0.1:0", "--peer", "whimbrel://127.0.0.1:9"], "has no key", 2),
        (&["--listen", "127.0.0.1:0", "--allow", key], "write KEY=NETWORK:PORTS", 2),
        (
            &["--listen", "127.0.0.1:0", "--allow", &format!("{key}=10.0.0.0/40:1")],
            "does not name targets",
            2,
        ),
        (&["--socks", &taken_address, "--peer", &url], "another program has that port", 1),
        (&["--config", "/no/such/file"], "/no/such/file", 2),
        (&["--connector", "tcp"], "--listen", 2),
        (&["--listen", "127.0.0.1:0", "--connector", "tpc"], "is no connector", 2),
        (&["--listen", &taken_address, "--connector", "tcp"], "another program has that port", 1),
        (
            &["--socks", "127.0.0.1:0", "--peer", &over_tcp, "--replace"],
            "a session over TCP cannot be replaced",
            2,
        ),
    ] {
        let output = whimbrel(&home).args(["proxy", "run"]).args(arguments).output().unwrap();
        assert_fails(&output, hint);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_file_is_checked_and_read_again() {
    let home = Home::new("proxy-file");
    let (file, control) = (home.file("proxy.toml"), home.file("p.sock"));
    let key = "9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0";
    let text = |permit: &str| {
        format!(
            "[listen]\naddress = '127.0.0.1:0'\n[service]\ncontrol = '{}'\n[[peer]]\nkey = '{key}'\nmay_open = ['{permit}']\n",
            control.display()
        )
    };
    std::fs::write(&file, text("10.0.0.0/40:1")).unwrap();
    let path = file.display().to_string();
    let check = || whimbrel(&home).args(["proxy", "check", &path]).output().unwrap();
    assert_fails(&check(), "proxy.toml:7:");
    std::fs::write(&file, text("10.0.0.0/8:1")).unwrap();
    assert!(check().status.success());
    let running = Running::listening(whimbrel(&home).args(["proxy", "run", "--config", &path]));
    std::fs::write(&file, text("10.0.0.0/8:2")).unwrap();
    let control = control.display().to_string();
    let said = whimbrel(&home).args(["reload", &control]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("may open something else"), "{said}");
    running.signal("-TERM");
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn rules_decide_and_are_read_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let home = Home::new("proxy-rules");
    let (file, control) = (home.file("proxy.toml"), home.file("p.sock"));
    // Nobody answers at this peer: what is carried goes nowhere.
    let url = "whimbrel://9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0@127.0.0.1:9";
    let write = |rules: &str| {
        let text = format!(
            "[in]\nsocks = '127.0.0.1:0'\n[service]\ncontrol = '{}'\n[[peer]]\nname = 'far'\nurl = '{url}'\n{rules}",
            control.display()
        );
        std::fs::write(&file, text).unwrap();
    };
    let direct =
        format!("[[rule]]\nname = 'here'\nprotocol = 'tcp'\nto = ['localhost:{port}']\naction = 'direct'\n");
    write(&direct);
    let path = file.display().to_string();
    let (running, said) =
        Running::saying(whimbrel(&home).args(["proxy", "run", "--config", &path]), "not connected to far: ");
    let socks = said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap().parse().unwrap();
    let ask = |name: &str| {
        let mut tcp = dial(socks);
        let head =
            [&[5, 1, 0, 5, 1, 0, 3, name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()].concat();
        tcp.write_all(&head).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        (tcp, reply[3])
    };
    let serving = serve(&server, count);
    let (mut tcp, code) = ask("localhost");
    assert_eq!(code, 0, "connected by the proxy itself");
    tcp.write_all(b"five!").unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&tcp), b"5 bytes");
    serving.join().unwrap();
    // Another file: the same flow is rejected now.
    write("[[rule]]\nname = 'no'\naction = 'reject'\n");
    let said = whimbrel(&home).args(["reload", &control.display().to_string()]).output().unwrap();
    assert!(String::from_utf8(said.stdout).unwrap().contains("rules changed"));
    assert_eq!(ask("localhost").1, 2, "not allowed by ruleset");
    let explained = |arguments: &[&str]| {
        let output =
            whimbrel(&home).args(["proxy", "explain", "--config", &path]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(explained(&["tcp", "a.b:1"]), "rejected: rule 1, `no`, is the first that matches\n");
    write(&direct);
    assert_eq!(explained(&["udp", "a.b:1"]), "carried to far: no rule matches\n");
    running.signal("-TERM");
    assert_eq!(running.end().0, Some(0));
}

fn a_killed_proxy_resets_what_it_carried(connector: &str) {
    let (pair, listener, port) = open(connector, "proxy-killed");
    let server = serve(&listener, |mut tcp| while tcp.write_all(&[7; 1_000]).is_ok() {});
    let (mut tcp, _) = pair.socks("127.0.0.1", port);
    tcp.read_exact(&mut [0; 5_000]).unwrap();
    pair.near.signal("-KILL");
    let ended = loop {
        match tcp.read(&mut [0; 65_536]) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(ended, Some(ErrorKind::ConnectionReset), "a part does not look like the whole");
    drop(pair);
    server.join().unwrap();
}

#[test]
fn a_proxy_refuses_to_be_its_own_target() {
    let homes = [Home::new("loop-near"), Home::new("loop-far")];
    assert!(whimbrel(&homes[0]).args(["key", "new"]).output().unwrap().status.success());
    let key = whimbrel(&homes[0]).args(["key", "show"]).output().unwrap().stdout;
    let allow = format!("{}=127.0.0.1/32:*", String::from_utf8(key).unwrap().trim());
    let activity = homes[1].file("activity").display().to_string();
    // A port that is free, as far as anybody knows.
    let socks = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let far = Running::listening(whimbrel(&homes[1]).args([
        "proxy",
        "run",
        "--listen",
        "127.0.0.1:0",
        "--allow",
        &allow,
        "--socks",
        &socks.to_string(),
        "--activity",
        &activity,
    ]));
    let own: SocketAddr = far.listening.rsplit('@').next().unwrap().parse().unwrap();
    let (_near, said) = Running::saying(
        whimbrel(&homes[0]).args([
            "proxy",
            "run",
            "--peer",
            &far.listening,
            "--connect",
            "127.0.0.1:0",
            "--socks",
            "127.0.0.1:0",
        ]),
        "connected to ",
    );
    let port = |begin: &str| -> SocketAddr {
        said.iter().find_map(|line| line.strip_prefix(begin)).unwrap().parse().unwrap()
    };
    let ask = |target: SocketAddr| {
        let mut tcp = dial(port("HTTP CONNECT on "));
        tcp.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let mut head = [0; 12];
        tcp.read_exact(&mut head).unwrap();
        String::from_utf8(head.to_vec()).unwrap()
    };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(ask(other.local_addr().unwrap()), "HTTP/1.1 200");
    assert_eq!(ask(socks), "HTTP/1.1 403", "its SOCKS5");
    // The session's own port, over UDP: a session within the session.
    let mut association = dial(port("SOCKS5 on "));
    association.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 12];
    association.read_exact(&mut reply).unwrap();
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    program.connect(("127.0.0.1", u16::from_be_bytes([reply[10], reply[11]]))).unwrap();
    let datagram = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &own.port().to_be_bytes(), b"hello"].concat();
    let begin = Instant::now();
    loop {
        program.send(&datagram).unwrap();
        let log = std::fs::read_to_string(&activity).unwrap_or_default();
        let has = |part: &str| log.lines().any(|line| line.contains("loop refused") && line.contains(part));
        if has(&format!("\"target\":\"{socks}\"")) && has(&format!("\"target\":\"{own}\"")) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{log}");
        thread::sleep(Duration::from_millis(50));
    }
}
