//! A real broker for clients of MQTT, and the programs that are its clients.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Raw;
use crate::common::{Home, whimbrel};

/// A broker with MQTT. It is killed with the test.
pub(crate) struct Broker {
    child: Child,
    pub(crate) native: String,
    /// Where MQTT is without TLS and WebSocket.
    pub(crate) mqtt: String,
    /// All addresses for MQTT, as it prints them.
    pub(crate) urls: Vec<String>,
    pub(crate) home: Home,
}

impl Broker {
    pub(crate) fn start(name: &str) -> Self {
        Self::with(name, None)
    }

    pub(crate) fn with(name: &str, config: Option<&str>) -> Self {
        let home = Home::new(name);
        if let Some(config) = config {
            std::fs::write(home.file("broker.toml"), config).unwrap();
        }
        Self::run(home, &["--mqtt", "127.0.0.1:0"], 1)
    }

    /// Starts one with options, and with the file `broker.toml` of its home if there is one. It prints so many addresses for MQTT.
    pub(crate) fn run(home: Home, options: &[&str], number: usize) -> Self {
        Self::listen(home, "127.0.0.1:0", options, number)
    }

    /// Kills it, so that it has no last word, and starts it again with the same home at the same addresses. It has to be one of
    /// [`Broker::start`] or [`Broker::with`].
    pub(crate) fn kill_and_restart(&mut self) {
        drop(self.child.kill());
        self.start_again();
    }

    /// Stops it, so that it ends in order, and starts it again likewise.
    pub(crate) fn stop_and_restart(&mut self) {
        let stopped = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(stopped.unwrap().success());
        self.start_again();
    }

    fn start_again(&mut self) {
        drop(self.child.wait());
        let home = std::mem::replace(&mut self.home, Home(PathBuf::from("nowhere")));
        let native = self.native.rsplit('@').next().unwrap();
        *self = Self::listen(home, native, &["--mqtt", &self.mqtt], 1);
    }

    fn listen(home: Home, native: &str, options: &[&str], number: usize) -> Self {
        let command = whimbrel(&home);
        Self::spawn(home, command, native, options, number)
    }

    /// Starts one by a command that only lacks its arguments.
    pub(crate) fn spawn(
        home: Home,
        mut command: Command,
        native: &str,
        options: &[&str],
        number: usize,
    ) -> Self {
        command.args(["broker", "run", "--listen", native]).args(options);
        command.arg("--control").arg(home.file("broker.sock"));
        let file = home.file("broker.toml");
        if file.exists() {
            command.arg("--config").arg(file);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix("listening ").unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let native = next();
        let urls: Vec<_> = (0..number).map(|_| next()).collect();
        let plain = urls.iter().find_map(|url| url.strip_prefix("mqtt://"));
        let mqtt = plain.unwrap_or_default().to_owned();
        Self { child, native, mqtt, urls, home }
    }

    /// The port of its first address for MQTT that begins so.
    pub(crate) fn port_of(&self, scheme: &str) -> u16 {
        let address = self.urls.iter().find_map(|url| url.strip_prefix(scheme)).unwrap();
        let address = address.strip_suffix("/mqtt").unwrap_or(address);
        address.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub(crate) fn port(&self) -> &str {
        self.mqtt.rsplit(':').next().unwrap()
    }

    pub(crate) fn v5(&self, client: &str) -> Raw {
        Raw::v5(&self.mqtt, client)
    }

    pub(crate) fn v3(&self, client: &str) -> Raw {
        Raw::v3(&self.mqtt, client)
    }

    /// Has it read its file again. Returns what it says.
    pub(crate) fn reload(&self) -> String {
        let socket = self.home.file("broker.sock");
        let output = whimbrel(&self.home).arg("reload").arg(socket).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8(said).unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A password as the program hashes it.
pub(crate) fn hashed(password: &str) -> String {
    let home = Home::new("mqtt-password");
    let mut command = whimbrel(&home);
    command.args(["broker", "password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether a program is there. A test without it says so.
pub(crate) fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--help").output().is_ok();
    if !there {
        println!("skipped: {program} is not installed (Debian: apt install mosquitto-clients)");
    }
    there
}

/// A Python that has paho, from the machine or from a folder of its own.
pub(crate) fn python_with_paho() -> Option<PathBuf> {
    let has_paho = |python: &PathBuf| {
        let tried = Command::new(python).args(["-c", "import paho.mqtt.client"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("paho");
    for python in [PathBuf::from("python3"), own.join("bin/python3")] {
        if has_paho(&python) {
            return Some(python);
        }
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(&own).output();
    let pip = Command::new(own.join("bin/pip")).args(["install", "--quiet", "paho-mqtt==2.2.0"]).output();
    let python = own.join("bin/python3");
    if made.is_ok() && pip.is_ok() && has_paho(&python) {
        return Some(python);
    }
    println!("skipped: there is no Python with paho-mqtt, and it cannot be installed");
    None
}

/// A folder of node modules with mqtt.js, made if that is possible.
pub(crate) fn node_with_mqtt() -> Option<PathBuf> {
    let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mqttjs");
    let has_mqtt = |own: &Path| {
        let tried = Command::new("node").args(["-e", "require('mqtt')"]).current_dir(own).output();
        tried.is_ok_and(|output| output.status.success())
    };
    std::fs::create_dir_all(&own).unwrap();
    if !has_mqtt(&own) {
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "mqtt@5.16.0"]).current_dir(&own);
        if install.output().is_err() || !has_mqtt(&own) {
            println!("skipped: there is no node with mqtt.js, and it cannot be installed");
            return None;
        }
    }
    Some(own)
}
