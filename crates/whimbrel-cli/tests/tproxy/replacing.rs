//! A proxy that intercepts and is replaced while it runs.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Running, assert_fails};
use crate::networks::{Networks, PATIENCE, until};
use crate::programs::{again, dial, exchange, payload, read_to_end, udp};

/// The bytes that a busy flow has in each direction, and the pause between its parts.
const BUSY: usize = 20_000_000;
const PACE: Duration = Duration::from_millis(20);

/// A near proxy that can be replaced.
struct Near<'a> {
    networks: &'a Networks,
    url: String,
    running: Running,
}

impl<'a> Near<'a> {
    fn start(networks: &'a Networks, url: &str, tproxy: &str) -> Self {
        let running = networks.started(&mut command(networks, url, tproxy));
        Self { networks, url: url.to_owned(), running }
    }

    fn control(&self) -> std::path::PathBuf {
        self.networks.homes[0].file("control")
    }

    /// Another process takes over. The former one ends well.
    fn replace(&mut self, tproxy: &str) {
        let mut command = command(self.networks, &self.url, tproxy);
        command.arg("--replace");
        let (running, _) = self.networks.gate.run(|| Running::saying(&mut command, "taken over: "));
        let former = std::mem::replace(&mut self.running, running);
        let (code, _, errors) = former.end();
        assert_eq!(code, Some(0), "{errors}");
        assert!(!errors.contains("was lost"), "{errors}");
    }

    /// Another process is refused, or dies with everything that it got.
    fn is_not_replaced(&self, tproxy: &str, hint: &str) {
        let mut command = command(self.networks, &self.url, tproxy);
        command.arg("--replace").stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped());
        let output = self.networks.gate.run(|| command.output().unwrap());
        assert_fails(&output, hint);
        self.goes_on();
    }

    fn goes_on(&self) {
        until("the former process goes on", || UnixStream::connect(self.control()).is_ok());
    }

    /// Another process asks, takes part of what it gets, and is gone.
    fn is_left_alone(&self) {
        let mut control = UnixStream::connect(self.control()).unwrap();
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        control.write_all(b"{\"request\":\"hand-over\"}\n").unwrap();
        control.read_exact(&mut [0; 26]).unwrap();
        control.write_all(b"go\n").unwrap();
        control.read_exact(&mut [0; 20]).unwrap();
        drop(control);
        self.goes_on();
    }
}

fn command(networks: &Networks, url: &str, tproxy: &str) -> Command {
    let control = networks.homes[0].file("control");
    let more = format!("[listen]\naddress = '[::]:0'\n[service]\ncontrol = '{}'", control.display());
    networks.near(url, tproxy, &more)
}

fn send(mut tcp: &TcpStream, bytes: &[u8]) {
    for part in bytes.chunks(BUSY / 200) {
        tcp.write_all(part).unwrap();
        thread::sleep(PACE);
    }
    tcp.shutdown(Shutdown::Write).unwrap();
}

/// A program, and what it reached behind the far proxy.
fn connected(networks: &Networks, net: &crate::networks::Net, address: &str) -> (TcpStream, TcpStream) {
    let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
    let program = net.run(|| dial(&listener.local_addr().unwrap().to_string()).unwrap());
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    (program, server)
}

fn talks((program, server): &mut (TcpStream, TcpStream)) {
    for (from, to) in [(&*program, &*server), (&*server, &*program)] {
        let (mut from, mut to, mut read) = (from, to, [0; 8]);
        from.write_all(b"question").unwrap();
        to.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"question");
    }
}

/// A program sends a datagram until the server has it. Returns the address that the server sees.
fn asks(program: &UdpSocket, server: &UdpSocket) -> std::net::SocketAddr {
    let mut buffer = [0; 100];
    server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // A session that is on its way loses datagrams.
    let seen = (0..300).find_map(|_| {
        program.send_to(b"question", server.local_addr().unwrap()).unwrap();
        server.recv_from(&mut buffer).ok()
    });
    let (_, from) = seen.expect("the datagram arrives");
    while server.recv_from(&mut buffer).is_ok() {}
    server.send_to(b"answer", from).unwrap();
    let (length, source) = again(|| program.recv_from(&mut buffer)).unwrap();
    assert_eq!((&buffer[..length], source), (&b"answer"[..], server.local_addr().unwrap()));
    from
}

