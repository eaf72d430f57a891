//! ICMP echo through two proxies.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Running, whimbrel};
use crate::networks::{Networks, until};
use crate::pinger::{Heard, Pinger};

const RULE: &str = "[[rule]]\nname = 'ping'\nprotocol = 'icmp'\nto = ['10.9.0.1/32:icmp', '10.9.0.66/32:icmp', '10.8.0.0/16:icmp', '[fd09::]/16:icmp']";
const LAN: &str = "interfaces = ['lan0']\noutput = true";

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
