//! Three hosts in a row, made of network namespaces: a client, a gateway, and a far host with servers.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Home, Running, whimbrel};

/// Longer than anything takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The addresses of the far host.
pub(crate) const FAR: [&str; 4] = ["10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2"];

/// A host.
pub(crate) struct Net(File);

impl Net {
    /// An empty network. `None`: the process may not make one.
    #[allow(unsafe_code, reason = "no safe crate of ours changes namespaces")]
    pub(crate) fn new() -> Option<Self> {
        let made = thread::spawn(|| {
            // SAFETY: this moves only this thread into an empty network.
            let left = unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 };
            left.then(|| File::open("/proc/thread-self/ns/net").unwrap())
        });
        made.join().unwrap().map(Self)
    }

    /// Does something on this host. Sockets and programs that it opens stay there.
    #[allow(unsafe_code, reason = "no safe crate of ours changes namespaces")]
    pub(crate) fn run<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        use std::os::fd::AsRawFd;

        thread::scope(|scope| {
            let ran = scope.spawn(|| {
                // SAFETY: this moves only this thread.
                assert_eq!(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
                what()
            });
            ran.join().unwrap()
        })
    }

    /// Runs a program. Returns what it printed.
    pub(crate) fn command(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        let output = self.run(|| command.output().unwrap());
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Joins this host and another: 10.NUMBER.0.1 here, 10.NUMBER.0.2 there, and the same in IPv6.
    pub(crate) fn cable(&self, here: &str, host: &Self, there: &str, number: &str) {
        use std::os::fd::AsRawFd;

        let other = format!("/proc/{}/fd/{}", std::process::id(), host.0.as_raw_fd());
        self.command(&format!("ip link add {here} type veth peer name {there} netns {other}"));
        for (net, device, end) in [(self, here, 1), (host, there, 2)] {
            net.command(&format!("ip address add 10.{number}.0.{end}/24 dev {device}"));
            // No other host can have the same address, so duplicate address detection is not needed.
            net.command(&format!("ip address add fd0{number}::{end}/64 dev {device} nodad"));
            net.command(&format!("ip link set {device} up"));
        }
    }

    pub(crate) fn set(&self, what: &str, value: &str) {
        self.run(|| std::fs::write(format!("/proc/sys/net/{what}"), value).unwrap());
    }
}

/// The three hosts.
pub(crate) struct Networks {
    pub(crate) client: Net,
    pub(crate) gate: Net,
    pub(crate) far: Net,
    pub(crate) homes: [Home; 2],
}

/// A near and a far proxy.
pub(crate) struct Pair {
    pub(crate) near: Running,
    pub(crate) far: Running,
}

