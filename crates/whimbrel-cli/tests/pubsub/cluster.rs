//! Three brokers of a cluster as processes.

use std::time::{Duration, Instant};

use crate::common::{Home, Running, free_ports, whimbrel};

/// Longer than anything takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Three brokers that dial each other. None runs at first.
pub(crate) struct Cluster {
    pub(crate) home: Home,
    brokers: Vec<(Option<Running>, String)>,
}

impl Cluster {
    /// Brokers with these further settings, and with stores of their own.
    pub(crate) fn new(name: &str, settings: &str) -> Self {
        let home = Home::new(name);
        let key = |at: usize| {
            let mut command = whimbrel(&home);
            let output = command.args(["key", "new", "--out"]).arg(home.file(&format!("key{at}"))).output();
            String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
        };
        let addresses: Vec<_> = free_ports(3).into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let urls: Vec<String> =
            (0..3).map(|at| format!("whimbrel://{}@{}", key(at), addresses[at])).collect();
        for (at, address) in addresses.iter().enumerate() {
            let file = |what: &str| home.file(&format!("{what}{at}")).display().to_string();
            let mut text = format!(
                "[broker]\nname = 'b{at}'\ncluster = 'test of {name}'\n[other_clients]\npublish = '#'\nsubscribe = '#'\n\
                 [listen]\naddress = '{}'\nkey = '{}'\n[service]\ncontrol = '{}'\n[store]\nfolder = '{}'\n{settings}",
                address,
                file("key"),
                file("control"),
                file("store"),
            );
            for (_, other) in urls.iter().enumerate().filter(|(other, _)| *other != at) {
                text += &format!("[[peer]]\nurl = '{other}'\n");
            }
            std::fs::write(home.file(&format!("b{at}.toml")), text).unwrap();
        }
        Self { home, brokers: urls.into_iter().map(|url| (None, url)).collect() }
    }

    pub(crate) fn start(&mut self, at: usize) {
        let config = self.home.file(&format!("b{at}.toml"));
        let mut command = whimbrel(&self.home);
        let running = Running::listening(command.args(["broker", "run", "--config"]).arg(config));
        assert!(!running.listening.is_empty(), "{}", running.end().2);
        self.brokers[at].0 = Some(running);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        let running = self.brokers[at].0.take().unwrap();
        running.signal("-KILL");
        running.end();
    }

    pub(crate) fn url(&self, at: usize) -> &str {
        &self.brokers[at].1
    }

    /// The part of a broker's status that is about it.
    pub(crate) fn status(&self, at: usize) -> serde_json::Value {
        let control = self.home.file(&format!("control{at}"));
        let output = whimbrel(&self.home).args(["status", "--json"]).arg(control).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["more"].clone()
    }

    /// Waits until these brokers are linked with each other.
    pub(crate) fn wait_until_linked(&self, brokers: &[usize]) {
        let most = brokers.len() as u64 - 1;
        until("all are linked", || {
            brokers.iter().all(|at| self.status(*at)["linked"].as_u64() == Some(most))
        });
    }
}
