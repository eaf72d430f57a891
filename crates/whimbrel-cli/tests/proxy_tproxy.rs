//! Tests of interception by TPROXY: a program, a gateway with the near proxy, and a far proxy with servers, each in a
//! network of its own. They need root and nftables.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "tproxy/groups.rs"]
mod groups;
#[path = "tproxy/networks.rs"]
mod networks;
#[path = "tproxy/pinger.rs"]
mod pinger;
#[path = "tproxy/pinging.rs"]
mod pinging;
#[path = "tproxy/programs.rs"]
mod programs;
#[path = "tproxy/replaceable.rs"]
mod replaceable;
#[path = "tproxy/replacing.rs"]
mod replacing;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use common::assert_fails;
use networks::{Networks, until};
use programs::{again, connect, dial, exchange, read_to_end, stream_to, talk, udp};

const LAN: &str = "interfaces = ['lan0']";

#[test]
fn tcp_of_hosts_behind_a_gateway_is_carried_and_closed_ports_look_closed() {
    let Some(networks) = Networks::new("tproxy-tcp") else { return };
    let pair = networks.pair(LAN, "");
    for address in ["10.9.0.1:0", "[fd09::1]:0"] {
        exchange(&networks, &networks.client, address);
    }
    // A port that is taken and does not listen.
    for address in ["10.9.0.1:1", "[fd09::1]:1"] {
        let refused = networks.client.run(|| dial(address).unwrap_err());
        assert_eq!(refused, ErrorKind::ConnectionRefused, "{address}");
    }
    for address in ["10.9.0.66:80", "[fd09::66]:80"] {
        let unreachable = networks.client.run(|| dial(address).unwrap_err());
        assert_eq!(unreachable, ErrorKind::HostUnreachable, "{address}");
    }
    // What the far end does not permit.
    let denied = networks.client.run(|| dial("10.8.0.1:80").unwrap_err());
    assert_eq!(denied, ErrorKind::HostUnreachable);
    // The far end gives up after a second. The program hears nothing.
    for address in ["10.9.0.77:80", "[fd09::77]:80"] {
        let patience = Duration::from_secs(3);
        let silent = networks
            .client
            .run(|| TcpStream::connect_timeout(&address.parse().unwrap(), patience).unwrap_err());
        assert_eq!(silent.raw_os_error(), None, "only the program's own patience ends: {silent}");
    }
    pair.near.signal("-TERM");
    assert_eq!(pair.near.end().0, Some(0));
    assert_eq!(networks.left(), "", "a stop leaves nothing");
}

#[test]
fn an_early_accepted_connection_sends_at_once_and_is_reset_if_nobody_listens() {
    let Some(networks) = Networks::new("tproxy-early") else { return };
    let _pair = networks.pair(LAN, "[[rule]]\nname = 'early'\nprotocol = 'tcp'\naccept = 'early'");
    exchange(&networks, &networks.client, "10.9.0.1:0");
    // Nobody ever answers there, and still the program is connected.
    for address in ["10.9.0.77:1", "[fd09::77]:1"] {
        let ended = networks.client.run(|| {
            let mut tcp = dial(address).expect("accepted before the far end has given up");
            tcp.write_all(b"hello").unwrap();
            again(|| tcp.read(&mut [0; 9])).map_err(|error| error.kind())
        });
        assert_eq!(ended, Err(ErrorKind::ConnectionReset), "{address}");
    }
}

#[test]
fn datagrams_keep_their_source_and_anybody_may_answer() {
    let Some(networks) = Networks::new("tproxy-udp") else { return };
    let _pair =
        networks.pair(LAN, "[[rule]]\nname = 'no'\nprotocol = 'udp'\nto = ['*:9']\naction = 'reject'");
    for addresses in [
        ["10.9.0.1:0", "10.9.0.2:0"],
        ["[fd09::1]:0", "[fd09::2]:0"],
        // Ports of services, of which the gateway may have some itself.
        ["10.9.0.1:53", "10.9.0.2:53"],
        ["[fd09::1]:53", "[fd09::2]:53"],
    ] {
        talk(&networks, &networks.client, addresses);
    }
    // A program of the gateway has the port, on one address or on all.
    for (address, port) in [("10.1.0.1", 5_000), ("0.0.0.0", 5_001)] {
        let _taken = networks.gate.run(|| udp(&format!("{address}:{port}")));
        let [server, third] = ["10.9.0.1", "10.9.0.2"].map(|far| format!("{far}:{port}"));
        talk(&networks, &networks.client, [&server, &third]);
    }
    // What a rule rejects is refused as by the network.
    let rejected = networks.client.run(|| {
        let program = udp("0.0.0.0:0");
        program.connect("10.9.0.1:9").unwrap();
        program.send(b"no").unwrap();
        again(|| program.recv(&mut [0; 9])).unwrap_err().kind()
    });
    assert_eq!(rejected, ErrorKind::HostUnreachable);
}

