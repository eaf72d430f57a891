//! Command lines and files, with rules, as people write them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use super::common::{Home, Running, assert_fails, whimbrel};
use super::programs::{count, dial, read_to_end, serve};

#[test]
fn a_wrong_command_line_is_one_sentence() {
    let home = Home::new("proxy-wrong");
    let key = "9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0";
    let url = format!("whimbrel://{key}@127.0.0.1:9");
    let over_tcp = format!("whimbrel+tcp://{key}@127.0.0.1:9");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_address = taken.local_addr().unwrap().to_string();
    for (arguments, hint, code) in [
        (&[][..], "the proxy would do nothing", 2),
        (&["--socks", "127.0.0.1:0"], "there is no peer to carry connections to", 2),
        (&["--socks", "0.0.0.0:0", "--peer", &url], "is open to other hosts", 2),
        (&["--socks", "127.0.0.1:0", "--peer", "whimbrel://127.0.0.1:9"], "has no key", 2),
        (&["--listen", "127.0.0.1:0", "--allow", key], "write KEY=NETWORK:PORTS", 2),
        (
            &["--listen", "127.0.0.1:0", "--allow", &format!("{key}=10.0.0.0/40:1")],
            "does not name targets",
            2,
        ),
        (&["--socks", &taken_address, "--peer", &url], "another program has that port", 1),
        (&["--config", "/no/such/file"], "/no/such/file", 2),
        (&["--connector", "tcp"], "--listen", 2),
        (&["--listen", "127.0.0.1:0", "--connector", "tpc"], "is not a connector", 2),
        (&["--listen", &taken_address, "--connector", "tcp"], "another program has that port", 1),
        (
            &["--socks", "127.0.0.1:0", "--peer", &over_tcp, "--replace"],
            "a session over TCP cannot be replaced",
            2,
        ),
    ] {
        let output = whimbrel(&home).args(["proxy", "run"]).args(arguments).output().unwrap();
        assert_fails(&output, hint);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_file_is_checked_and_read_again() {
    let home = Home::new("proxy-file");
    let (file, control) = (home.file("proxy.toml"), home.file("p.sock"));
    let key = "9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0";
    let text = |permit: &str| {
        format!(
            "[listen]\naddress = '127.0.0.1:0'\n[service]\ncontrol = '{}'\n[[peer]]\nkey = '{key}'\nmay_open = ['{permit}']\n",
            control.display()
        )
    };
    std::fs::write(&file, text("10.0.0.0/40:1")).unwrap();
    let path = file.display().to_string();
    let check = || whimbrel(&home).args(["proxy", "check", &path]).output().unwrap();
    assert_fails(&check(), "proxy.toml:7:");
    std::fs::write(&file, text("10.0.0.0/8:1")).unwrap();
    assert!(check().status.success());
    let running = Running::listening(whimbrel(&home).args(["proxy", "run", "--config", &path]));
    std::fs::write(&file, text("10.0.0.0/8:2")).unwrap();
    let control = control.display().to_string();
    let said = whimbrel(&home).args(["reload", &control]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("has new permits"), "{said}");
    running.signal("-TERM");
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn rules_decide_and_are_read_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let home = Home::new("proxy-rules");
    let (file, control) = (home.file("proxy.toml"), home.file("p.sock"));
    // Nobody answers at this peer: what is carried goes nowhere.
    let url = "whimbrel://9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0@127.0.0.1:9";
    let write = |rules: &str| {
        let text = format!(
            "[in]\nsocks = '127.0.0.1:0'\n[service]\ncontrol = '{}'\n[[peer]]\nname = 'far'\nurl = '{url}'\n{rules}",
            control.display()
        );
        std::fs::write(&file, text).unwrap();
    };
    let direct =
        format!("[[rule]]\nname = 'here'\nprotocol = 'tcp'\nto = ['localhost:{port}']\naction = 'direct'\n");
    write(&direct);
    let path = file.display().to_string();
    let (running, said) =
        Running::saying(whimbrel(&home).args(["proxy", "run", "--config", &path]), "not connected to far: ");
    let socks = said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap().parse().unwrap();
    let ask = |name: &str| {
        let mut tcp = dial(socks);
        let head =
            [&[5, 1, 0, 5, 1, 0, 3, name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()].concat();
        tcp.write_all(&head).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        (tcp, reply[3])
    };
    let serving = serve(&server, count);
    let (mut tcp, code) = ask("localhost");
    assert_eq!(code, 0, "connected by the proxy itself");
    tcp.write_all(b"five!").unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&tcp), b"5 bytes");
    serving.join().unwrap();
    // Another file: the same flow is rejected now.
    write("[[rule]]\nname = 'no'\naction = 'reject'\n");
    let said = whimbrel(&home).args(["reload", &control.display().to_string()]).output().unwrap();
    assert!(String::from_utf8(said.stdout).unwrap().contains("rules changed"));
    assert_eq!(ask("localhost").1, 2, "not allowed by ruleset");
    let explained = |arguments: &[&str]| {
        let output =
            whimbrel(&home).args(["proxy", "explain", "--config", &path]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(explained(&["tcp", "a.b:1"]), "rejected: rule 1, `no`, is the first that matches\n");
    write(&direct);
    assert_eq!(explained(&["udp", "a.b:1"]), "carried to far: no rule matches\n");
    running.signal("-TERM");
    assert_eq!(running.end().0, Some(0));
}