impl Networks {
    /// Makes them. `None`: the process may not.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let (Some(client), Some(gate), Some(far)) = (Net::new(), Net::new(), Net::new()) else {
            whimbrel_testing::skipped("only root gets networks of its own");
            return None;
        };
        if Command::new("nft").arg("--version").output().is_err() {
            whimbrel_testing::skipped("it needs the package nftables");
            return None;
        }
        let homes = [Home::new(&format!("{name}-near")), Home::new(&format!("{name}-far"))];
        let this = Self { client, gate, far, homes };
        this.cable("lan0", &this.client, "eth0", "1");
        this.cable("wan0", &this.far, "eth0", "2");
        for net in [&this.client, &this.gate, &this.far] {
            net.command("ip link set lo up");
        }
        this.gate.set("ipv4/ip_forward", "1");
        this.gate.set("ipv6/conf/all/forwarding", "1");
        this.client.command("ip -4 route add default via 10.1.0.1");
        this.client.command("ip -6 route add default via fd01::1");
        this.gate.command("ip -4 route add default via 10.2.0.2");
        this.gate.command("ip -6 route add default via fd02::2");
        for address in FAR {
            this.far.command(&format!("ip address add {address} dev lo"));
        }
        this.far.command("ip -4 route add unreachable 10.9.0.66");
        this.far.command("ip -6 route add unreachable fd09::66");
        // A host that never answers.
        this.far.command("ip neighbour add 10.2.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent");
        this.far.command("ip neighbour add fd02::77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent");
        this.far.command("ip -4 route add 10.9.0.77 via 10.2.0.77");
        this.far.command("ip -6 route add fd09::77 via fd02::77");
        Some(this)
    }

    /// Joins the gateway and a host: 10.NUMBER.0.1 at the gateway, 10.NUMBER.0.2 at the host, and the same in IPv6.
    fn cable(&self, here: &str, host: &Net, there: &str, number: &str) {
        self.gate.cable(here, host, there, number);
    }

    /// Starts a proxy on each side, and waits for their session. `tproxy` and `rules` are parts of the near one's file.
    pub(crate) fn pair(&self, tproxy: &str, rules: &str) -> Pair {
        let far = self.start_far();
        let near = self.started(&mut self.near(&far.listening, tproxy, rules));
        Pair { near, far }
    }

    /// Starts a near proxy, and waits until its session is there.
    pub(crate) fn started(&self, command: &mut Command) -> Running {
        self.gate.run(|| Running::saying(command, "connected to ").0)
    }

    /// Starts the far proxy.
    pub(crate) fn start_far(&self) -> Running {
        let mut command = self.far_command();
        let far = self.far.run(|| Running::listening(&mut command));
        if far.listening.is_empty() {
            panic!("the far proxy does not listen: {:?}", far.end());
        }
        far
    }

    /// The command that starts a far proxy.
    pub(crate) fn far_command(&self) -> Command {
        let [near, far] = &self.homes;
        if !near.file("whimbrel/key").exists() {
            assert!(whimbrel(near).args(["key", "new"]).output().unwrap().status.success());
        }
        let key = whimbrel(near).args(["key", "show"]).output().unwrap().stdout;
        let key = String::from_utf8(key).unwrap().trim().to_owned();
        let file = far.file("far.toml");
        let text = format!(
            "[listen]\naddress = '10.2.0.2:0'\n[limits]\nconnect_timeout = '1s'\n\
             [[peer]]\nkey = '{key}'\nmay_open = ['10.9.0.0/16:*', '[fd09::]/16:*', '10.9.0.0/16:icmp', '[fd09::]/16:icmp']\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = whimbrel(far);
        command.args(["proxy", "run", "--config"]).arg(&file);
        command
    }

    /// The command that starts a near proxy.
    pub(crate) fn near(&self, url: &str, tproxy: &str, rules: &str) -> Command {
        self.near_by(url, &format!("[in.tproxy]\n{tproxy}"), rules)
    }

    /// The command that starts a near proxy with this section as its way in.
    pub(crate) fn near_by(&self, url: &str, way_in: &str, rules: &str) -> Command {
        let file = self.homes[0].file("near.toml");
        let text = format!("{way_in}\n[[peer]]\nname = 'far'\nurl = '{url}'\n{rules}\n");
        std::fs::write(&file, text).unwrap();
        let mut command = whimbrel(&self.homes[0]);
        command.args(["proxy", "run", "--config"]).arg(&file);
        command
    }

    /// Runs `whimbrel proxy cleanup` at the gateway, which must succeed. Returns its output.
    pub(crate) fn cleanup(&self, more: &[&str]) -> String {
        let mut command = whimbrel(&self.homes[0]);
        command.args(["proxy", "cleanup"]).args(more);
        let output = self.gate.run(|| command.output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns everything of ours that is in the gateway's kernel.
    pub(crate) fn left(&self) -> String {
        let mut left = self.gate.command("nft list tables");
        for family in ["-4", "-6"] {
            let rules = self.gate.command(&format!("ip {family} rule show"));
            left.extend(rules.lines().filter(|rule| rule.contains("proto 77")));
            left += &self.gate.command(&format!("ip {family} route show table all protocol 77"));
        }
        let links = self.gate.command("ip -brief link");
        left.extend(links.lines().filter(|line| line.starts_with("whimbrel")));
        left
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}