#[test]
fn programs_of_the_gateway_itself_are_carried_and_what_the_proxy_sends_is_not() {
    let Some(networks) = Networks::new("tproxy-output") else { return };
    // Direct flows are connections of the proxy itself.
    let rules = "[[rule]]\nname = 'direct'\nprotocol = 'tcp'\nto = ['10.2.0.2:*']\naction = 'direct'";
    let _pair = networks.pair(&format!("{LAN}\noutput = true"), rules);
    for net in [&networks.gate, &networks.client] {
        for address in ["10.9.0.1:0", "[fd09::1]:0"] {
            exchange(&networks, net, address);
        }
        talk(&networks, net, ["10.9.0.1:0", "10.9.0.2:0"]);
        talk(&networks, net, ["[fd09::1]:0", "[fd09::2]:0"]);
    }
    for address in ["10.9.0.1:1", "[fd09::1]:1", "10.2.0.2:1"] {
        assert_eq!(
            networks.gate.run(|| dial(address).unwrap_err()),
            ErrorKind::ConnectionRefused,
            "{address}"
        );
    }
    for address in ["10.9.0.66:80", "[fd09::66]:80"] {
        assert_eq!(networks.gate.run(|| dial(address).unwrap_err()), ErrorKind::HostUnreachable, "{address}");
    }
    // The gateway's own services answer as before, over TCP and UDP.
    let service = networks.gate.run(|| (TcpListener::bind("10.2.0.1:0").unwrap(), udp("10.2.0.1:0")));
    let (tcp, datagrams) = (service.0.local_addr().unwrap(), service.1.local_addr().unwrap());
    let program = networks.far.run(|| dial(&tcp.to_string()).unwrap());
    let (mut accepted, from) = service.0.accept().unwrap();
    assert_eq!(from, program.local_addr().unwrap());
    accepted.write_all(b"hi").unwrap();
    drop(accepted);
    assert_eq!(read_to_end(&program), b"hi");
    let program = networks.far.run(|| udp("10.2.0.2:0"));
    program.send_to(b"?", datagrams).unwrap();
    let (_, from) = again(|| service.1.recv_from(&mut [0; 9])).unwrap();
    assert_eq!(from, program.local_addr().unwrap());
    service.1.send_to(b"!", from).unwrap();
    assert_eq!(again(|| program.recv_from(&mut [0; 9])).unwrap().1, datagrams);
}

