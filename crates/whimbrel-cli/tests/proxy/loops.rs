//! Flows whose target is a proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{Home, Running, whimbrel};
use super::programs::{PATIENCE, dial};

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
