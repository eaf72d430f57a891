//! A near and a far proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::common::{Home, Running, whimbrel};
use super::programs::dial;

/// A near and a far proxy.
pub(crate) struct Pair {
    pub(crate) near: Running,
    pub(crate) far: Running,
    pub(crate) socks: SocketAddr,
    pub(crate) connect: SocketAddr,
    pub(crate) forward: SocketAddr,
    pub(crate) control: String,
    pub(crate) metrics: SocketAddr,
    /// The folders last: they are deleted when nothing runs in them any more.
    _homes: [Home; 2],
}

/// Starts two proxies. The near one may open `permits` from the far one. `between` may put something between them.
pub(crate) fn pair(name: &str, permits: &str, forward: &str, between: impl FnOnce(&str) -> String) -> Pair {
    pair_over("whimbrel", name, permits, forward, "", between)
}

/// Starts two proxies as [`pair`] does, with this connector and these settings of the far one.
pub(crate) fn pair_over(
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
    pub(crate) fn socks(&self, host: &str, port: u16) -> (TcpStream, u8) {
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

/// Starts two proxies, and a server that the near one may reach.
pub(crate) fn open(connector: &str, name: &str) -> (Pair, TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let permits = format!("127.0.0.1:{port},localhost:{port}");
    let pair = pair_over(connector, name, &permits, &format!("127.0.0.1:{port}"), "", str::to_owned);
    (pair, listener, port)
}
