//! Tests of `whimbrel proxy run --replace`: a process takes over from another, and no flow ends.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{Home, Running, assert_fails, whimbrel};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy, and how it is started.
struct Proxy {
    home: Home,
    arguments: Vec<String>,
    running: Running,
    said: Vec<String>,
}

impl Proxy {
    fn start(home: Home, arguments: &[&str], until: Option<&'static str>) -> Self {
        let control = home.file("control").display().to_string();
        let more = ["--control", &control];
        let arguments: Vec<String> =
            ["proxy", "run"].iter().chain(arguments).chain(&more).map(|text| (*text).to_owned()).collect();
        let (running, said) = begin(whimbrel(&home).args(&arguments), until);
        Self { home, arguments, running, said }
    }

    /// Starts another process that takes over. The former one must end well.
    fn replace(&mut self, until: Option<&'static str>) {
        let (running, said) = begin(whimbrel(&self.home).args(&self.arguments).arg("--replace"), until);
        let former = std::mem::replace(&mut self.running, running);
        let (code, _, errors) = former.end();
        assert_eq!(code, Some(0), "{errors}");
        assert!(!errors.contains("was lost"), "{errors}");
        eprintln!("{errors}");
        self.said = said;
    }

    /// The compression of each flow, as the status shows it.
    fn compressions(&self) -> Vec<Option<String>> {
        let control = self.home.file("control").display().to_string();
        let status = whimbrel(&self.home).args(["status", &control, "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let flows = status["more"]["flows"]["list"].as_array().unwrap();
        flows.iter().map(|flow| flow["compression"].as_str().map(str::to_owned)).collect()
    }

    fn address(&self, begin: &str) -> SocketAddr {
        self.said.iter().find_map(|line| line.strip_prefix(begin)).unwrap().parse().unwrap()
    }
}

/// Starts a command, until it says on standard error what begins so, or where it listens.
fn begin(command: &mut Command, until: Option<&str>) -> (Running, Vec<String>) {
    match until {
        Some(until) => Running::saying(command, until),
        None => {
            let running = Running::listening(command);
            let said = vec![running.listening.clone()];
            (running, said)
        }
    }
}

fn key(home: &Home) -> String {
    assert!(whimbrel(home).args(["key", "new"]).output().unwrap().status.success());
    String::from_utf8(whimbrel(home).args(["key", "show"]).output().unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

fn connect(address: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

/// Sends numbers in both directions, each side as fast as the other lets it, until both have had enough.
const COUNT: u32 = 2_000_000;

/// The numbers that a program sends and another reads only in the end: more than sockets hold.
const UNREAD: u32 = 500_000;

fn numbers(numbers: std::ops::Range<u32>) -> Vec<u8> {
    numbers.flat_map(u32::to_be_bytes).collect()
}

fn send(mut tcp: &TcpStream, pace: Duration) {
    for part in 0..COUNT / 20_000 {
        tcp.write_all(&numbers(part * 20_000..(part + 1) * 20_000)).unwrap();
        thread::sleep(pace);
    }
    tcp.shutdown(Shutdown::Write).unwrap();
}

fn receive(mut tcp: &TcpStream) {
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).unwrap();
    let numbers = bytes.chunks(4).map(|number| u32::from_be_bytes(number.try_into().unwrap()));
    assert!(numbers.eq(0..COUNT), "every byte, in order, once");
}

#[test]
fn no_flow_ends_when_either_proxy_is_replaced() {
    flows_go_on("replace", None);
}

#[test]
fn no_compressed_flow_ends_when_either_proxy_is_replaced() {
    for method in ["zstd", "zlib", "xz"] {
        flows_go_on(&format!("replace-{method}"), Some(method));
    }
}

/// Replaces proxies with a busy flow, an idle one, and one whose program reads only afterwards.
fn flows_go_on(name: &str, compression: Option<&str>) {
    let homes = ["near", "far"].map(|end| Home::new(&format!("{name}-{end}")));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let serving = thread::spawn(move || {
        // Each says who it is, since either may come first.
        let mut named = [None, None, None];
        for _ in 0..3 {
            let (mut tcp, _) = server.accept().unwrap();
            let mut name = [0];
            tcp.read_exact(&mut name).unwrap();
            named[usize::from(name[0])] = Some(tcp);
        }
        let [busy, mut idle, mut unread] = named.map(Option::unwrap);
        idle.write_all(b"greeting").unwrap();
        unread.write_all(&numbers(0..UNREAD)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| send(&busy, Duration::from_millis(50)));
            receive(&busy);
        });
        let (mut later, _) = server.accept().unwrap();
        later.read_exact(&mut [0]).unwrap();
        (idle, later)
    });
    let [near, far] = homes;
    let allow = format!("{}={target}", key(&near));
    let mut far = Proxy::start(far, &["--listen", "127.0.0.1:0", "--allow", &allow], None);
    let url = far.said[0].clone();
    let forward = format!("0={target}");
    let mut arguments = vec!["--peer", &url, "--forward", &forward];
    let file = near.file("rules.toml");
    let text = compression.map(|method| format!("[[rule]]\nname = 'small'\ncompression = '{method}'\n"));
    std::fs::write(&file, text.unwrap_or_default()).unwrap();
    let config = file.display().to_string();
    arguments.extend(["--config", &config]);
    let mut near = Proxy::start(near, &arguments, Some("connected to "));
    let address = near.address("a forward on ");
    let named = |name: u8| {
        let mut tcp = connect(address);
        tcp.write_all(&[name]).unwrap();
        tcp
    };
    let (busy, mut idle, mut unread) = (named(0), named(1), named(2));
    let mut greeting = [0; 8];
    idle.read_exact(&mut greeting).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| send(&busy, Duration::from_millis(50)));
        scope.spawn(|| receive(&busy));
        thread::sleep(Duration::from_millis(500));
        near.replace(Some("a forward on "));
        assert_eq!(near.address("a forward on "), address);
        thread::sleep(Duration::from_millis(500));
        far.replace(None);
        assert_eq!(far.said[0], url);
        thread::sleep(Duration::from_millis(500));
        // Once more, with a flow that came later.
        near.replace(Some("a forward on "));
    });
    for compressed in [near.compressions(), far.compressions()] {
        assert!(compressed.len() >= 2, "{compressed:?}");
        let is_right = |shown: &Option<String>| match (shown, compression) {
            (Some(shown), Some(method)) => shown.starts_with(method),
            (shown, method) => shown.is_none() && method.is_none(),
        };
        assert!(compressed.iter().all(is_right), "{compressed:?}");
    }
    let mut later = named(3);
    let (idle_server, later_server) = serving.join().unwrap();
    let mut read = vec![0; UNREAD as usize * 4];
    unread.read_exact(&mut read).unwrap();
    assert!(read == numbers(0..UNREAD), "what was not read before is there");
    for (program, mut server) in [(&mut idle, idle_server), (&mut later, later_server)] {
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        program.write_all(b"question").unwrap();
        let mut read = [0; 8];
        server.read_exact(&mut read).unwrap();
        server.write_all(&read).unwrap();
        program.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"question");
    }
}

