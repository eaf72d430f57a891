//! Tests of a proxy with a TUN interface beside what it carries: its kill switch, ping, and that it is replaced while it runs.
//! They need root and nftables, as those of interception do.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "tproxy/networks.rs"]
mod networks;
#[path = "tproxy/pinger.rs"]
mod pinger;
#[path = "tproxy/programs.rs"]
#[allow(dead_code, reason = "each test file uses a part")]
mod programs;
#[path = "tproxy/replaceable.rs"]
mod replaceable;

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use networks::{Networks, Pair, until};
use pinger::{Heard, Pinger};
use programs::{again, dial, exchange, talk, udp};
use replaceable::{Flows, Near, connected, talks};

/// The settings that intercept traffic to these networks, from the gateway's own programs and from hosts behind it.
const ROUTES: &str = "[in.tun]\nroutes = ['10.0.0.0/8', 'fd00::/8']\nexcept = ['10.1.0.0/16', '10.2.0.0/16', 'fd01::/16', 'fd02::/16']\ninterfaces = ['lan0']";

fn near(networks: &Networks, url: &str, more: &str, rules: &str) -> Command {
    networks.near_by(url, &format!("{ROUTES}\n{more}"), rules)
}

fn pair(networks: &Networks, more: &str, rules: &str) -> Pair {
    let far = networks.start_far();
    let near = networks.started(&mut near(networks, &far.listening, more, rules));
    Pair { near, far }
}

/// Has what goes past the proxies arrive, and be counted.
fn watch(networks: &Networks) {
    networks.far.command("ip -4 route add 10.1.0.0/24 via 10.2.0.1");
    networks.far.command("ip -6 route add fd01::/64 via fd02::1");
    networks.far.command("nft table inet watch { chain in { type filter hook input priority 0; ip saddr { 10.1.0.2, 169.254.0.0/16 } counter; ip6 saddr fd01::2 counter; ip daddr 10.9.0.0/16 ip saddr 10.2.0.1 counter; }; }");
}

fn in_the_clear(networks: &Networks) -> bool {
    let table = networks.far.command("nft list table inet watch");
    table.lines().any(|line| line.contains("counter packets") && !line.contains("counter packets 0 "))
}

#[test]
fn a_kill_switch_rejects_what_a_killed_proxy_carried() {
    let Some(networks) = Networks::new("tun-switch") else { return };
    watch(&networks);
    let more = "kill_switch = true";
    let with_except =
        |rest: &str| ROUTES.replace("'10.2.0.0/16'", "'10.2.0.0/16', '10.9.0.2/32'") + "\n" + rest;
    let far = networks.start_far();
    let start = || networks.started(&mut networks.near_by(&far.listening, &with_except(more), ""));
    let first = start();
    for net in [&networks.client, &networks.gate] {
        exchange(&networks, net, "10.9.0.1:0");
        exchange(&networks, net, "[fd09::1]:0");
        talk(&networks, net, ["10.9.0.1:0", "10.9.0.1:0"]);
    }
    // A connection of this host has an address of the interface.
    let (own, server) = connected(&networks, &networks.gate, "10.9.0.1:0");
    assert!(!in_the_clear(&networks));
    first.signal("-KILL");
    first.end();
    until("the interface is gone", || !networks.gate.command("ip -brief link").contains("whimbrel0"));
    let rejects = || {
        for (net, is_gate) in [(&networks.client, false), (&networks.gate, true)] {
            for address in ["10.9.0.1:0", "[fd09::1]:0"] {
                let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
                let to = listener.local_addr().unwrap();
                let server = networks.far.run(|| udp(address));
                let program = net.run(|| udp(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }));
                let patience = Duration::from_secs(3);
                program.set_read_timeout(Some(patience)).unwrap();
                let tcp = net.run(|| TcpStream::connect_timeout(&to, patience).unwrap_err().kind());
                let datagram = net.run(|| {
                    let sent =
                        program.connect(server.local_addr().unwrap()).and_then(|()| program.send(b"x"));
                    // The gateway's own are told by the call itself.
                    sent.and_then(|_| again(|| program.recv(&mut [0; 9]))).unwrap_err().kind()
                });
                // Programs of the host itself may hear nothing in IPv6.
                if to.is_ipv4() || !is_gate {
                    let prohibited = [ErrorKind::PermissionDenied, ErrorKind::HostUnreachable];
                    assert!(prohibited.contains(&tcp), "{address}: {tcp:?}");
                    assert!(prohibited.contains(&datagram), "{address}: {datagram:?}");
                }
            }
        }
        assert!(!in_the_clear(&networks), "nothing goes in the clear");
    };
    rejects();
    // What was left alone still is.
    let other = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    let _program = networks.client.run(|| dial(&other.local_addr().unwrap().to_string()).unwrap());
    assert_eq!(other.accept().unwrap().1.ip().to_string(), "10.1.0.2");
    networks.far.command("nft flush table inet watch");
    networks.far.command("nft delete table inet watch");
    networks.far.command("ip -4 route del 10.1.0.0/24 via 10.2.0.1");
    networks.far.command("ip -6 route del fd01::/64 via fd02::1");
    watch(&networks);
    // The rest of a connection that was there goes nowhere, either.
    drop((own, server));
    let said = networks.cleanup(&[]);
    assert!(said.contains("the kill switch of 1 proxy still rejects traffic"), "{said}");
    rejects();
    // The next one gets through. While somebody has taken its interface away, all is rejected, too.
    let second = start();
    exchange(&networks, &networks.client, "10.9.0.1:0");
    networks.gate.command("ip link del whimbrel0");
    rejects();
    second.signal("-TERM");
    assert_eq!(second.end().0, Some(0));
    assert_eq!(networks.left(), "", "a stop takes the switch away");
    // One that stays can be taken away.
    let third = start();
    third.signal("-KILL");
    third.end();
    assert_eq!(
        networks.cleanup(&["--all"]),
        "removed rules and routes of 1 proxy; removed the kill switch of 1 proxy\n"
    );
    assert_eq!(networks.left(), "");
    assert!(!networks.gate.command("ip -6 address show dev lo").contains("fd57"));
}

