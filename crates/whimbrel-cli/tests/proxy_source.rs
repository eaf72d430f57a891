//! Tests of `source`: the far end connects and sends in the names of programs behind the near one. They need root.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "tproxy/networks.rs"]
mod networks;
#[path = "tproxy/programs.rs"]
#[allow(dead_code, reason = "each test file uses a part")]
mod programs;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use common::{Running, assert_fails, whimbrel};
use networks::{Net, Networks};
use programs::{asks, dial, udp};

/// The line of a far proxy's file that lets its peer speak in the names of programs in these networks.
const NAMES: &str = "source = ['10.1.0.0/16', 'fd01::/16']";

/// The hosts, and a server behind the far one.
fn networks(name: &str) -> Option<(Networks, Net)> {
    let networks = Networks::new(name)?;
    let server = Net::new()?;
    networks.far.cable("srv0", &server, "eth0", "3");
    server.command("ip link set lo up");
    server.command("ip -4 route add default via 10.3.0.1");
    server.command("ip -6 route add default via fd03::1");
    Some((networks, server))
}

/// Has the far host take what servers answer to programs behind the near one.
fn route_back(networks: &Networks) {
    for (family, net) in [("-4", "10.1.0.0/16"), ("-6", "fd01::/16")] {
        networks.far.command(&format!("ip {family} rule add iif srv0 lookup 100"));
        networks.far.command(&format!("ip {family} route add local {net} dev lo table 100"));
    }
}

/// The command that starts a far proxy which says this of its peer.
fn far_command(networks: &Networks, more: &str) -> Command {
    let command = networks.far_command();
    let path = networks.homes[1].file("far.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let control = networks.homes[1].file("control");
    let text =
        text.replace("may_open = [", &format!("{more}\nmay_open = ['10.3.0.0/16:*', '[fd03::]/16:*', "));
    std::fs::write(&path, format!("{text}[service]\ncontrol = '{}'\n", control.display())).unwrap();
    command
}

fn start(networks: &Networks, more: &str) -> (Running, Running) {
    let far = networks.far.run(|| Running::listening(&mut far_command(networks, more)));
    assert!(!far.listening.is_empty(), "{:?}", far.end());
    let near =
        networks.started(&mut networks.near(&far.listening, "interfaces = ['lan0']\noutput = true", ""));
    (far, near)
}

/// A program in `net` connects to a server. Returns its own address, and the one that the server sees.
fn tcp(net: &Net, server: &Net, address: &str) -> (SocketAddr, SocketAddr) {
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let mut program = net.run(|| dial(&listener.local_addr().unwrap().to_string()).unwrap());
    let (mut accepted, from) = listener.accept().unwrap();
    program.write_all(b"question").unwrap();
    accepted.read_exact(&mut [0; 8]).unwrap();
    accepted.write_all(b"answer").unwrap();
    program.read_exact(&mut [0; 6]).unwrap();
    (program.local_addr().unwrap(), from)
}

#[test]
fn a_server_sees_programs_where_they_are_as_far_as_the_file_says() {
    let Some((networks, server)) = networks("source") else { return };
    route_back(&networks);
    let (far, near) = start(&networks, NAMES);
    for (address, far_host) in [("10.3.0.2:0", "10.3.0.1"), ("[fd03::2]:0", "fd03::1")] {
        let (program, seen) = tcp(&networks.client, &server, address);
        assert_eq!(seen, program, "address and port are the program's");
        // Programs of the gateway itself are in none of the networks.
        let (program, seen) = tcp(&networks.gate, &server, address);
        assert_ne!(seen.ip(), program.ip());
        assert_eq!(seen.ip().to_string(), far_host);
        let own = networks.client.run(|| {
            let program = udp(if seen.is_ipv4() { "10.1.0.2:0" } else { "[fd01::2]:0" });
            program.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            program
        });
        let (one, other) = server.run(|| (udp(address), udp(address)));
        assert_eq!(asks(&own, &one), own.local_addr().unwrap());
        assert_eq!(asks(&own, &other), own.local_addr().unwrap(), "to every server it is the same");
    }
    // Another session of the same peer goes on with the same addresses, though the former one has them still.
    let own = networks.client.run(|| udp("10.1.0.2:0"));
    let one = server.run(|| udp("10.3.0.2:0"));
    assert_eq!(asks(&own, &one), own.local_addr().unwrap());
    near.signal("-KILL");
    near.end();
    let near =
        networks.started(&mut networks.near(&far.listening, "interfaces = ['lan0']\noutput = true", ""));
    assert_eq!(asks(&own, &one), own.local_addr().unwrap());
    // Taken out of the file, it holds for new flows.
    drop(far_command(&networks, ""));
    let said =
        whimbrel(&networks.homes[1]).arg("reload").arg(networks.homes[1].file("control")).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("has new permits"), "{said}");
    assert_eq!(tcp(&networks.client, &server, "10.3.0.2:0").1.ip().to_string(), "10.3.0.1");
    drop((far, near));
}

#[test]
fn without_the_right_to_it_is_one_sentence() {
    let Some((networks, _server)) = networks("source-rights") else { return };
    let whole = far_command(&networks, "source = true");
    let mut bare = Command::new("setpriv");
    bare.args(["--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw"])
        .arg(whole.get_program())
        .args(whole.get_args());
    bare.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = networks.far.run(|| bare.output().unwrap());
    assert_fails(&output, "`source` of a [[peer]] needs root");
    // A mistake has its place.
    drop(far_command(&networks, "source = 'all'"));
    let checked = whimbrel(&networks.homes[1])
        .args(["proxy", "check"])
        .arg(networks.homes[1].file("far.toml"))
        .output();
    assert_fails(&checked.unwrap(), "far.toml:7:");
}
