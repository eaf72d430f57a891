//! Tests of interception by a TUN interface: programs on a host with the near proxy, a host behind it, and a far proxy
//! with servers, each in a network of its own. They need root and, to look for what is left, nftables.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "tproxy/networks.rs"]
mod networks;
#[path = "tproxy/programs.rs"]
#[allow(dead_code, reason = "each test file uses a part")]
mod programs;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::assert_fails;
use networks::{Net, Networks, PATIENCE, Pair, until};
use programs::{again, dial, exchange, payload, read_to_end, talk, udp};

/// Everything is intercepted but what the proxy itself sends.
const ALL: &str = "routes = ['0.0.0.0/0', '::/0']";
const STACKS: [&str; 2] = ["kernel", "userspace"];

fn pair(networks: &Networks, tun: &str, rules: &str) -> Pair {
    let far = networks.start_far();
    let near = networks.started(&mut near(networks, &far.listening, tun, rules));
    Pair { near, far }
}

fn near(networks: &Networks, url: &str, tun: &str, rules: &str) -> Command {
    networks.near_by(url, &format!("[in.tun]\n{tun}"), rules)
}

/// Connections that go nowhere end as they do without a proxy.
fn fail_as_directly(net: &Net) {
    // A port that is taken and does not listen.
    for address in ["10.9.0.1:1", "[fd09::1]:1"] {
        assert_eq!(net.run(|| dial(address).unwrap_err()), ErrorKind::ConnectionRefused, "{address}");
    }
    // The last one is not permitted by the far end.
    for address in ["10.9.0.66:80", "[fd09::66]:80", "10.8.0.1:80"] {
        assert_eq!(net.run(|| dial(address).unwrap_err()), ErrorKind::HostUnreachable, "{address}");
    }
    // The far end gives up after a second. The program hears nothing.
    for address in ["10.9.0.77:80", "[fd09::77]:80"] {
        let patience = Duration::from_secs(3);
        let silent = net.run(|| TcpStream::connect_timeout(&address.parse().unwrap(), patience).unwrap_err());
        assert_eq!(silent.raw_os_error(), None, "only the program's own patience ends: {silent}");
    }
}

/// A program in `net` and a server behind the far proxy send each other much at the same time. Then the server ends
/// first, and the program goes on.
fn send_much(networks: &Networks, net: &Net, address: &str) {
    let sent = payload(20_000_000);
    let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
    let to = listener.local_addr().unwrap().to_string();
    let wanted = sent.clone();
    let server = thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut writing = tcp.try_clone().unwrap();
        let bytes = wanted.clone();
        let writer = thread::spawn(move || {
            writing.write_all(&bytes).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let read = read_to_end(&tcp);
        writer.join().unwrap();
        assert!(read == [&wanted[..], b"last words"].concat(), "what the server read");
    });
    net.run(|| {
        let mut tcp = dial(&to).unwrap();
        let reading = {
            let tcp = tcp.try_clone().unwrap();
            thread::spawn(move || read_to_end(&tcp))
        };
        tcp.write_all(&sent).unwrap();
        assert!(reading.join().unwrap() == sent, "what the program read");
        // The other direction has ended.
        tcp.write_all(b"last words").unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
    });
    server.join().unwrap();
}

#[test]
fn tcp_of_this_host_is_carried_and_closed_ports_look_closed() {
    let Some(networks) = Networks::new("tun-tcp") else { return };
    for stack in STACKS {
        let pair = pair(&networks, &format!("{ALL}\nstack = '{stack}'"), "");
        for address in ["10.9.0.1:0", "[fd09::1]:0"] {
            exchange(&networks, &networks.gate, address);
            send_much(&networks, &networks.gate, address);
        }
        fail_as_directly(&networks.gate);
        pair.near.signal("-TERM");
        assert_eq!(pair.near.end().0, Some(0));
        assert_eq!(networks.left(), "", "a stop leaves nothing");
    }
}