#[test]
fn intercepted_flows_go_on_when_the_proxy_is_replaced() {
    let Some(networks) = Networks::new("tproxy-replace") else { return };
    // Whatever went past the proxies would arrive, and be counted.
    networks.far.command("ip -4 route add 10.1.0.0/24 via 10.2.0.1");
    networks.gate.command("nft table inet watch { chain forward { type filter hook forward priority 0; iifname \"lan0\" oifname \"wan0\" counter; }; }");
    let in_the_clear = || !networks.gate.command("nft list table inet watch").contains("counter packets 0 ");
    let far = networks.start_far();
    let all = "interfaces = ['lan0']\noutput = true\nkill_switch = true";
    let mut near = Near::start(&networks, &far.listening, all);
    let mut idle = connected(&networks, &networks.client, "10.9.0.1:0");
    let mut idle_v6 = connected(&networks, &networks.client, "[fd09::1]:0");
    let mut own = connected(&networks, &networks.gate, "10.9.0.1:0");
    let mut left_out = connected(&networks, &networks.client, "10.9.0.2:0");
    let (program, server) =
        (networks.client.run(|| udp("0.0.0.0:0")), networks.far.run(|| udp("10.9.0.1:0")));
    let seen_as = asks(&program, &server);
    let (busy, serving) = connected(&networks, &networks.client, "10.9.0.1:0");
    let bytes = payload(BUSY);
    thread::scope(|scope| {
        for tcp in [&busy, &serving] {
            scope.spawn(|| send(tcp, &bytes));
            scope.spawn(|| assert!(read_to_end(tcp) == bytes, "every byte, in order, once"));
        }
        near.is_left_alone();
        near.replace(all);
        thread::sleep(Duration::from_millis(200));
        near.is_not_replaced(all, "cannot write");
        near.is_not_replaced(&format!("{all}\nport = 7000"), "port: the running proxy intercepts with 7893");
        near.replace(all);
    });
    for flow in [&mut idle, &mut idle_v6, &mut own, &mut left_out] {
        talks(flow);
    }
    assert_eq!(asks(&program, &server), seen_as, "the far end knows the program still");
    exchange(&networks, &networks.client, "[fd09::1]:0");
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    assert!(!in_the_clear());
    // Other settings: the flows that they would leave alone go on, too.
    near.replace("interfaces = ['lan0']\nexcept = ['10.9.0.2/32']");
    let direct = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    let address = direct.local_addr().unwrap().to_string();
    let source = || {
        let _program = networks.client.run(|| dial(&address).unwrap());
        direct.accept().unwrap().1.ip().to_string()
    };
    until("the settings have changed", || source() == "10.1.0.2");
    for flow in [&mut idle, &mut idle_v6, &mut own, &mut left_out] {
        talks(flow);
    }
    assert!(!networks.left().contains("whimbrel_kill0"), "{}", networks.left());
    // What a process has taken over goes with it.
    near.running.signal("-KILL");
    near.running.end();
    until("the table is gone", || !networks.gate.command("nft list tables").contains("whimbrel0"));
    let near = Near::start(&networks, &far.listening, all);
    exchange(&networks, &networks.client, "10.9.0.1:0");
    near.running.signal("-TERM");
    assert_eq!(near.running.end().0, Some(0));
    assert_eq!(networks.left(), "table inet watch\n", "a stop leaves nothing");
}

#[test]
fn a_proxy_that_took_over_leaves_nothing_when_it_stops() {
    let Some(networks) = Networks::new("tproxy-replace-stop") else { return };
    let far = networks.start_far();
    let mut near = Near::start(&networks, &far.listening, "interfaces = ['lan0']\nkill_switch = true");
    near.replace("interfaces = ['lan0']\nkill_switch = true");
    exchange(&networks, &networks.client, "10.9.0.1:0");
    near.running.signal("-TERM");
    assert_eq!(near.running.end().0, Some(0));
    assert_eq!(networks.left(), "");
}
