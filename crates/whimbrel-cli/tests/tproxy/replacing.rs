//! A proxy that intercepts by TPROXY and is replaced while it runs.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::networks::{Networks, until};
use crate::programs::{dial, exchange};
use crate::replaceable::{Flows, Near};

/// Returns the section of a near proxy's file about interception, with these settings.
fn tproxy(settings: &str) -> String {
    format!("[in.tproxy]\n{settings}")
}

#[test]
fn intercepted_flows_go_on_when_the_proxy_is_replaced() {
    let Some(networks) = Networks::new("tproxy-replace") else { return };
    // Whatever went past the proxies would arrive, and be counted.
    networks.far.command("ip -4 route add 10.1.0.0/24 via 10.2.0.1");
    networks.gate.command("nft table inet watch { chain forward { type filter hook forward priority 0; iifname \"lan0\" oifname \"wan0\" counter; }; }");
    let in_the_clear = || !networks.gate.command("nft list table inet watch").contains("counter packets 0 ");
    let far = networks.start_far();
    let all = &*tproxy("interfaces = ['lan0']\noutput = true\nkill_switch = true");
    let mut near = Near::start(&networks, &far.listening, all);
    let mut flows = Flows::open(&networks);
    flows.while_busy(|| {
        near.is_left_alone();
        near.replace(all);
        thread::sleep(Duration::from_millis(200));
        near.is_not_replaced(all, "cannot write");
        near.is_not_replaced(&format!("{all}\nport = 7000"), "port: the running proxy intercepts with 7893");
        near.replace(all);
    });
    flows.go_on();
    exchange(&networks, &networks.client, "[fd09::1]:0");
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    assert!(!in_the_clear());
    // Other settings: the flows that they would leave alone go on, too.
    near.replace(&tproxy("interfaces = ['lan0']\nexcept = ['10.9.0.2/32']"));
    let direct = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    let address = direct.local_addr().unwrap().to_string();
    let source = || {
        let _program = networks.client.run(|| dial(&address).unwrap());
        direct.accept().unwrap().1.ip().to_string()
    };
    until("the settings have changed", || source() == "10.1.0.2");
    flows.go_on();
    assert!(!networks.left().contains("whimbrel_kill0"), "{}", networks.left());
    // What a process has taken over goes with it.
    near.running.signal("-KILL");
    near.running.end();
    until("the table is gone", || !networks.gate.command("nft list tables").contains("whimbrel0"));
    let near = Near::start(&networks, &far.listening, all);
    exchange(&networks, &networks.client, "10.9.0.1:0");
    near.running.signal("-TERM");
    assert_eq!(near.running.end().0, Some(0));
    assert_eq!(networks.left(), "table inet watch\n", "a stop leaves nothing");
}

#[test]
fn a_proxy_that_took_over_leaves_nothing_when_it_stops() {
    let Some(networks) = Networks::new("tproxy-replace-stop") else { return };
    let far = networks.start_far();
    let all = &*tproxy("interfaces = ['lan0']\nkill_switch = true");
    let mut near = Near::start(&networks, &far.listening, all);
    near.replace(all);
    exchange(&networks, &networks.client, "10.9.0.1:0");
    near.running.signal("-TERM");
    assert_eq!(near.running.end().0, Some(0));
    assert_eq!(networks.left(), "");
}