#[test]
fn echo_is_carried_by_rule_and_has_true_replies() {
    let Some(networks) = Networks::new("tun-ping") else { return };
    watch(&networks);
    let rule = "[[rule]]\nname = 'no'\nprotocol = 'icmp'\nto = ['10.9.0.2/32:icmp']\naction = 'reject'\n\
                [[rule]]\nname = 'ping'\nprotocol = 'icmp'\nto = ['10.9.0.1/32:icmp', '10.9.0.66/32:icmp', '10.8.0.0/16:icmp', '[fd09::]/16:icmp']";
    let _pair = pair(&networks, "", rule);
    for net in [&networks.client, &networks.gate] {
        let (v4, v6) = (Pinger::new(net, true), Pinger::new(net, false));
        let heard = v4.ask("10.9.0.1", 0xbeef);
        assert_eq!(heard, Heard { from: "10.9.0.1".into(), kind: (0, 0), rest: b"some data".to_vec() });
        let heard = v6.ask("fd09::1", 0xbeef);
        assert_eq!(heard, Heard { from: "fd09::1".into(), kind: (129, 0), rest: b"some data".to_vec() });
        for (pinger, target, kind) in
            [(&v4, "10.9.0.66", (3, 1)), (&v6, "fd09::66", (1, 3)), (&v4, "10.9.0.2", (3, 13))]
        {
            let heard = pinger.ask(target, 77);
            assert_eq!((&*heard.from, heard.kind), (target, kind));
        }
        // What the far end does not permit, and what no rule is for.
        for target in ["10.8.0.1", "10.9.0.3"] {
            v4.send(target, 5, 1, b"");
            assert_eq!(v4.hear(5, 1, Duration::from_millis(500)), None, "{target}");
        }
    }
    assert!(!in_the_clear(&networks), "all of it was carried");
}

#[test]
fn flows_go_on_when_the_proxy_is_replaced() {
    let Some(networks) = Networks::new("tun-replace") else { return };
    watch(&networks);
    let far = networks.start_far();
    let all = &*format!("{ROUTES}\nkill_switch = true");
    let mut near = Near::start(&networks, &far.listening, all);
    let mut flows = Flows::open(&networks);
    flows.while_busy(|| {
        near.is_left_alone();
        near.replace(all);
        thread::sleep(Duration::from_millis(200));
        near.is_not_replaced(all, "cannot write");
        near.is_not_replaced(
            &format!("{all}\nown_ipv4 = '169.254.96.0/20'"),
            "own_ipv4: the running proxy intercepts with 169.254.64.0/20",
        );
        near.is_not_replaced(&format!("{all}\nstack = 'userspace'"), "cannot be replaced");
        near.is_not_replaced("[in]\nsocks = '127.0.0.1:0'", "this file has no [in.tun]");
        near.replace(all);
    });
    flows.go_on();
    exchange(&networks, &networks.client, "[fd09::1]:0");
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    assert!(!in_the_clear(&networks));
    // Longer than the table of connections remembers one that nobody serves.
    thread::sleep(Duration::from_secs(35));
    talks(&mut flows.idle[0]);
    // Other settings.
    near.replace(&ROUTES.replace("'10.2.0.0/16'", "'10.2.0.0/16', '10.9.0.2/32'"));
    let direct = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    let address = direct.local_addr().unwrap().to_string();
    until("the settings have changed", || {
        // While the former kill switch goes, it may be rejected.
        let program = networks.client.run(|| dial(&address));
        program.is_ok() && direct.accept().unwrap().1.ip().to_string() == "10.1.0.2"
    });
    // The one that they leave alone has ended.
    flows.idle.pop();
    flows.go_on();
    until("the kill switch is gone", || !networks.left().contains("prohibit"));
    near.running.signal("-TERM");
    assert_eq!(near.running.end().0, Some(0));
    assert_eq!(networks.left(), "", "a stop leaves nothing");
    assert!(!networks.gate.command("ip -6 address show dev lo").contains("fd57"));
}
