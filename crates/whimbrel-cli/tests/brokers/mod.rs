//! Brokers as processes, with files, and what their status says.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Home, Running, whimbrel};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A broker of a file, with a key, a port and a control socket of its own.
pub(crate) struct Broker<'a> {
    home: &'a Home,
    name: String,
    pub(crate) running: Option<Running>,
    pub(crate) url: String,
}

impl<'a> Broker<'a> {
    /// A broker that does not run yet. It listens on `port`. `text` is the rest of its file.
    pub(crate) fn new(home: &'a Home, name: &str, port: u16, cluster: &str, text: &str) -> Self {
        key(home, name);
        Self::with_key(home, name, port, cluster, text)
    }

    /// One whose key was made before.
    pub(crate) fn with_key(home: &'a Home, name: &str, port: u16, cluster: &str, text: &str) -> Self {
        let mut shown = whimbrel(home);
        let shown = shown.args(["key", "show"]).arg(home.file(&format!("{name}.key"))).output().unwrap();
        let key = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
        let whole = format!(
            "[broker]\nname = '{name}'\ncluster = '{cluster}'\n[other_clients]\npublish = '#'\nsubscribe = '#'\n[listen]\naddress = \
             '127.0.0.1:{port}'\nkey = '{}'\n[store]\nfolder = '{}'\n[service]\ncontrol = '{}'\n{text}",
            home.file(&format!("{name}.key")).display(),
            home.file(&format!("{name}.store")).display(),
            home.file(&format!("{name}.sock")).display(),
        );
        std::fs::write(home.file(&format!("{name}.toml")), whole).unwrap();
        let url = format!("whimbrel://{key}@127.0.0.1:{port}");
        Self { home, name: name.to_owned(), running: None, url }
    }

    pub(crate) fn started(mut self) -> Self {
        self.start();
        self
    }

    pub(crate) fn start(&mut self) {
        let file = self.home.file(&format!("{}.toml", self.name));
        let running = Running::listening(whimbrel(self.home).args(["broker", "run", "--config"]).arg(file));
        if running.listening.is_empty() {
            let (_, _, errors) = running.end();
            panic!("{} does not start: {errors}", self.name);
        }
        self.running = Some(running);
    }

    pub(crate) fn kill(&mut self) {
        let running = self.running.take().unwrap();
        running.signal("-KILL");
        running.end();
    }

    /// Stops it. Returns what it said.
    pub(crate) fn stop(&mut self) -> String {
        let running = self.running.take().unwrap();
        running.signal("-TERM");
        let (code, _, errors) = running.end();
        assert_eq!(code, Some(0), "{errors}");
        errors
    }

    /// What its status has beside the sessions.
    pub(crate) fn status(&self) -> Value {
        let socket = self.home.file(&format!("{}.sock", self.name));
        let output = whimbrel(self.home).args(["status", "--json"]).arg(socket).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["more"].clone()
    }

    pub(crate) fn wait_until_linked(&self, with: u64) {
        until("it is linked", || self.status()["linked"] == with);
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.status()["channels"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|channel| channel["arrived"].as_u64())
            .sum()
    }

    /// A publisher that reads lines.
    pub(crate) fn publisher(&self, topic: &str) -> Publisher {
        let mut command = whimbrel(self.home);
        let mut running = Running::started(command.args(["pub", topic, "--broker", &self.url]));
        Publisher { input: running.stdin(), running }
    }

    /// Publishes these lines.
    pub(crate) fn publish(&self, topic: &str, lines: impl IntoIterator<Item = String>) {
        let mut publisher = self.publisher(topic);
        publisher.lines(lines);
        publisher.end();
    }

    /// A subscriber that was attached.
    pub(crate) fn subscriber(&self, filter: &str, more: &[&str]) -> Running {
        let mut command = whimbrel(self.home);
        command.args(["sub", filter, "--broker", &self.url]).args(more);
        Running::saying(&mut command, "attached at broker ").0
    }

    /// What `sub` does without waiting for anything.
    pub(crate) fn sub(&self, filter: &str, more: &[&str]) -> Command {
        let mut command = whimbrel(self.home);
        command.args(["sub", filter, "--broker", &self.url]).args(more);
        command
    }
}

/// A program that publishes.
pub(crate) struct Publisher {
    running: Running,
    input: ChildStdin,
}

impl Publisher {
    pub(crate) fn lines(&mut self, lines: impl IntoIterator<Item = String>) {
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        self.input.write_all(text.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// Waits until everything is acknowledged.
    pub(crate) fn end(self) {
        drop(self.input);
        let (code, _, errors) = self.running.end();
        assert_eq!(code, Some(0), "{errors}");
    }
}

/// Makes the key of a broker. Returns its public half.
pub(crate) fn key(home: &Home, name: &str) -> String {
    let file = home.file(&format!("{name}.key"));
    let output =
        whimbrel(home).args(["key", "new", "--out"]).arg(&file).stderr(Stdio::inherit()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
