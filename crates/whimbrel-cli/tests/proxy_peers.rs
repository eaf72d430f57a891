//! Peers of a proxy that are added, altered and taken out while it runs, and what the file says of each: `mode`, `paths`,
//! `gather`. All processes are on one machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use common::{Home, Running, whimbrel};
use serde_json::Value;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for a dialler that should not dial to have done so: the first pauses are under a second.
const QUIET: Duration = Duration::from_secs(3);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A folder with a key.
fn home(name: &str) -> (Home, String) {
    let home = Home::new(&format!("peers-{name}"));
    assert!(whimbrel(&home).args(["key", "new"]).output().unwrap().status.success());
    let key = whimbrel(&home).args(["key", "show"]).output().unwrap().stdout;
    (home, String::from_utf8(key).unwrap().trim().to_owned())
}

/// A proxy that reads its file again.
struct Proxy {
    running: Running,
    home: Home,
    said: Vec<String>,
}

impl Proxy {
    /// Starts one with this file, until it says what begins so, or listens.
    fn start(home: Home, text: &str, until: Option<&str>) -> Self {
        write(&home, text);
        let mut command = whimbrel(&home);
        command.args(["proxy", "run", "--config"]).arg(home.file("proxy.toml"));
        let (running, said) = match until {
            Some(until) => Running::saying(&mut command, until),
            None => (Running::listening(&mut command), Vec::new()),
        };
        if until.is_none() && running.listening.is_empty() {
            panic!("it does not listen: {:?}", running.end());
        }
        Self { running, home, said }
    }

    /// A far proxy that the key may use.
    fn far(name: &str, key: &str, more: &str) -> Self {
        let text = format!(
            "[listen]\naddress = '127.0.0.1:0'\n[[peer]]\nkey = '{key}'\nmay_open = ['127.0.0.0/8:*']\n{more}\n"
        );
        Self::start(home(name).0, &text, None)
    }