#[test]
fn others_connections_services_and_tables_stay_whole() {
    let Some(networks) = Networks::new("tproxy-others") else { return };
    // Somebody's firewall and port forward, and a connection through the gateway.
    networks.far.command("ip -4 route add 10.1.0.0/24 via 10.2.0.1");
    networks.gate.command("nft table inet mine { chain in { type nat hook prerouting priority dstnat; iifname \"wan0\" tcp dport 8080 dnat ip to 10.1.0.2:80; iifname \"wan0\" udp dport 8080 dnat ip to 10.1.0.2:80; }; }");
    let table = networks.gate.command("nft list table inet mine");
    let old = networks.far.run(|| TcpListener::bind("10.9.0.1:0").unwrap());
    let mut before = networks.client.run(|| dial(&old.local_addr().unwrap().to_string()).unwrap());
    let (mut accepted, from) = old.accept().unwrap();
    assert_eq!(from.ip().to_string(), "10.1.0.2", "nothing is intercepted yet");
    let _pair = networks.pair(&format!("{LAN}\noutput = true\nexcept = ['10.9.0.2/32']"), "");
    // It goes on, in both directions.
    before.write_all(b"ping").unwrap();
    accepted.read_exact(&mut [0; 4]).unwrap();
    accepted.write_all(b"pong").unwrap();
    before.read_exact(&mut [0; 4]).unwrap();
    // The port forward still works: what comes from the client is a reply.
    let inside = networks.client.run(|| (TcpListener::bind("10.1.0.2:80").unwrap(), udp("10.1.0.2:80")));
    let outside = networks.far.run(|| (dial("10.2.0.1:8080").unwrap(), udp("10.2.0.2:0")));
    let (mut accepted, from) = inside.0.accept().unwrap();
    assert_eq!(from, outside.0.local_addr().unwrap());
    accepted.write_all(b"forwarded").unwrap();
    drop(accepted);
    assert_eq!(read_to_end(&outside.0), b"forwarded");
    outside.1.send_to(b"?", "10.2.0.1:8080").unwrap();
    let (_, from) = again(|| inside.1.recv_from(&mut [0; 9])).unwrap();
    inside.1.send_to(b"!", from).unwrap();
    assert_eq!(again(|| outside.1.recv_from(&mut [0; 9])).unwrap().1.to_string(), "10.2.0.1:8080");
    // What is left out goes on as without a proxy.
    let direct = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    let _program = networks.client.run(|| dial(&direct.local_addr().unwrap().to_string()).unwrap());
    assert_eq!(direct.accept().unwrap().1.ip().to_string(), "10.1.0.2");
    // The gateway's own address is the gateway.
    assert_eq!(networks.client.run(|| dial("10.1.0.1:1").unwrap_err()), ErrorKind::ConnectionRefused);
    assert_eq!(networks.gate.command("nft list table inet mine"), table);
}

#[test]
fn a_killed_proxy_leaves_only_what_cleanup_finds_and_others_stay() {
    let Some(networks) = Networks::new("tproxy-killed") else { return };
    networks.gate.command("nft table inet mine { chain a { }; }");
    networks.gate.command("ip -4 route add 10.77.0.0/16 dev lo table 7700 protocol 78");
    let far = networks.start_far();
    let url = far.listening.clone();
    let first = networks.started(&mut networks.near(&url, LAN, ""));
    let second = networks.started(&mut networks.near(&url, "interfaces = ['lan1']\nport = 7894", ""));
    let tables = || networks.gate.command("nft list tables");
    assert!(tables().contains("whimbrel0") && tables().contains("whimbrel1"));
    let mut altered = Command::new("nft");
    altered.args(["delete", "table", "inet", "whimbrel0"]);
    assert!(!networks.gate.run(|| altered.output().unwrap()).status.success(), "nobody else can alter it");
    first.signal("-KILL");
    first.end();
    until("the table is gone", || tables() == "table inet mine\ntable inet whimbrel1\n");
    assert!(networks.left().contains("lookup 7700"), "a rule is left: {}", networks.left());
    assert_eq!(networks.cleanup(&[]), "removed rules and routes of 1 proxy; left alone what runs: 1 proxy\n");
    let left = networks.left();
    assert!(!left.contains("7700") && left.contains("lookup 7702") && left.contains("whimbrel1"), "{left}");
    assert_eq!(
        networks.cleanup(&[]),
        "no killed proxy left rules or routes; left alone what runs: 1 proxy\n"
    );
    assert!(networks.gate.command("ip -4 route show table 7700").contains("10.77.0.0/16"), "others' stays");
    // The next one takes away what the one before left, and works.
    second.signal("-KILL");
    second.end();
    let third = networks.started(&mut networks.near(&url, LAN, ""));
    assert!(!networks.left().contains("7702"), "{}", networks.left());
    exchange(&networks, &networks.client, "10.9.0.1:0");
    third.signal("-TERM");
    assert_eq!(third.end().0, Some(0));
    assert_eq!(networks.left(), "table inet mine\n");
}