/// A near and a far proxy with one forward to this server, and `more` in the near one's file.
fn pair(name: &str, server: &TcpListener, more: &str) -> (Proxy, Proxy) {
    let [near, far] = ["near", "far"].map(|end| Home::new(&format!("{name}-{end}")));
    let target = server.local_addr().unwrap();
    let allow = format!("{}={target}", key(&near));
    let far = Proxy::start(far, &["--listen", "127.0.0.1:0", "--allow", &allow], None);
    let (forward, file) = (format!("0={target}"), near.file("near.toml"));
    std::fs::write(&file, more).unwrap();
    let arguments = ["--peer", &far.said[0], "--forward", &forward, "--config", &file.display().to_string()];
    let near = Proxy::start(near, &arguments, Some("connected to "));
    (near, far)
}

/// Opens a flow. Returns both of its ends.
fn open(near: &Proxy, server: &TcpListener) -> (TcpStream, TcpStream) {
    let mut program = connect(near.address("a forward on "));
    program.write_all(b"0").unwrap();
    let (mut serving, _) = server.accept().unwrap();
    serving.set_read_timeout(Some(PATIENCE)).unwrap();
    serving.read_exact(&mut [0]).unwrap();
    (program, serving)
}

/// A question goes there, and an answer comes back.
fn exchange(program: &mut TcpStream, server: &mut TcpStream, text: &[u8; 8]) {
    let mut read = [0; 8];
    program.write_all(text).unwrap();
    server.read_exact(&mut read).unwrap();
    server.write_all(&read).unwrap();
    program.read_exact(&mut read).unwrap();
    assert_eq!(&read, text);
}