#[test]
fn hosts_behind_an_interface_are_served_too() {
    let Some(networks) = Networks::new("tun-lan") else { return };
    for stack in STACKS {
        let tun =
            format!("{ALL}\nexcept = ['10.1.0.0/16', 'fd01::/16']\ninterfaces = ['lan0']\nstack = '{stack}'");
        let _pair = pair(&networks, &tun, "");
        for address in ["10.9.0.1:0", "[fd09::1]:0"] {
            exchange(&networks, &networks.client, address);
            send_much(&networks, &networks.client, address);
        }
        fail_as_directly(&networks.client);
        talk(&networks, &networks.client, ["10.9.0.1:0", "10.9.0.2:0"]);
        talk(&networks, &networks.client, ["[fd09::1]:0", "[fd09::2]:0"]);
        // What is left out goes on as without a proxy.
        let service = networks.gate.run(|| TcpListener::bind("10.1.0.1:0").unwrap());
        let _program = networks.client.run(|| dial(&service.local_addr().unwrap().to_string()).unwrap());
        assert_eq!(service.accept().unwrap().1.ip().to_string(), "10.1.0.2");
    }
}

#[test]
fn an_early_accepted_connection_sends_at_once_and_is_reset_if_nobody_listens() {
    let Some(networks) = Networks::new("tun-early") else { return };
    for stack in STACKS {
        let rule = "[[rule]]\nname = 'early'\nprotocol = 'tcp'\naccept = 'early'";
        let _pair = pair(&networks, &format!("{ALL}\nstack = '{stack}'"), rule);
        exchange(&networks, &networks.gate, "10.9.0.1:0");
        // Nobody ever answers there, and still the program is connected.
        for address in ["10.9.0.77:1", "[fd09::77]:1"] {
            let ended = networks.gate.run(|| {
                let mut tcp = dial(address).expect("accepted before the far end has given up");
                tcp.write_all(b"hello").unwrap();
                again(|| tcp.read(&mut [0; 9])).map_err(|error| error.kind())
            });
            assert_eq!(ended, Err(ErrorKind::ConnectionReset), "{address}");
        }
    }
}

#[test]
fn a_firewall_that_lets_nobody_connect_leaves_tcp_in_userspace() {
    let Some(networks) = Networks::new("tun-firewall") else { return };
    networks.gate.command("nft table inet mine { chain in { type filter hook input priority 0; tcp flags & (fin | syn | rst | ack) == syn drop; }; }");
    let listener = networks.far.run(|| TcpListener::bind("10.9.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    for stack in STACKS {
        let _pair = pair(&networks, &format!("{ALL}\nstack = '{stack}'"), "");
        if stack == "userspace" {
            exchange(&networks, &networks.gate, "10.9.0.1:0");
            exchange(&networks, &networks.gate, "[fd09::1]:0");
        } else {
            let patience = Duration::from_secs(2);
            let silent = networks.gate.run(|| TcpStream::connect_timeout(&address, patience).unwrap_err());
            assert_eq!(silent.kind(), ErrorKind::TimedOut);
        }
    }
}

#[test]
fn a_reset_is_a_reset_in_both_directions() {
    let Some(networks) = Networks::new("tun-reset") else { return };
    for stack in STACKS {
        let _pair = pair(&networks, &format!("{ALL}\nstack = '{stack}'"), "");
        let listener = networks.far.run(|| TcpListener::bind("10.9.0.1:0").unwrap());
        let address = listener.local_addr().unwrap().to_string();
        for resets_server in [true, false] {
            let program = networks.gate.run(|| dial(&address).unwrap());
            let (server, _) = listener.accept().unwrap();
            server.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut resets, mut hears) = if resets_server { (server, program) } else { (program, server) };
            hears.write_all(b"unread").unwrap();
            until("it has come", || resets.peek(&mut [0; 9]).unwrap() == 6);
            resets.write_all(b"x").unwrap();
            hears.read_exact(&mut [0]).unwrap();
            // Unread bytes make it a reset.
            drop(resets);
            let heard = again(|| hears.read(&mut [0; 9])).map_err(|error| error.kind());
            assert_eq!(heard, Err(ErrorKind::ConnectionReset), "{stack}");
        }
    }
}