#[test]
fn a_connection_whose_socket_is_gone_goes_nowhere_else() {
    let Some(networks) = Networks::new("tproxy-stray") else { return };
    let _pair = networks.pair(LAN, "");
    // Counts what is forwarded between the client and the far host.
    networks.gate.command("nft table inet watch { chain forward { type filter hook forward priority 0; iifname \"lan0\" oifname \"wan0\" counter; }; }");
    // The client never hears that its connection was reset.
    networks.client.command("nft table inet deaf { chain in { type filter hook input priority 0; tcp flags & rst == rst counter drop; }; }");
    let listener = networks.far.run(|| TcpListener::bind("10.9.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().to_string();
    let mut program = networks.client.run(|| dial(&address).unwrap());
    let (accepted, _) = listener.accept().unwrap();
    program.write_all(b"one").unwrap();
    until("it has come", || accepted.peek(&mut [0; 9]).unwrap() == 3);
    // Unread bytes make it a reset.
    drop(accepted);
    let resets = || networks.client.command("nft list table inet deaf");
    until("it was reset", || !resets().contains("counter packets 0 "));
    let before = resets();
    program.write_all(b"two").unwrap();
    until("the rest is answered by a reset, too", || resets() != before);
    let watched = networks.gate.command("nft list table inet watch");
    assert!(watched.contains("counter packets 0 "), "it went in the clear: {watched}");
}

#[test]
fn a_host_cannot_make_its_own_flow_look_like_a_reply() {
    let Some(networks) = Networks::new("tproxy-spoof") else { return };
    let _pair = networks.pair(LAN, "");
    let server = networks.far.run(|| udp("10.9.0.1:5300"));
    // The client sends a datagram to itself in the name of the server, by way of the gateway.
    networks.client.command("ip address add 10.9.0.1/32 dev lo");
    networks.client.command("ip route add 10.1.0.3/32 via 10.1.0.1");
    networks.client.set("ipv4/conf/all/accept_local", "1");
    networks.gate.command("nft table inet watch { chain pre { type filter hook prerouting priority raw; iifname \"lan0\" udp sport 5300 counter; }; }");
    networks.client.run(|| udp("10.9.0.1:5300").send_to(b"spoofed", "10.1.0.3:4002").unwrap());
    until("it has come", || {
        !networks.gate.command("nft list table inet watch").contains("counter packets 0 ")
    });
    networks.client.command("ip address del 10.9.0.1/32 dev lo");
    networks.client.command("ip address add 10.1.0.3/32 dev lo");
    let program = networks.client.run(|| udp("10.1.0.3:4002"));
    program.send_to(b"hello", server.local_addr().unwrap()).unwrap();
    let (_, from) = again(|| server.recv_from(&mut [0; 9])).unwrap();
    assert_ne!(from.ip().to_string(), "10.1.0.3", "it went past the proxy");
}

#[test]
fn a_gateway_without_ipv6_serves_ipv4() {
    let Some(networks) = Networks::new("tproxy-v4") else { return };
    networks.gate.set("ipv6/conf/all/disable_ipv6", "1");
    networks.gate.set("ipv6/conf/default/disable_ipv6", "1");
    let _pair = networks.pair(&format!("{LAN}\noutput = true"), "");
    exchange(&networks, &networks.client, "10.9.0.1:0");
    talk(&networks, &networks.gate, ["10.9.0.1:0", "10.9.0.2:0"]);
}

#[test]
fn a_lost_table_is_made_again() {
    let Some(networks) = Networks::new("tproxy-lost") else { return };
    let pair = networks.pair(LAN, "");
    let nft = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", pair.near.id())).unwrap();
        let all =
            threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
        all.collect::<String>().trim().to_owned()
    };
    let before = nft();
    networks.gate.command(&format!("kill -9 {before}"));
    until("there is another", || !nft().is_empty() && nft() != before);
    until("the table is back", || networks.gate.command("nft list tables").contains("whimbrel0"));
    exchange(&networks, &networks.client, "10.9.0.1:0");
}

#[test]
fn what_is_missing_is_said_and_nothing_is_left() {
    let Some(networks) = Networks::new("tproxy-missing") else { return };
    let url = "whimbrel://9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0@10.2.0.2:9";
    let fails = |command: &mut Command, hint: &str| {
        let output = networks.gate.run(|| command.output().unwrap());
        assert_fails(&output, hint);
        assert_eq!(output.status.code(), Some(1), "{hint}");
        assert_eq!(networks.left(), "", "{hint}");
    };
    let near = |tproxy: &str| networks.near(url, tproxy, "");
    // A folder with `ip` and without `nft`.
    let folder = networks.homes[0].file("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let ip = String::from_utf8(Command::new("sh").args(["-c", "command -v ip"]).output().unwrap().stdout);
    std::os::unix::fs::symlink(ip.unwrap().trim(), folder.join("ip")).unwrap();
    fails(near(LAN).env("PATH", &folder), "needs the program `nft`");
    fails(near(LAN).env("PATH", networks.homes[0].file("")), "needs the program `nft`");
    let taken = networks.gate.run(|| TcpListener::bind("127.0.0.1:7893").unwrap());
    fails(&mut near(LAN), "another program uses port 7893");
    drop(taken);
    networks.gate.command("nft create table inet whimbrel0");
    let output = networks.gate.run(|| near(LAN).output().unwrap());
    assert_fails(&output, "another program has a table of that name");
    assert_eq!(networks.left(), "table inet whimbrel0\n", "somebody's table stays");
    networks.gate.command("nft delete table inet whimbrel0");
    networks.gate.set("ipv4/conf/all/rp_filter", "1");
    fails(&mut near(LAN), "rp_filter=2");
    networks.gate.set("ipv4/conf/all/rp_filter", "0");
    networks.gate.set("ipv4/ip_forward", "0");
    networks.gate.set("ipv6/conf/all/forwarding", "0");
    fails(&mut near(LAN), "does not forward traffic from `lan0`");
    // Without the right to alter the network.
    networks.gate.set("ipv4/ip_forward", "1");
    let near = near(LAN);
    let mut bare = Command::new("setpriv");
    bare.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"])
        .arg(near.get_program())
        .args(near.get_args());
    bare.envs(near.get_envs().filter_map(|(name, value)| Some((name, value?))));
    fails(&mut bare, "CAP_NET_ADMIN");
}

#[test]
fn a_kill_switch_rejects_what_a_killed_proxy_carried() {
    let Some(networks) = Networks::new("tproxy-switch") else { return };
    networks.far.command("ip -4 route add 10.1.0.0/24 via 10.2.0.1");
    let tproxy = format!("{LAN}\noutput = true\nkill_switch = true\nexcept = ['10.9.0.2/32']");
    let pair = networks.pair(&tproxy, "");
    for net in [&networks.client, &networks.gate] {
        exchange(&networks, net, "10.9.0.1:0");
        talk(&networks, net, ["10.9.0.1:0", "10.9.0.1:0"]);
    }
    pair.near.signal("-KILL");
    pair.near.end();
    until("the table is gone", || !networks.gate.command("nft list tables").contains("whimbrel0\n"));
    let server = networks.far.run(|| (TcpListener::bind("10.9.0.1:0").unwrap(), udp("10.9.0.1:0")));
    let (tcp, datagrams) = (server.0.local_addr().unwrap(), server.1.local_addr().unwrap());
    let other = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    for net in [&networks.client, &networks.gate] {
        let refused = net.run(|| dial(&tcp.to_string()).unwrap_err());
        assert_eq!(refused, ErrorKind::ConnectionRefused);
        let refused = net.run(|| {
            let program = udp("0.0.0.0:0");
            program.connect(datagrams).unwrap();
            // The gateway's own are told by the call itself.
            program.send(b"x").and_then(|_| again(|| program.recv(&mut [0; 9]))).unwrap_err().kind()
        });
        assert!(matches!(refused, ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied), "{refused:?}");
        net.run(|| dial(&other.local_addr().unwrap().to_string()).unwrap());
    }
    server.0.set_nonblocking(true).unwrap();
    server.1.set_nonblocking(true).unwrap();
    assert!(server.0.accept().is_err() && server.1.recv(&mut [0; 9]).is_err(), "nothing went in the clear");
    let said = networks.cleanup(&[]);
    assert!(said.contains("the kill switch of 1 proxy still rejects traffic"), "{said}");
    // The next one gets through, and takes the switch away when it is stopped.
    let near = networks.started(&mut networks.near(&pair.far.listening, &tproxy, ""));
    exchange(&networks, &networks.client, "10.9.0.1:0");
    near.signal("-TERM");
    assert_eq!(near.end().0, Some(0));
    assert_eq!(networks.left(), "");
    // One that stays can be taken away.
    let near = networks.started(&mut networks.near(&pair.far.listening, &tproxy, ""));
    near.signal("-KILL");
    near.end();
    assert_eq!(
        networks.cleanup(&["--all"]),
        "removed rules and routes of 1 proxy; removed the kill switch of 1 proxy\n"
    );
    assert_eq!(networks.left(), "");
}

#[test]
fn rules_know_the_interface_and_the_dscp() {
    /// Expedited forwarding, as a traffic class.
    const EF: u32 = 46 << 2;
    let Some(networks) = Networks::new("tproxy-origin") else { return };
    let _pair = networks.pair(
        "interfaces = ['lan0']\noutput = true",
        "[[rule]]\nname = 'own'\ninterface = 'lo'\nprotocol = 'tcp'\nto = ['10.9.0.2:*']\naction = 'reject'\n\
         [[rule]]\nname = 'voice'\ndscp = 'ef'\naction = 'reject'\n\
         [[rule]]\nname = 'lan'\ninterface = 'lan*'\n\
         [[rule]]\nname = 'gateway'\ninterface = 'lo'\n\
         [[rule]]\nname = 'none'\naction = 'reject'\n",
    );
    for address in ["10.9.0.1:0", "[fd09::1]:0", "10.9.0.2:0"] {
        exchange(&networks, &networks.client, address);
    }
    exchange(&networks, &networks.gate, "10.9.0.1:0");
    // The client may go there, and the gateway itself may not.
    let listener = networks.far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
    let own = networks.gate.run(|| dial(&listener.local_addr().unwrap().to_string()).unwrap_err());
    assert_eq!(own, ErrorKind::HostUnreachable);
    for address in ["10.9.0.1:0", "[fd09::1]:0"] {
        let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
        let server = listener.local_addr().unwrap();
        let refused = networks.client.run(|| {
            let socket = stream_to(server);
            match server.is_ipv4() {
                true => socket.set_tos_v4(EF).unwrap(),
                false => socket.set_tclass_v6(EF).unwrap(),
            }
            connect(socket, server).unwrap_err()
        });
        // What the network prohibits is a lack of permission in IPv6.
        let prohibited =
            [ErrorKind::PermissionDenied, ErrorKind::HostUnreachable][usize::from(server.is_ipv4())];
        assert_eq!(refused, prohibited, "{address}");
        // Datagrams to one server, with and without it.
        let server = networks.far.run(|| udp(address));
        let any = if server.local_addr().unwrap().is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let program = networks.client.run(|| udp(any));
        let class = |class: u32| {
            let socket = socket2::SockRef::from(&program);
            match any {
                "0.0.0.0:0" => socket.set_tos_v4(class).unwrap(),
                _ => socket.set_tclass_v6(class).unwrap(),
            }
        };
        for (at, value) in [(1, EF), (2, 0), (3, EF), (4, 0)] {
            class(value);
            program.send_to(&[at], server.local_addr().unwrap()).unwrap();
        }
        let mut buffer = [0; 9];
        for wanted in [2, 4] {
            let (length, from) = again(|| server.recv_from(&mut buffer)).unwrap();
            assert_eq!((length, buffer[0]), (1, wanted), "{address}");
            server.send_to(&[wanted], from).unwrap();
            again(|| program.recv(&mut buffer)).unwrap();
            assert_eq!(buffer[0], wanted);
        }
    }
}

#[test]
fn an_early_accepted_connection_has_the_dscp_of_its_syn() {
    const EF: u32 = 46 << 2;
    let Some(networks) = Networks::new("tproxy-early-dscp") else { return };
    // The rule decides once the connection is accepted, whose packets nobody sees any more.
    let _pair = networks.pair(
        LAN,
        "[[rule]]\nname = 'voice'\nprotocol = 'tcp'\ndscp = 'ef'\naccept = 'early'\n\
         [[rule]]\nname = 'rest'\nprotocol = 'tcp'\naccept = 'early'\nto = ['10.9.0.2:*', '[fd09::2]:*']\n\
         [[rule]]\nname = 'none'\naction = 'reject'\n",
    );
    for (address, class, is_carried) in [
        ("10.9.0.1:0", EF, true),
        ("[fd09::1]:0", EF, true),
        ("10.9.0.1:0", 0, false),
        ("[fd09::1]:0", 0, false),
        ("10.9.0.2:0", 0, true),
    ] {
        let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
        let server = listener.local_addr().unwrap();
        let connected = networks.client.run(|| {
            let socket = stream_to(server);
            match server.is_ipv4() {
                true => socket.set_tos_v4(class).unwrap(),
                false => socket.set_tclass_v6(class).unwrap(),
            }
            connect(socket, server)
        });
        assert_eq!(connected.is_ok(), is_carried, "{address} {class}: {connected:?}");
        if let Ok(mut program) = connected {
            program.write_all(b"hello").unwrap();
            let mut heard = [0; 5];
            listener.accept().unwrap().0.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"hello");
        }
    }
}