#[test]
fn regression_a_flow_survives_two_replacements_during_an_outage() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut near, far) = pair("replace-outage", &server, "");
    let (mut program, mut serving) = open(&near, &server);
    // Its peer gives no answer meanwhile.
    far.running.signal("-STOP");
    near.replace(Some("a forward on "));
    near.replace(Some("a forward on "));
    far.running.signal("-CONT");
    exchange(&mut program, &mut serving, b"question");
}

#[test]
fn regression_a_flow_that_cannot_go_on_is_reset_at_both_ends() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut near, _far) = pair("replace-limit", &server, "");
    let mut flows = [open(&near, &server), open(&near, &server)];
    std::fs::write(near.home.file("near.toml"), "[limits]\nmax_flows = 1\n").unwrap();
    near.replace(Some("a forward on "));
    let mut reset = 0;
    for (program, serving) in &mut flows {
        let written = program.write_all(b"question");
        // An error is reported once: a read after it finds the end of the stream.
        if let Err(at_server) = serving.read_exact(&mut [0; 8]) {
            assert_eq!(at_server.kind(), std::io::ErrorKind::ConnectionReset);
            let at_program = written.and_then(|()| program.read_exact(&mut [0])).unwrap_err();
            assert_eq!(at_program.kind(), std::io::ErrorKind::ConnectionReset);
            reset += 1;
        } else {
            written.unwrap();
        }
    }
    assert_eq!(reset, 1);
}

#[test]
fn regression_a_signal_ends_a_proxy_whose_successor_hangs() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, _far) = pair("replace-hangs", &server, "");
    let mut control = UnixStream::connect(near.home.file("control")).unwrap();
    control.set_read_timeout(Some(PATIENCE)).unwrap();
    control.write_all(b"{\"request\":\"hand-over\"}\n").unwrap();
    control.read_exact(&mut [0; 26]).unwrap();
    control.write_all(b"go\n").unwrap();
    // Some of the parcel, and then nothing more.
    control.read_exact(&mut [0; 20]).unwrap();
    near.running.signal("-TERM");
    let Proxy { running, home: _home, .. } = near;
    let (_, _, errors) = running.end();
    assert!(!errors.contains("this one continues"), "{errors}");
}

#[test]
fn regression_a_proxy_that_is_stopped_does_not_say_that_it_tries_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, _far) = pair("replace-stop", &server, "");
    near.running.signal("-TERM");
    let Proxy { running, home: _home, .. } = near;
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains("trying again"), "{errors}");
}