#[test]
fn datagrams_keep_their_source_and_anybody_may_answer() {
    let Some(networks) = Networks::new("tun-udp") else { return };
    let _pair =
        pair(&networks, ALL, "[[rule]]\nname = 'no'\nprotocol = 'udp'\nto = ['*:9']\naction = 'reject'");
    talk(&networks, &networks.gate, ["10.9.0.1:0", "10.9.0.2:0"]);
    talk(&networks, &networks.gate, ["[fd09::1]:0", "[fd09::2]:0"]);
    // As long as any: on IPv6, the kernel has to take this one apart.
    for address in ["10.9.0.1:0", "[fd09::1]:0"] {
        let server = networks.far.run(|| udp(address));
        let any = if server.local_addr().unwrap().is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let program = networks.gate.run(|| udp(any));
        let (sent, mut buffer) = (payload(65_507), vec![0; 70_000]);
        program.send_to(&sent, server.local_addr().unwrap()).unwrap();
        let (got, from) = again(|| server.recv_from(&mut buffer)).unwrap();
        assert!(buffer[..got] == sent);
        server.send_to(&sent, from).unwrap();
        let (got, source) = again(|| program.recv_from(&mut buffer)).unwrap();
        assert!(buffer[..got] == sent);
        assert_eq!(source, server.local_addr().unwrap());
    }
    // Several in one packet.
    for address in ["10.9.0.1:0", "[fd09::1]:0"] {
        let server = networks.far.run(|| udp(address));
        let any = if server.local_addr().unwrap().is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let program = networks.gate.run(|| udp(any));
        send_in_segments_of(&program, 1_000);
        let (sent, mut buffer) = (payload(4_300), vec![0; 70_000]);
        program.send_to(&sent, server.local_addr().unwrap()).unwrap();
        // They may overtake one another.
        let mut got: Vec<Vec<u8>> = (0..5)
            .map(|_| {
                let (length, _) = again(|| server.recv_from(&mut buffer)).unwrap();
                buffer[..length].to_vec()
            })
            .collect();
        let mut wanted: Vec<Vec<u8>> = sent.chunks(1_000).map(<[u8]>::to_vec).collect();
        got.sort();
        wanted.sort();
        assert!(got == wanted, "{:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
    }
    let rejected = networks.gate.run(|| {
        let program = udp("0.0.0.0:0");
        program.connect("10.9.0.1:9").unwrap();
        program.send(b"no").unwrap();
        again(|| program.recv(&mut [0; 9])).unwrap_err().kind()
    });
    assert_eq!(rejected, ErrorKind::HostUnreachable);
}

/// Has the kernel cut what is sent into datagrams of this size, as late as possible.
#[allow(unsafe_code, reason = "no safe crate of ours has this option")]
fn send_in_segments_of(socket: &UdpSocket, size: i32) {
    let (value, length) = ((&raw const size).cast(), size_of::<i32>() as u32);
    // SAFETY: the value lives through the call, and has this length.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, length) };
    assert_eq!(set, 0);
}

#[test]
fn services_of_this_host_answer_and_direct_connections_do_not_loop() {
    let Some(networks) = Networks::new("tun-services") else { return };
    let rules = "[[rule]]\nname = 'direct'\nprotocol = 'tcp'\nto = ['10.2.0.2:*']\naction = 'direct'";
    let _pair = pair(&networks, ALL, rules);
    for service in ["10.2.0.1:0", "[fd02::1]:0"] {
        let listener = networks.gate.run(|| TcpListener::bind(service).unwrap());
        let address = listener.local_addr().unwrap().to_string();
        let program = networks.far.run(|| dial(&address).unwrap());
        let (mut accepted, from) = listener.accept().unwrap();
        assert_eq!(from, program.local_addr().unwrap());
        accepted.write_all(b"hi").unwrap();
        drop(accepted);
        assert_eq!(read_to_end(&program), b"hi");
    }
    let listener = networks.far.run(|| TcpListener::bind("10.2.0.2:0").unwrap());
    let program = networks.gate.run(|| dial(&listener.local_addr().unwrap().to_string()).unwrap());
    let (mut accepted, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), "10.2.0.1", "the proxy has connected by itself");
    accepted.write_all(b"hi").unwrap();
    drop(accepted);
    assert_eq!(read_to_end(&program), b"hi");
}

