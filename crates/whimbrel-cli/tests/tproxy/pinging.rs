//! ICMP echo through two proxies.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Running, whimbrel};
use crate::networks::{Net, Networks, until};

const RULE: &str = "[[rule]]\nname = 'ping'\nprotocol = 'icmp'\nto = ['10.9.0.1/32:icmp', '10.9.0.66/32:icmp', '10.8.0.0/16:icmp', '[fd09::]/16:icmp']";
const LAN: &str = "interfaces = ['lan0']\noutput = true";

/// An answer that a program hears: from whom, kind and code, and what it repeats of the request (with its identifier), or the data.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    from: String,
    kind: (u8, u8),
    rest: Vec<u8>,
}

/// A program that pings.
struct Pinger {
    socket: UdpSocket,
    is_v4: bool,
}

impl Pinger {
    #[allow(unsafe_code, reason = "the standard library has no raw sockets")]
    fn new(net: &Net, is_v4: bool) -> Self {
        let (family, protocol) =
            if is_v4 { (libc::AF_INET, libc::IPPROTO_ICMP) } else { (libc::AF_INET6, libc::IPPROTO_ICMPV6) };
        let socket = net.run(|| {
            // SAFETY: it only makes a descriptor, which is nobody else's.
            let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            // SAFETY: see above.
            UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        Self { socket, is_v4 }
    }

    fn send(&self, target: &str, id: u16, sequence: u16, data: &[u8]) {
        let kind = if self.is_v4 { 8 } else { 128 };
        let ([a, b], [c, d]) = (id.to_be_bytes(), sequence.to_be_bytes());
        let mut packet = [&[kind, 0, 0, 0, a, b, c, d], data].concat();
        // The kernel sums up those of IPv6.
        let mut sum: u32 = packet
            .chunks(2)
            .map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |low| u32::from(*low)))
            .sum();
        while self.is_v4 && sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        if self.is_v4 {
            packet[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        let target: IpAddr = target.parse().unwrap();
        self.socket.send_to(&packet, SocketAddr::new(target, 0)).unwrap();
    }

    /// Waits for the next answer to this request.
    fn hear(&self, id: u16, sequence: u16, patience: Duration) -> Option<Heard> {
        let (end, mut buffer) = (Instant::now() + patience, [0; 4_096]);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.socket.set_read_timeout(Some(left)).unwrap();
            let Ok((length, from)) = self.socket.recv_from(&mut buffer) else { continue };
            let packet = &buffer[if self.is_v4 { 20 } else { 0 }..length];
            let (kind, rest) = ((packet[0], packet[1]), &packet[4..]);
            let is_reply = matches!((self.is_v4, kind.0), (true, 0) | (false, 129));
            let (named, rest) = match kind.0 {
                _ if is_reply => (&rest[..4], &rest[4..]),
                3 | 11 if self.is_v4 => (&rest[28..32], &rest[28..]),
                1 if !self.is_v4 => (&rest[48..52], &rest[48..]),
                _ => continue,
            };
            if named == [id.to_be_bytes(), sequence.to_be_bytes()].concat() {
                return Some(Heard { from: from.ip().to_string(), kind, rest: rest.to_vec() });
            }
        }
    }

    /// Asks until there is an answer: a session that is just beginning loses datagrams.
    fn ask(&self, target: &str, id: u16) -> Heard {
        let again = |sequence| {
            self.send(target, id, sequence, b"some data");
            self.hear(id, sequence, Duration::from_secs(2))
        };
        (1..20).find_map(again).unwrap_or_else(|| panic!("{target} does not answer"))
    }
}

/// Counts what goes past the proxies.
fn watch(networks: &Networks) {
    networks.far.command("ip -4 route add 10.1.0.0/24 via 10.2.0.1");
    networks.far.command("ip -6 route add fd01::/64 via fd02::1");
    networks.gate.command("nft table inet watch { chain forward { type filter hook forward priority 0; iifname \"lan0\" oifname \"wan0\" counter; }; }");
}

fn in_the_clear(networks: &Networks) -> bool {
    !networks.gate.command("nft list table inet watch").contains("counter packets 0 ")
}

#[test]
fn echo_is_carried_by_rule_and_has_true_replies() {
    let Some(networks) = Networks::new("tproxy-ping") else { return };
    watch(&networks);
    let pair = networks.pair(LAN, RULE);
    for net in [&networks.client, &networks.gate] {
        let (v4, v6) = (Pinger::new(net, true), Pinger::new(net, false));
        let heard = v4.ask("10.9.0.1", 0xbeef);
        assert_eq!(heard, Heard { from: "10.9.0.1".into(), kind: (0, 0), rest: b"some data".to_vec() });
        let heard = v6.ask("fd09::1", 0xbeef);
        assert_eq!(heard, Heard { from: "fd09::1".into(), kind: (129, 0), rest: b"some data".to_vec() });
        for (pinger, target, kind) in [(&v4, "10.9.0.66", (3, 1)), (&v6, "fd09::66", (1, 3))] {
            let heard = pinger.ask(target, 77);
            assert_eq!((&*heard.from, heard.kind), (target, kind));
        }
        // What the far end does not permit.
        v4.send("10.8.0.1", 5, 1, b"");
        assert_eq!(v4.hear(5, 1, Duration::from_millis(500)), None);
    }
    assert!(!in_the_clear(&networks), "all of it was carried");
    // What no rule is for is left alone.
    let pinger = Pinger::new(&networks.client, true);
    assert_eq!(pinger.ask("10.9.0.2", 6).from, "10.9.0.2");
    assert!(in_the_clear(&networks));
    // Without the rule, all is.
    networks.gate.command("nft flush chain inet watch forward");
    networks.gate.command("nft add rule inet watch forward iifname lan0 oifname wan0 counter");
    drop(networks.near(&pair.far.listening, LAN, ""));
    pair.near.signal("-HUP");
    until("it goes on as without a proxy", || {
        pinger.send("10.9.0.1", 7, 1, b"");
        pinger.hear(7, 1, Duration::from_millis(200)).is_some() && in_the_clear(&networks)
    });
}

#[test]
fn a_flood_of_requests_is_thinned_out_at_the_far_end() {
    let Some(networks) = Networks::new("tproxy-ping-flood") else { return };
    let _pair = networks.pair(LAN, RULE);
    networks.far.command("nft table inet watch { chain out { type filter hook output priority 0; icmp type echo-request counter; }; }");
    let pinger = Pinger::new(&networks.client, true);
    pinger.ask("10.9.0.1", 1);
    let begin = Instant::now();
    for sequence in 0..3_000 {
        pinger.send("10.9.0.1", 2, sequence, &[0; 64]);
    }
    while pinger.hear(2, 2_999, Duration::from_millis(500)).is_none()
        && begin.elapsed() < Duration::from_secs(2)
    {}
    let table = networks.far.command("nft list table inet watch");
    let sent: f64 =
        table.split("counter packets ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let most = 101.0 + 100.0 * (begin.elapsed().as_secs_f64() + 1.0);
    assert!((20.0..most).contains(&sent), "{sent} of 3,000 were sent, at most {most} may be");
    // It goes on afterwards.
    pinger.ask("10.9.0.1", 3);
}

#[test]
fn a_far_end_without_rights_pings_by_a_ping_socket() {
    let Some(networks) = Networks::new("tproxy-ping-socket") else { return };
    networks.far.set("ipv4/ping_group_range", "0 2147483647");
    let plain = networks.far_command();
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .arg(plain.get_program())
        .args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let far = networks.far.run(|| Running::listening(&mut command));
    let _near = networks.started(&mut networks.near(&far.listening, LAN, RULE));
    for (is_v4, target) in [(true, "10.9.0.1"), (false, "fd09::1")] {
        assert_eq!(Pinger::new(&networks.client, is_v4).ask(target, 9).from, target);
    }
    let explain = |target: &str| {
        let mut command = whimbrel(&networks.homes[0]);
        command.args(["proxy", "explain", "--config"]).arg(networks.homes[0].file("near.toml"));
        String::from_utf8(command.args(["icmp", target]).output().unwrap().stdout).unwrap()
    };
    assert_eq!(explain("10.9.0.1"), "carried to far: rule 1, `ping`, is the first that matches\n");
    assert!(explain("10.9.0.2").starts_with("left alone"), "{}", explain("10.9.0.2"));
}
