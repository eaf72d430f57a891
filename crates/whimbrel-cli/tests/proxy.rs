//! Tests of `whimbrel proxy`: programs, two proxies, and servers behind the far one, all real.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "proxy/files.rs"]
mod files;
#[path = "proxy/loops.rs"]
mod loops;
#[path = "proxy/pair.rs"]
mod pair;
#[path = "proxy/programs.rs"]
mod programs;
#[path = "proxy/tcp_connector.rs"]
mod tcp_connector;
#[path = "proxy/waiting.rs"]
mod waiting;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Home, Running, whimbrel};
use pair::{open, pair, pair_over};
use programs::{PATIENCE, count, dial, payload, read_to_end, serve};
use socket2::SockRef;
use waiting::{
    a_program_is_told_why_there_is_no_connection, a_program_that_gives_up_while_it_waits_costs_nothing_more,
    programs_that_do_not_read_hold_back_nobody_else,
};

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
