//! A broker of others: mosquitto as a process.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Home;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where packages of systems put it.
const PLACES: [&str; 2] = ["/usr/sbin/mosquitto", "mosquitto"];

/// The program. A test without it, or without its clients, says so.
pub(crate) fn program() -> Option<PathBuf> {
    let works = |program: &str| Command::new(program).arg("-h").output().is_ok();
    let found = PLACES.into_iter().find(|program| works(program)).map(PathBuf::from);
    let found = found.filter(|_| works("mosquitto_pub") && works("mosquitto_sub"));
    if found.is_none() {
        println!("skipped: mosquitto is not installed (Debian: apt install mosquitto mosquitto-clients)");
    }
    found
}

/// A topic with a last value, from the start.
const READY: &str = "ready";

/// A running mosquitto. It is killed with the test.
pub(crate) struct Mosquitto {
    program: PathBuf,
    config: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Mosquitto {
    /// Starts one. `more` is the rest of its file.
    pub(crate) fn start(program: PathBuf, home: &Home, name: &str, port: u16, more: &str) -> Self {
        let config = home.file(&format!("{name}.conf"));
        let store = home.file(&format!("{name}.store"));
        std::fs::create_dir_all(&store).unwrap();
        let text = format!(
            "user root\nlistener {port} 127.0.0.1\npersistence true\npersistence_location {}/\n{more}\n",
            store.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut mosquitto = Self { program, config, port, child: None };
        mosquitto.start_again();
        let port = mosquitto.port.to_string();
        let ready =
            Command::new("mosquitto_pub").args(["-p", &port, "-r", "-t", READY, "-m", "yes"]).status();
        assert!(ready.unwrap().success());
        mosquitto
    }

    pub(crate) fn start_again(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.config).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "mosquitto does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as its operator would: it saves the sessions.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        let ended = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(ended.success());
        child.wait().unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Publishes these lines at QoS 1.
    pub(crate) fn publish(&self, topic: &str, lines: impl IntoIterator<Item = String>, more: &[&str]) {
        let mut command = Command::new("mosquitto_pub");
        command.args(["-p", &self.port.to_string(), "-q", "1", "-t", topic, "-l"]).args(more);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// A subscriber that ends after so many messages. It has subscribed.
    pub(crate) fn subscriber(&self, filter: &str, count: usize, more: &[&str]) -> Subscriber {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-p", &self.port.to_string(), "-q", "1", "-t", READY, "-t", filter, "-W", "60"]);
        command.args(["-C", &(count + 1).to_string(), "-F", "%t %p"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The last value tells that it has subscribed.
        assert_eq!(lines.next().unwrap().unwrap(), format!("{READY} yes"));
        Subscriber { child, lines }
    }
}

/// A client of mosquitto that subscribes.
pub(crate) struct Subscriber {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Subscriber {
    /// Waits for its end. Returns its lines: topic and payload.
    pub(crate) fn lines(mut self) -> Vec<String> {
        let all = self.lines.by_ref().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success(), "it got too few: {all:?}");
        all
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