#[test]
fn a_connection_of_a_former_proxy_is_reset() {
    let Some(networks) = Networks::new("tun-stray") else { return };
    let pair = pair(&networks, ALL, "");
    let listener = networks.far.run(|| TcpListener::bind("10.9.0.1:0").unwrap());
    let mut program = networks.gate.run(|| dial(&listener.local_addr().unwrap().to_string()).unwrap());
    let (_accepted, _) = listener.accept().unwrap();
    pair.near.signal("-KILL");
    pair.near.end();
    let _near = networks.started(&mut near(&networks, &pair.far.listening, ALL, ""));
    // Its first attempt may have been lost meanwhile.
    drop(program.write_all(b"still there?"));
    let heard = again(|| program.read(&mut [0; 9])).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_killed_proxy_leaves_only_what_cleanup_finds_and_others_stay() {
    let Some(networks) = Networks::new("tun-killed") else { return };
    networks.gate.command("ip -4 route add 10.77.0.0/16 dev lo table 7700 protocol 78");
    let far = networks.start_far();
    let url = far.listening.clone();
    let first = networks.started(&mut near(&networks, &url, ALL, ""));
    let second = networks.started(&mut near(&networks, &url, "routes = ['10.9.0.2/32', 'fd09::2/128']", ""));
    let links = || networks.gate.command("ip -brief link");
    assert!(links().contains("whimbrel0") && links().contains("whimbrel1"));
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    first.signal("-KILL");
    first.end();
    until("the interface is gone", || !links().contains("whimbrel0"));
    assert!(networks.left().contains("lookup 7700"), "a rule is left: {}", networks.left());
    let cleanup = || {
        let mut command = common::whimbrel(&networks.homes[0]);
        // A host without nft.
        command.args(["proxy", "cleanup"]).env("PATH", only_ip(&networks));
        let output = networks.gate.run(|| command.output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(cleanup(), "removed rules and routes of 1 proxy; left alone what runs: 1 proxy\n");
    let left = networks.left();
    let of_first = left.contains("7700") || left.contains("7701");
    assert!(!of_first && left.contains("lookup 7702") && left.contains("whimbrel1"), "{left}");
    assert_eq!(cleanup(), "no killed proxy left rules or routes; left alone what runs: 1 proxy\n");
    assert!(networks.gate.command("ip -4 route show table 7700").contains("10.77.0.0/16"), "others' stays");
    // The other one still works.
    exchange(&networks, &networks.gate, "10.9.0.2:0");
    exchange(&networks, &networks.gate, "[fd09::2]:0");
    // The next one takes away what the one before left, and works.
    second.signal("-KILL");
    second.end();
    let third = networks.started(&mut near(&networks, &url, ALL, ""));
    assert!(!networks.left().contains("7702"), "{}", networks.left());
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    third.signal("-TERM");
    assert_eq!(third.end().0, Some(0));
    assert_eq!(networks.left(), "");
}

/// A folder with `ip` and without `nft`.
fn only_ip(networks: &Networks) -> std::path::PathBuf {
    let folder = networks.homes[0].file("bin");
    if !folder.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let ip = Command::new("sh").args(["-c", "command -v ip"]).output().unwrap().stdout;
        std::os::unix::fs::symlink(String::from_utf8(ip).unwrap().trim(), folder.join("ip")).unwrap();
    }
    folder
}

#[test]
fn what_is_missing_is_said_and_nothing_is_left() {
    let Some(networks) = Networks::new("tun-missing") else { return };
    let url = "whimbrel://9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0@10.2.0.2:9";
    let fails = |command: &mut Command, hint: &str| {
        let output = networks.gate.run(|| command.output().unwrap());
        assert_fails(&output, hint);
        assert_eq!(output.status.code(), Some(1), "{hint}");
        assert_eq!(networks.left(), "", "{hint}");
    };
    let near = |tun: &str| near(&networks, url, tun, "");
    fails(near(ALL).env("PATH", networks.homes[0].file("")), "needs the program `ip`");
    let userspace = || near(&format!("{ALL}\nstack = 'userspace'"));
    assert_fails(&networks.gate.run(|| userspace().arg("--replace").output().unwrap()), "cannot be replaced");
    networks.gate.command("ip link add whimbrel0 type veth peer name other");
    let output = networks.gate.run(|| near(ALL).output().unwrap());
    assert_fails(&output, "another program has an interface `whimbrel0`");
    networks.gate.command("ip link del whimbrel0");
    // In place of the device there is something that is none.
    let mut without = Command::new("unshare");
    let hidden = "mount --bind /dev/null /dev/net/tun && exec \"$0\" \"$@\"";
    let whole = near(ALL);
    without.args(["--mount", "sh", "-c", hidden]).arg(whole.get_program()).args(whole.get_args());
    without.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
    fails(&mut without, "has no TUN interfaces");
    networks.gate.set("ipv4/ip_forward", "0");
    networks.gate.set("ipv6/conf/all/forwarding", "0");
    fails(&mut near(&format!("{ALL}\ninterfaces = ['lan0']")), "does not forward traffic from `lan0`");
    networks.gate.set("ipv6/conf/all/disable_ipv6", "1");
    networks.gate.set("ipv6/conf/lo/disable_ipv6", "1");
    fails(&mut near("routes = ['::/0']"), "has no IPv6");
    // Without the right to alter the network.
    let whole = near(ALL);
    let mut bare = Command::new("setpriv");
    bare.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"])
        .arg(whole.get_program())
        .args(whole.get_args());
    bare.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
    fails(&mut bare, "CAP_NET_ADMIN");
}

#[test]
fn a_host_without_ipv6_is_served_in_ipv4() {
    let Some(networks) = Networks::new("tun-v4") else { return };
    networks.gate.set("ipv6/conf/all/disable_ipv6", "1");
    networks.gate.set("ipv6/conf/default/disable_ipv6", "1");
    let pair = pair(&networks, ALL, "");
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    talk(&networks, &networks.gate, ["10.9.0.1:0", "10.9.0.2:0"]);
    // Somebody takes the interface away. A stop still takes away the rest.
    networks.gate.command("ip link del whimbrel0");
    assert!(networks.left().contains("lookup 7700"));
    pair.near.signal("-TERM");
    assert_eq!(pair.near.end().0, Some(0));
    assert_eq!(networks.left(), "");
}

#[test]
fn regression_no_path_of_the_session_leads_through_its_own_interface() {
    let Some(networks) = Networks::new("tun-paths") else { return };
    let far = networks.start_far();
    let control = networks.homes[0].file("control");
    let mut command = near(&networks, &far.listening, ALL, "");
    command.arg("--control").arg(&control);
    let _near = networks.started(&mut command);
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    let mut status = common::whimbrel(&networks.homes[0]);
    status.args(["proxy", "status", "--json"]).arg(&control);
    let shown = String::from_utf8(networks.gate.run(|| status.output().unwrap()).stdout).unwrap();
    assert!(shown.contains("10.2.0.2"), "{shown}");
    for own in ["169.254.", "fd57:4849:"] {
        let local: Vec<_> =
            shown.match_indices(own).map(|(at, _)| &shown[at.saturating_sub(40)..at]).collect();
        assert!(!local.iter().any(|before| before.contains("\"local\"")), "{shown}");
    }
}