    /// Has it read this file. Returns what it says.
    fn reload(&self, text: &str) -> String {
        write(&self.home, text);
        let control = self.home.file("control");
        let output = whimbrel(&self.home).arg("reload").arg(control).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self) -> Value {
        let mut status = whimbrel(&self.home);
        let output =
            status.args(["proxy", "status", "--json"]).arg(self.home.file("control")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// The state of a peer. None: it is none.
    fn state(&self, peer: &str) -> Option<String> {
        let status = self.status();
        let peers = status["more"]["peers"].as_array().unwrap();
        let peer = peers.iter().find(|known| known["name"] == peer)?;
        Some(peer["state"].as_str().unwrap().to_owned())
    }

    /// The peers that flows go to.
    fn flows(&self) -> Vec<String> {
        let status = self.status();
        let flows = status["more"]["flows"]["list"].as_array().unwrap();
        let mut peers: Vec<_> = flows.iter().map(|flow| flow["peer"].as_str().unwrap().to_owned()).collect();
        peers.sort();
        peers
    }

    fn sessions(&self) -> usize {
        self.status()["sessions"].as_array().unwrap().len()
    }

    /// A connection by SOCKS5 to a server, and its code.
    fn socks(&self, to: SocketAddr) -> (TcpStream, u8) {
        let address = self.said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap();
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let SocketAddr::V4(to) = to else { panic!("{to}") };
        let asks = [&[5, 1, 0, 5, 1, 0, 1][..], &to.ip().octets(), &to.port().to_be_bytes()].concat();
        tcp.write_all(&asks).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        (tcp, reply[3])
    }
}

fn write(home: &Home, text: &str) {
    let control = home.file("control");
    let text = format!("{text}\n[service]\ncontrol = '{}'\n", control.display());
    std::fs::write(home.file("proxy.toml"), text).unwrap();
}

/// A program and a server that are connected through a proxy.
fn connected(near: &Proxy, server: &TcpListener) -> (TcpStream, TcpStream) {
    let (program, code) = near.socks(server.local_addr().unwrap());
    assert_eq!(code, 0);
    let (accepted, _) = server.accept().unwrap();
    accepted.set_read_timeout(Some(PATIENCE)).unwrap();
    (program, accepted)
}

fn talk((program, server): &mut (TcpStream, TcpStream)) {
    for (from, to) in [(&*program, &*server), (&*server, &*program)] {
        let (mut from, mut to, mut read) = (from, to, [0; 8]);
        from.write_all(b"question").unwrap();
        to.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"question");
    }
}

fn assert_reset((program, server): &mut (TcpStream, TcpStream)) {
    for end in [program, server] {
        assert_eq!(end.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn peers_come_and_go_and_disturb_no_flow_of_others() {
    let (near, key) = home("reload-near");
    let fars = ["one", "two"].map(|name| Proxy::far(&format!("reload-{name}"), &key, ""));
    let servers = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |at: usize| servers[at].local_addr().unwrap().port();
    let peer = |at: usize, name: &str| {
        format!("[[peer]]\nname = '{name}'\nurl = '{}'\n", fars[at].running.listening)
    };
    let rule = |at: usize, name: &str| {
        format!("[[rule]]\nname = 'to-{name}'\nto = ['*:{}']\npeer = '{name}'\n", port(at))
    };
    let file = |parts: &[String]| format!("[in]\nsocks = '127.0.0.1:0'\n{}", parts.concat());
    let (one, two) = (peer(0, "one"), peer(1, "two"));
    let near = Proxy::start(near, &file(std::slice::from_ref(&one)), Some("connected to "));
    let mut first = connected(&near, &servers[0]);
    // A peer that a rule needs comes with it.
    let said = near.reload(&file(&[one, two.clone(), rule(0, "one"), rule(1, "two")]));
    assert!(said.contains("two is a peer now") && said.contains("rules changed"), "{said}");
    until("two is dialled", || near.state("two").as_deref() == Some("connected"));
    let mut second = connected(&near, &servers[1]);
    assert_eq!(near.flows(), ["one", "two"]);
    talk(&mut first);
    talk(&mut second);
    // The first goes, and with it its flow. What it served goes elsewhere.
    let said = near.reload(&file(&[two, rule(1, "two")]));
    assert!(said.contains("one is no longer a peer") && said.contains("its sessions ended: 1"), "{said}");
    assert_reset(&mut first);
    talk(&mut second);
    assert_eq!((near.state("one"), near.flows()), (None, vec!["two".to_owned()]));
    let mut third = connected(&near, &servers[0]);
    assert_eq!(near.flows(), ["two", "two"]);
    talk(&mut third);
    // Another far end takes over its name.
    let said = near.reload(&file(&[peer(0, "two")]));
    assert!(said.contains("two is a peer now") && said.contains("two is no longer a peer"), "{said}");
    assert_reset(&mut second);
    assert_reset(&mut third);
    until("it is dialled", || near.state("two").as_deref() == Some("connected"));
    talk(&mut connected(&near, &servers[1]));
    assert!(near.reload(&file(&[peer(0, "two")])).contains("nothing has changed"));
}

#[test]
fn a_flow_that_waits_for_a_peer_that_is_taken_out_goes_to_another() {
    let (near, key) = home("waits-near");
    let far = Proxy::far("waits-far", &key, "");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = "[[peer]]\nname = 'nobody'\nurl = 'whimbrel://9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0@127.0.0.1:9'\n";
    let file = |peers: &str| format!("[in]\nsocks = '127.0.0.1:0'\n{peers}");
    let peer = format!("[[peer]]\nname = 'far'\nurl = '{}'\n", far.running.listening);
    let near = Proxy::start(near, &file(nobody), Some("not connected to nobody"));
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| near.socks(server.local_addr().unwrap()));
        until("it waits", || near.flows() == ["nobody"]);
        near.reload(&file(&peer));
        waiting.join().unwrap()
    });
    assert_eq!(waiting.1, 0);
    assert_eq!(near.flows(), ["far"]);
}

#[test]
fn a_peer_that_moves_keeps_its_flows_and_gets_new_ones_at_its_new_address() {
    let (near, key) = home("moves-near");
    let far = Proxy::far("moves-far", &key, "");
    let to = far.running.listening.split('@').nth(1).unwrap().to_owned();
    let link = |home: &Home| {
        Running::listening(whimbrel(home).args(["link", "--listen", "127.0.0.1:0", "--to", &to]))
    };
    let old = link(&near);
    let file = |at: &str| {
        let url = far.running.listening.replace(&to, at);
        format!("[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nname = 'far'\nurl = '{url}'\n")
    };
    let at =
        |link: &Running| link.listening.split_whitespace().next().unwrap().trim_end_matches(',').to_owned();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = Proxy::start(near, &file(&at(&old)), Some("connected to "));
    let mut before = connected(&near, &server);
    let new = link(&near.home);
    let said = near.reload(&file(&at(&new)));
    assert!(said.contains("far: url changed"), "{said}");
    until("a second session is there", || near.sessions() == 2);
    talk(&mut before);
    let mut after = connected(&near, &server);
    talk(&mut after);
    // The former session ends with its last flow, and nobody goes that way any more.
    drop(before);
    until("the former session ends", || near.sessions() == 1);
    drop(old);
    talk(&mut after);
    talk(&mut connected(&near, &server));
}

#[test]
fn a_mode_says_who_begins_and_may_change() {
    let (near, near_key) = home("mode-near");
    let (far, far_key) = home("mode-far");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    // Both listen, and each could dial the other.
    let file = |key: &str, port: u16, mode: &str, socks: &str| {
        format!(
            "{socks}[listen]\naddress = '127.0.0.1:0'\n\
             [[peer]]\nname = 'other'\nurl = 'whimbrel://{key}@127.0.0.1:{port}'\nmode = '{mode}'\nmay_open = ['127.0.0.0/8:*']\n"
        )
    };
    let far = Proxy::start(far, &file(&near_key, 9, "passive", ""), None);
    let port: u16 = far.running.listening.rsplit(':').next().unwrap().parse().unwrap();
    let socks = "[in]\nsocks = '127.0.0.1:0'\n";
    let of_near = |mode: &str| file(&far_key, port, mode, socks);
    let near = Proxy::start(near, &of_near("passive"), Some("SOCKS5 on "));
    // Each waits for the other.
    thread::sleep(QUIET);
    assert_eq!((near.sessions(), far.sessions()), (0, 0));
    let said = near.reload(&of_near("active"));
    assert!(said.contains("other: mode changed"), "{said}");
    until("it dials", || near.state("other").as_deref() == Some("connected"));
    let mut flow = connected(&near, &server);
    talk(&mut flow);
    // Who is active does not let the other in: the far end dials, and gets no session.
    let near_port = near.status()["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    far.reload(&file(&near_key, near_port, "both", ""));
    thread::sleep(QUIET);
    assert_eq!(near.sessions(), 1, "{}", near.status());
    // With both, either end may begin, and both do. The flow has noticed nothing of all that.
    near.reload(&of_near("both"));
    until("the far end has come", || near.sessions() == 2);
    talk(&mut flow);
    // Without dialling, the session that the far end has begun is enough, and the other ends with its flow.
    near.reload(&of_near("passive"));
    talk(&mut flow);
    drop(flow);
    until("the session that was dialled ends", || near.sessions() == 1);
    talk(&mut connected(&near, &server));
}

/// The addresses of this host from which a proxy talks to its peer.
fn locals(proxy: &Proxy) -> Vec<String> {
    let status = proxy.status();
    let sessions = status["sessions"].as_array().unwrap().iter();
    let paths = sessions.flat_map(|session| session["paths"].as_array().unwrap());
    let active = paths.filter(|path| path["state"] == "active" || path["state"] == "standby");
    let mut locals: Vec<_> = active.map(|path| path["local"].as_str().unwrap().to_owned()).collect();
    locals.sort();
    locals
}

#[test]
fn paths_of_a_peer_are_used_and_may_change() {
    let (near, key) = home("paths-near");
    let far = Proxy::far("paths-far", &key, "");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = |paths: &str| {
        let url = &far.running.listening;
        format!("[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nname = 'far'\nurl = '{url}'\n{paths}\n")
    };
    let both = "paths = ['127.0.0.1,prefer', '127.0.0.2']";
    let near = Proxy::start(near, &file(both), Some("connected to "));
    let mut flow = connected(&near, &server);
    until("both are used", || locals(&near) == ["127.0.0.1", "127.0.0.2"]);
    talk(&mut flow);
    let said = near.reload(&file("paths = ['127.0.0.3']"));
    assert!(said.contains("far: paths changed"), "{said}");
    until("only the new one is", || locals(&near) == ["127.0.0.3"]);
    talk(&mut flow);
    near.reload(&file(both));
    until("both are again", || locals(&near) == ["127.0.0.1", "127.0.0.2"]);
    near.reload(&file(""));
    talk(&mut flow);
}

#[test]
fn small_datagrams_travel_together_to_a_real_peer() {
    const EACH: usize = 20;
    let (near, key) = home("gather-near");
    let far = Proxy::far("gather-far", &key, "");
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let file = |gather: &str| {
        let url = &far.running.listening;
        format!(
            "[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nname = 'far'\nurl = '{url}'\n[[rule]]\nname = 'all'\nprotocol = 'udp'\n{gather}\n"
        )
    };
    let near = Proxy::start(near, &file(""), Some("connected to "));
    // A UDP association, whose connection stays open.
    let address = near.said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap();
    let mut association = TcpStream::connect(address).unwrap();
    association.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 12];
    association.read_exact(&mut reply).unwrap();
    assert_eq!(reply[3], 0);
    let relay = SocketAddr::from((
        [reply[6], reply[7], reply[8], reply[9]],
        u16::from_be_bytes([reply[10], reply[11]]),
    ));
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    let head = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &server.local_addr().unwrap().port().to_be_bytes()].concat();
    let messages = || {
        let status = near.status();
        status["sessions"][0]["sent_messages"].as_u64().unwrap()
    };
    // Sends some at once, until all of a round have arrived. Returns how many messages that took.
    let round = || {
        for _ in 0..20 {
            let before = messages();
            for at in 0..EACH {
                program.send_to(&[&head[..], &[at as u8; 10]].concat(), relay).unwrap();
            }
            server.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let arrived = (0..EACH).filter(|_| server.recv_from(&mut [0; 100]).is_ok()).count();
            if arrived == EACH {
                return messages() - before;
            }
        }
        panic!("datagrams are lost on loopback");
    };
    // The first round announces its context.
    round();
    assert_eq!(round(), EACH as u64);
    near.reload(&file("gather = '50ms'"));
    round();
    let gathered = round();
    assert!(gathered <= EACH as u64 / 4, "{gathered} messages for {EACH} datagrams");
}