#[test]
fn udp_programs_keep_their_sockets_when_the_far_proxy_is_replaced() {
    let [near, far] = [Home::new("replace-udp-near"), Home::new("replace-udp-far")];
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = server.local_addr().unwrap();
    let allow = format!("{}={target}", key(&near));
    let mut far = Proxy::start(far, &["--listen", "127.0.0.1:0", "--allow", &allow], None);
    let mut near =
        Proxy::start(near, &["--peer", &far.said[0], "--socks", "127.0.0.1:0"], Some("connected to "));
    let mut association = connect(near.address("SOCKS5 on "));
    association.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 12];
    association.read_exact(&mut reply).unwrap();
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    program.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    program.connect(("127.0.0.1", u16::from_be_bytes([reply[10], reply[11]]))).unwrap();
    let datagram = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &target.port().to_be_bytes(), b"question"].concat();
    let mut buffer = [0; 100];
    // Until the proxy knows of its session, datagrams are lost.
    let before = loop {
        program.send(&datagram).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        if let Ok((_, from)) = server.recv_from(&mut buffer) {
            break from;
        }
    };
    far.replace(None);
    // What the server sends by itself arrives, and the program is known to it by the same address. The session may still be on
    // its way.
    let arrived = (0..100).any(|_| {
        server.send_to(b"news", before).unwrap();
        program.recv(&mut buffer).is_ok_and(|length| buffer[..length].ends_with(b"news"))
    });
    assert!(arrived);
    program.send(&datagram).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(server.recv_from(&mut buffer).unwrap().1, before);
    // An association does not keep its proxy from being replaced.
    near.replace(Some("SOCKS5 on "));
    assert_eq!(association.read(&mut buffer).unwrap_or(0), 0, "the association has ended");
}

#[test]
fn a_process_that_does_not_take_over_leaves_the_running_one_as_it_was() {
    let [near, far] = [Home::new("replace-back-near"), Home::new("replace-back-far")];
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let allow = format!("{}={target}", key(&near));
    let far = Proxy::start(far, &["--listen", "127.0.0.1:0", "--allow", &allow], None);
    let forward = format!("0={target}");
    let near = Proxy::start(near, &["--peer", &far.said[0], "--forward", &forward], Some("connected to "));
    let mut program = connect(near.address("a forward on "));
    program.write_all(b"0").unwrap();
    let (mut serving, _) = server.accept().unwrap();
    serving.set_read_timeout(Some(PATIENCE)).unwrap();
    serving.read_exact(&mut [0]).unwrap();
    // Gone before the offer, before it is taken, and with the parcel.
    for (proxy, stops_at) in [(&near, 0), (&near, 1), (&near, 2), (&far, 2), (&far, 1), (&far, 3)] {
        if stops_at < 3 {
            let mut control = UnixStream::connect(proxy.home.file("control")).unwrap();
            control.set_read_timeout(Some(PATIENCE)).unwrap();
            control.write_all(b"{\"request\":\"hand-over\"}\n").unwrap();
            if stops_at >= 1 {
                let mut offer = [0; 26];
                control.read_exact(&mut offer).unwrap();
                assert_eq!(&offer, b"whimbrel-proxy hands over\n");
            }
            if stops_at >= 2 {
                control.write_all(b"go\n").unwrap();
                // Some of the parcel.
                control.read_exact(&mut [0; 20]).unwrap();
            }
            drop(control);
        }
        if stops_at == 3 {
            // It gets everything, and fails when it says where it listens.
            let full = std::fs::File::create("/dev/full").unwrap();
            let mut new = whimbrel(&proxy.home);
            let new = new.args(&proxy.arguments).arg("--replace").stdout(full).stderr(Stdio::null());
            assert!(!new.status().unwrap().success());
        }
        for text in [*b"question", *b"another!"] {
            program.write_all(&text).unwrap();
            let mut read = [0; 8];
            serving.read_exact(&mut read).unwrap();
            serving.write_all(&read).unwrap();
            program.read_exact(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}

#[test]
fn a_mistake_leaves_the_running_proxy_as_it_was() {
    let home = Home::new("replace-wrong");
    let run = |more: &[&str]| {
        whimbrel(&home)
            .args(["proxy", "run", "--listen", "127.0.0.1:0", "--replace"])
            .args(more)
            .output()
            .unwrap()
    };
    assert_fails(&run(&[]), "--replace needs the control socket");
    let control = home.file("nobody").display().to_string();
    assert_fails(&run(&["--control", &control]), "no service answers");
}
