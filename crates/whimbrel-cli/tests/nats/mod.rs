//! Servers of NATS as processes.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Home;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where `cargo xtask` builds the program.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/target/nats-server/bin/nats-server");

/// The program. A test without it says so.
pub(crate) fn program() -> Option<PathBuf> {
    let found = [PathBuf::from(BUILT), PathBuf::from("nats-server")]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_ok());
    if found.is_none() {
        println!(
            "skipped: nats-server is not installed (`cargo xtask test` builds it, Debian: apt install nats-server)"
        );
    }
    found
}

/// Servers that form a cluster. They are killed with the test.
pub(crate) struct Servers {
    program: PathBuf,
    home: PathBuf,
    nodes: Vec<(u16, Option<Child>)>,
}

impl Servers {
    /// Starts a cluster of so many, each with `more` in its file.
    pub(crate) fn start(program: PathBuf, home: &Home, number: usize, more: &str) -> Self {
        let ports = crate::common::free_ports(2 * number);
        let (clients, routes) = ports.split_at(number);
        let all: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        for at in 0..number {
            let store = home.file(&format!("nats{at}"));
            let text = format!(
                "server_name: n{at}\nlisten: \"127.0.0.1:{}\"\n{}{more}\njetstream {{ store_dir: \"{}\" }}\n",
                clients[at],
                if number == 1 {
                    String::new()
                } else {
                    format!(
                        "cluster {{ name: test, listen: \"127.0.0.1:{}\", routes: {all:?} }}\n",
                        routes[at]
                    )
                },
                store.display(),
            );
            std::fs::write(home.file(&format!("nats{at}.conf")), text).unwrap();
        }
        let nodes = clients.iter().map(|port| (*port, None)).collect();
        let mut servers = Self { program, home: home.0.clone(), nodes };
        (0..number).for_each(|at| servers.start_again(at));
        servers
    }

    /// Starts one, and waits until it answers.
    pub(crate) fn start_again(&mut self, at: usize) {
        let log = std::fs::File::create(self.home.join(format!("nats{at}.log"))).unwrap();
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(self.home.join(format!("nats{at}.conf")));
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.nodes[at].1 = Some(child);
        let start = Instant::now();
        while !answers(self.nodes[at].0) {
            let log = || std::fs::read_to_string(self.home.join(format!("nats{at}.log")));
            assert!(start.elapsed() < PATIENCE, "nats-server does not answer: {:?}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills one.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut child = self.nodes[at].1.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The setting that names all of them.
    pub(crate) fn setting(&self) -> String {
        let all: Vec<_> = self.nodes.iter().map(|(port, _)| format!("nats://127.0.0.1:{port}")).collect();
        format!("servers = {all:?}\n")
    }

    pub(crate) fn port(&self, at: usize) -> u16 {
        self.nodes[at].0
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|(_, child)| child.as_mut()) {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Whether a server says what it is.
fn answers(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with("INFO ")
}
