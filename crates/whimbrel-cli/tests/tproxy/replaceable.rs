//! A proxy that intercepts and may be replaced, with programs that talk through it.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Running, assert_fails};
use crate::networks::{Networks, PATIENCE, until};
use crate::programs::{asks, dial, payload, read_to_end, udp};

/// The bytes that a busy flow has in each direction, and the pause between its parts.
const BUSY: usize = 20_000_000;
const PACE: Duration = Duration::from_millis(20);

/// A near proxy that can be replaced.
pub(crate) struct Near<'a> {
    networks: &'a Networks,
    url: String,
    pub(crate) running: Running,
}

impl<'a> Near<'a> {
    pub(crate) fn start(networks: &'a Networks, url: &str, way_in: &str) -> Self {
        let running = networks.started(&mut command(networks, url, way_in));
        Self { networks, url: url.to_owned(), running }
    }

    fn control(&self) -> std::path::PathBuf {
        self.networks.homes[0].file("control")
    }

    /// Another process takes over. The former one ends well.
    pub(crate) fn replace(&mut self, way_in: &str) {
        let mut command = command(self.networks, &self.url, way_in);
        command.arg("--replace");
        let (running, _) = self.networks.gate.run(|| Running::saying(&mut command, "taken over: "));
        let former = std::mem::replace(&mut self.running, running);
        let (code, _, errors) = former.end();
        assert_eq!(code, Some(0), "{errors}");
        assert!(!errors.contains("was lost"), "{errors}");
    }

    /// Another process is refused, or dies with everything that it got.
    pub(crate) fn is_not_replaced(&self, way_in: &str, hint: &str) {
        let mut command = command(self.networks, &self.url, way_in);
        command.arg("--replace").stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped());
        let output = self.networks.gate.run(|| command.output().unwrap());
        assert_fails(&output, hint);
        self.goes_on();
    }

    fn goes_on(&self) {
        until("the former process goes on", || UnixStream::connect(self.control()).is_ok());
    }

    /// Another process asks, takes part of what it gets, and is gone.
    pub(crate) fn is_left_alone(&self) {
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

fn command(networks: &Networks, url: &str, way_in: &str) -> Command {
    let control = networks.homes[0].file("control");
    let more = format!("[listen]\naddress = '[::]:0'\n[service]\ncontrol = '{}'", control.display());
    networks.near_by(url, way_in, &more)
}

/// Programs that talk through the proxy: idle connections, one that is busy in both directions, and one with datagrams.
pub(crate) struct Flows {
    pub(crate) idle: Vec<(TcpStream, TcpStream)>,
    busy: (TcpStream, TcpStream),
    program: UdpSocket,
    server: UdpSocket,
    seen_as: std::net::SocketAddr,
}

impl Flows {
    /// Opens them: the idle ones in IPv4, in IPv6, of the gateway's own, and to 10.9.0.2, which other settings may leave alone.
    pub(crate) fn open(networks: &Networks) -> Self {
        let (client, gate) = (&networks.client, &networks.gate);
        let idle =
            [(client, "10.9.0.1:0"), (client, "[fd09::1]:0"), (gate, "10.9.0.1:0"), (client, "10.9.0.2:0")];
        let idle = idle.map(|(net, address)| connected(networks, net, address)).into();
        let program = client.run(|| udp("0.0.0.0:0"));
        let server = networks.far.run(|| udp("10.9.0.1:0"));
        let seen_as = asks(&program, &server);
        Self { idle, busy: connected(networks, client, "10.9.0.1:0"), program, server, seen_as }
    }

    /// Does something while the busy connection is. It loses no byte.
    pub(crate) fn while_busy(&self, act: impl FnOnce()) {
        let bytes = payload(BUSY);
        thread::scope(|scope| {
            for tcp in [&self.busy.0, &self.busy.1] {
                scope.spawn(|| send(tcp, &bytes));
                scope.spawn(|| assert!(read_to_end(tcp) == bytes, "every byte, in order, once"));
            }
            act();
        });
    }

    /// All that are not over talk, and the far end knows the one with datagrams still.
    pub(crate) fn go_on(&mut self) {
        self.idle.iter_mut().for_each(talks);
        assert_eq!(asks(&self.program, &self.server), self.seen_as);
    }
}

fn send(mut tcp: &TcpStream, bytes: &[u8]) {
    for part in bytes.chunks(BUSY / 200) {
        tcp.write_all(part).unwrap();
        thread::sleep(PACE);
    }
    tcp.shutdown(Shutdown::Write).unwrap();
}

/// A program, and what it reached behind the far proxy.
pub(crate) fn connected(
    networks: &Networks,
    net: &crate::networks::Net,
    address: &str,
) -> (TcpStream, TcpStream) {
    let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
    let program = net.run(|| dial(&listener.local_addr().unwrap().to_string()).unwrap());
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    (program, server)
}

pub(crate) fn talks((program, server): &mut (TcpStream, TcpStream)) {
    for (from, to) in [(&*program, &*server), (&*server, &*program)] {
        let (mut from, mut to, mut read) = (from, to, [0; 8]);
        from.write_all(b"question").unwrap();
        to.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"question");
    }
}
