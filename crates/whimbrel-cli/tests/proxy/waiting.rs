//! Flows that do not come about, and programs that wait or make others wait.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::pair::{open, pair_over};
use super::programs::{PATIENCE, count, deaf, dial, http, payload, read_to_end, serve};

pub(crate) fn a_program_is_told_why_there_is_no_connection(connector: &str) {
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
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("does not allow this key"), "{answer}");
    let mut tcp = dial(pair.forward);
    let ended = tcp.read(&mut [0; 9]).map_err(|error| error.kind());
    assert_eq!(ended, Err(ErrorKind::ConnectionReset), "a forward resets what it cannot carry");
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "nobody connected to what is not permitted");
}

pub(crate) fn a_program_that_gives_up_while_it_waits_costs_nothing_more(connector: &str) {
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

pub(crate) fn programs_that_do_not_read_hold_back_nobody_else(connector: &str) {
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
