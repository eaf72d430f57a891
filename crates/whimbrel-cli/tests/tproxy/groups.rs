//! Groups that proxies carry from one network to another.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Home, Running, whimbrel};
use crate::networks::{Net, Networks};

const V4: &str = "239.1.2.3:5000";
const V6: &str = "[ff15::7]:5000";
const GROUPS: &str = "groups = ['239.1.2.3:5000', '[ff15::7]:5000']";
const MAY: &str = "may_open = ['239.1.2.3/32:5000', '[ff15::7]:5000']";

/// A program that hears a group and sends to it.
struct Member(UdpSocket, SocketAddr);

impl Member {
    fn new(net: &Net, device: &str, group: &str) -> Self {
        let group: SocketAddr = group.parse().unwrap();
        let shown = net.command(&format!("ip -oneline link show dev {device}"));
        let index = shown.split(':').next().unwrap().parse();
        let any = if group.is_ipv4() { "0.0.0.0:5000" } else { "[::]:5000" };
        let socket = net.run(|| {
            let socket = UdpSocket::bind(any).unwrap();
            match group.ip() {
                IpAddr::V4(ip) => socket.join_multicast_v4(&ip, &own_v4(net, device)).unwrap(),
                IpAddr::V6(ip) => socket.join_multicast_v6(&ip, index.unwrap()).unwrap(),
            }
            socket
        });
        Self(socket, group)
    }

    fn send(&self, what: &str) {
        self.0.send_to(what.as_bytes(), self.1).unwrap();
    }

    /// From whom this is heard until nothing more comes for a while.
    fn heard(&self, what: &str, patience: Duration) -> Vec<SocketAddr> {
        let (end, mut buffer, mut heard) = (Instant::now() + patience, [0; 100], Vec::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return heard;
            }
            self.0.set_read_timeout(Some(left)).unwrap();
            if let Ok((length, from)) = self.0.recv_from(&mut buffer)
                && &buffer[..length] == what.as_bytes()
            {
                heard.push(from);
            }
        }
    }
}

fn own_v4(net: &Net, device: &str) -> std::net::Ipv4Addr {
    let shown = net.command(&format!("ip -4 -brief address show dev {device}"));
    shown.split_whitespace().nth(2).unwrap().split('/').next().unwrap().parse().unwrap()
}

