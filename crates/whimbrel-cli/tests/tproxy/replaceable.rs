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
use crate::programs::{again, dial};

/// The bytes that a busy flow has in each direction, and the pause between its parts.
pub(crate) const BUSY: usize = 20_000_000;
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

pub(crate) fn send(mut tcp: &TcpStream, bytes: &[u8]) {
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

/// A program sends a datagram until the server has it. Returns the address that the server sees.
pub(crate) fn asks(program: &UdpSocket, server: &UdpSocket) -> std::net::SocketAddr {
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