/// A proxy's key.
fn key(home: &Home) -> String {
    if !home.file("whimbrel/key").exists() {
        assert!(whimbrel(home).args(["key", "new"]).output().unwrap().status.success());
    }
    String::from_utf8(whimbrel(home).args(["key", "show"]).output().unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

/// Starts a proxy with this file, with or without the rights of root over the network.
fn start(net: &Net, home: &Home, text: &str, is_root: bool) -> Running {
    let file = home.file("groups.toml");
    std::fs::write(&file, text).unwrap();
    let mut plain = whimbrel(home);
    plain.args(["proxy", "run", "--config"]).arg(&file);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw,-net_admin", "--inh-caps=-net_raw,-net_admin"]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    net.run(|| Running::listening(if is_root { &mut plain } else { &mut command }))
}

/// A client's network with two proxies on it, which are peers of one another and of a far one, which has a network of its own.
struct Sites {
    networks: Networks,
    hall: Net,
    _homes: [Home; 3],
    _proxies: [Running; 3],
}

impl Sites {
    fn new(name: &str, is_root: bool) -> Option<Self> {
        let networks = Networks::new(name)?;
        let hall = Net::new()?;
        networks.far.cable("lan1", &hall, "eth0", "3");
        hall.command("ip link set lo up");
        for (net, via) in [(&hall, "3"), (&networks.client, "1")] {
            net.command(&format!("ip -4 route replace default via 10.{via}.0.1"));
            net.command(&format!("ip -6 route replace default via fd0{via}::1"));
        }
        let homes = ["one", "two", "there"].map(|end| Home::new(&format!("{name}-{end}")));
        let [one, two, there] = &homes;
        let keys = homes.each_ref().map(key);
        let multicast = |device: &str| format!("[multicast]\ninterfaces = ['{device}']\n{GROUPS}\n");
        let peer = |by: &str| format!("[[peer]]\n{by}\n{MAY}\n");
        let listen = |address: &str| format!("[listen]\naddress = '{address}'\n");
        let of_key = |key: &str| peer(&format!("key = '{key}'"));
        let of_url = |url: &str| peer(&format!("url = '{url}'"));
        let text = [multicast("lan1"), listen("10.2.0.2:0"), of_key(&keys[0]), of_key(&keys[1])].concat();
        let far = start(&networks.far, there, &text, is_root);
        let text =
            [multicast("lan0"), listen("10.2.0.1:0"), of_key(&keys[0]), of_url(&far.listening)].concat();
        let second = start(&networks.gate, two, &text, is_root);
        let text =
            [multicast("lan0"), listen("10.2.0.1:0"), of_url(&second.listening), of_url(&far.listening)]
                .concat();
        let first = start(&networks.gate, one, &text, is_root);
        Some(Self { networks, hall, _homes: homes, _proxies: [first, second, far] })
    }

    fn members(&self, group: &str) -> [Member; 2] {
        [Member::new(&self.networks.client, "eth0", group), Member::new(&self.hall, "eth0", group)]
    }
}

/// Asserts that one member hears what the other sends. The sessions may still be on their way.
fn joined([from, to]: [&Member; 2], word: &str) -> SocketAddr {
    let heard = (0..100).find_map(|at| {
        let what = format!("{word} {at}");
        from.send(&what);
        to.heard(&what, Duration::from_millis(300)).first().copied()
    });
    heard.unwrap_or_else(|| panic!("{} is not carried", from.1))
}

/// Each member sends, and both hear it once: the sender from itself.
fn hear_once(sites: &Sites, is_root: bool) {
    for (group, own) in [(V4, ["10.1.0.2", "10.3.0.2"]), (V6, ["fd01::2", "fd03::2"])] {
        let members = sites.members(group);
        let [client, hall] = &members;
        let pairs = [([client, hall], own[0], "10.3.0.1"), ([hall, client], own[1], "10.1.0.1")];
        for (pair, true_source, proxy) in pairs {
            let source = joined(pair, "begin");
            if is_root {
                assert_eq!(
                    source.to_string(),
                    SocketAddr::new(true_source.parse().unwrap(), 5_000).to_string()
                );
            } else if group == V4 {
                assert_eq!(source.ip().to_string(), proxy);
            }
            std::thread::sleep(Duration::from_millis(500));
            let what = format!("from {true_source} to {group}");
            pair[0].send(&what);
            let patience = Duration::from_millis(1_500);
            let (there, here) = (pair[1].heard(&what, patience), pair[0].heard(&what, patience));
            // Two gateways carry it, and one is heard. In the other direction, both may send on at the same moment.
            let most = if std::ptr::eq(pair[1], hall) { 1 } else { 2 };
            assert!((1..=most).contains(&there.len()), "{there:?}");
            assert_eq!(here.len(), 1, "only its own comes back: {here:?}");
        }
    }
}

#[test]
fn groups_reach_other_networks_once_with_their_true_source() {
    let Some(sites) = Sites::new("groups", true) else { return };
    sites.hall.command("nft table inet watch { chain in { type filter hook input priority 0; ip daddr 239.1.2.3 ip ttl 1 counter; ip daddr 239.1.2.3 ip ttl != 1 counter drop; }; }");
    hear_once(&sites, true);
    // A source that is not on the link is no source: what was sent on there is not carried further.
    let (networks, spoofed) = (&sites.networks, "10.7.0.7");
    networks.client.command(&format!("ip address add {spoofed}/32 dev lo"));
    let [client, hall] = sites.members(V4);
    let foreign = networks.client.run(|| UdpSocket::bind((spoofed, 5_001)).unwrap());
    multicast_by(&foreign, "10.1.0.2");
    foreign.send_to(b"foreign", V4).unwrap();
    assert_eq!(client.heard("foreign", Duration::from_millis(300)).len(), 1, "it was sent");
    client.send("after it");
    assert_eq!(hall.heard("after it", Duration::from_secs(1)).len(), 1);
    assert_eq!(hall.heard("foreign", Duration::from_millis(500)).len(), 0);
}

#[test]
fn proxies_without_rights_send_on_by_themselves_and_feed_nobody() {
    let Some(sites) = Sites::new("groups-plain", false) else { return };
    hear_once(&sites, false);
}

#[test]
fn groups_go_through_a_broker_once_to_every_network_that_wants_them() {
    let Some(networks) = Networks::new("groups-broker") else { return };
    let hall = Net::new().unwrap();
    networks.far.cable("lan1", &hall, "eth0", "3");
    for (net, via) in [(&hall, "3"), (&networks.client, "1")] {
        net.command(&format!("ip -4 route replace default via 10.{via}.0.1"));
    }
    let homes = ["one", "there", "broker"].map(|end| Home::new(&format!("groups-broker-{end}")));
    let [one, there, at] = &homes;
    let keys = [key(one), key(there)];
    let client = |key: &str| format!("[[client]]\nkey = '{key}'\npublish = 'm/#'\nsubscribe = 'm/#'\n");
    std::fs::write(at.file("broker.toml"), [client(&keys[0]), client(&keys[1])].concat()).unwrap();
    let mut command = whimbrel(at);
    command.args(["broker", "run", "--listen", "10.2.0.1:0", "--config"]).arg(at.file("broker.toml"));
    let broker = networks.gate.run(|| Running::listening(&mut command));
    let text = |device: &str, address: &str, peer: &str, more: &str| {
        format!(
            "[listen]\naddress = '{address}'\n[[peer]]\nkey = '{peer}'\n[multicast]\ninterfaces = ['{device}']\n{more}\n\
             [multicast.broker]\nurls = ['{}']\ntopic = 'm'\n",
            broker.listening
        )
    };
    let _near = start(&networks.gate, one, &text("lan0", "10.2.0.1:0", &keys[1], GROUPS), true);
    // This one carries nothing itself.
    let wants = text("lan1", "10.2.0.2:0", &keys[0], "") + "send_on = ['239.1.2.3:5000']\n";
    let _far = start(&networks.far, there, &wants, true);
    let (from, to) = (Member::new(&networks.client, "eth0", V4), Member::new(&hall, "eth0", V4));
    assert_eq!(joined([&from, &to], "begin").to_string(), "10.1.0.2:5000", "the true source");
    std::thread::sleep(Duration::from_millis(500));
    for word in ["one", "another"] {
        from.send(word);
        assert_eq!(to.heard(word, Duration::from_secs(1)).len(), 1);
        assert_eq!(from.heard(word, Duration::from_millis(100)).len(), 1, "only its own comes back");
    }
    // What any client publishes is sent on only if it is a datagram of a proxy's.
    to.send("not carried");
    assert_eq!(from.heard("not carried", Duration::from_millis(500)).len(), 0);
}

#[allow(unsafe_code, reason = "the standard library cannot choose the interface")]
fn multicast_by(socket: &UdpSocket, own: &str) {
    let own: std::net::Ipv4Addr = own.parse().unwrap();
    let address = libc::in_addr { s_addr: u32::from(own).to_be() };
    let length = size_of_val(&address) as libc::socklen_t;
    let value = (&raw const address).cast();
    // SAFETY: the value is an address of this length, and lives until the call is over.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_IF, value, length)
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}
