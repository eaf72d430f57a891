//! The proxy as a service: a file that is saved, a stop that drains, the unit for systemd, and what `explain` says of origins.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{Home, Running, whimbrel};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
const UNIT: &str = include_str!("../../../dist/whimbrel-proxy.service");

/// A file with these rules, for a proxy whose peer is not there.
fn file(home: &Home, rules: &str) -> PathBuf {
    let key = "tNkGbgp5MpnkkZfWYv8XomhqpeHrAaWwQVidmNg8aRA";
    let text = format!(
        "[in]\nsocks = '127.0.0.1:0'\n[service]\nwatch = true\nactivity = '{}'\n\
         [[peer]]\nname = 'far'\nurl = 'whimbrel://{key}@127.0.0.1:9'\n{rules}",
        home.file("activity").display()
    );
    let path = home.file("proxy.toml");
    std::fs::write(home.file("new"), text).unwrap();
    // As editors do.
    std::fs::rename(home.file("new"), &path).unwrap();
    path
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_that_is_saved_is_read_again_and_one_with_a_mistake_changes_nothing() {
    let home = Home::new("watch");
    let path = file(&home, "");
    let (near, _) =
        Running::saying(whimbrel(&home).args(["proxy", "run", "--config"]).arg(&path), "SOCKS5 on ");
    let said = |what: &str| {
        let log = std::fs::read_to_string(home.file("activity")).unwrap_or_default();
        log.lines().any(|line| line.contains(what))
    };
    // From here on the file is watched.
    until("it does not begin", || home.file("activity").exists());
    file(&home, "[[rule]]\nname = 'all'\n");
    until("it is not read", || said("rules changed"));
    file(&home, "[[rule]]\nname = 'all'\nprioritty = 7\n");
    until("the mistake is not told", || said("configuration refused") && said("prioritty"));
    file(&home, "[[rule]]\nname = 'all'\npriority = 7\n");
    until("it is not read after the mistake", || {
        let log = std::fs::read_to_string(home.file("activity")).unwrap();
        log.lines().filter(|line| line.contains("rules changed")).count() == 2
    });
    near.signal("-TERM");
    assert_eq!(near.end().0, Some(0));
}

#[test]
fn a_stop_waits_for_flows_as_long_as_the_file_says() {
    let home = Home::new("drain");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut buffer = [0; 100];
        while let Ok(read @ 1..) = tcp.read(&mut buffer) {
            tcp.write_all(&buffer[..read]).unwrap();
        }
    });
    let path = file(
        &home,
        &format!(
            "[limits]\ndrain = '50s'\n[[rule]]\nname = 'here'\nprotocol = 'tcp'\nto = ['{target}']\naction = 'direct'\n"
        ),
    );
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("[in]\n", &format!("[in]\nforward = '0={target}'\n"))).unwrap();
    let (near, _) =
        Running::saying(whimbrel(&home).args(["proxy", "run", "--config"]).arg(&path), "a forward on ");
    let mut flow = TcpStream::connect(near.listening.parse::<SocketAddr>().unwrap()).unwrap();
    flow.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut exchange = || {
        flow.write_all(b"hello").unwrap();
        flow.read_exact(&mut [0; 5]).unwrap();
    };
    exchange();
    near.signal("-TERM");
    // Without the setting, it would be reset after 5 s.
    thread::sleep(Duration::from_secs(7));
    exchange();
    let began = Instant::now();
    drop(flow);
    assert_eq!(near.end().0, Some(0));
    assert!(began.elapsed() < Duration::from_secs(30), "it ends with the last flow");
}

#[test]
fn systemd_finds_no_mistake_in_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("systemd-analyze is not there, so the unit is not verified");
        return;
    }
    let home = Home::new("unit");
    let path = home.file("whimbrel-proxy.service");
    let program = env!("CARGO_BIN_EXE_whimbrel");
    let verify = |unit: String| {
        std::fs::write(&path, unit).unwrap();
        let verified =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        (verified.status.success(), String::from_utf8_lossy(&verified.stderr).into_owned())
    };
    let unit = UNIT.replace("/usr/local/bin/whimbrel", program);
    assert_eq!(verify(unit.clone()), (true, String::new()));
    assert!(!verify(unit.replace("UMask=0077", "UMosk=0077")).1.is_empty(), "a mistake is found");
    // What it starts is a command.
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = line.split(' ').skip(1).collect::<Vec<_>>();
    words.push("--help");
    assert!(Command::new(program).args(words).output().unwrap().status.success());
}

#[test]
fn explain_says_what_a_rule_asks_for_that_is_not_known() {
    let home = Home::new("origins");
    let path = file(
        &home,
        "[[rule]]\nname = 'guests'\ninterface = 'guest*'\naction = 'reject'\n\
         [[rule]]\nname = 'voice'\ndscp = 'ef'\npriority = 200\ncap = '1mbit'\n\
         [[rule]]\nname = 'rest'\n",
    );
    let explain = |more: &[&str]| {
        let said = whimbrel(&home)
            .args(["proxy", "explain", "tcp", "10.1.2.3:443", "--config"])
            .arg(&path)
            .args(more)
            .output()
            .unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    let rest = "carried to far: rule 3, `rest`, is the first that matches\n";
    assert_eq!(
        explain(&[]),
        format!(
            "rejected if the interface fits: rule 1, `guests`\n\
             carried to far, with priority 200, at most 1mbit with others of the rule if the DSCP fits: rule 2, `voice`\n{rest}"
        )
    );
    assert_eq!(
        explain(&["--by", "socks"]),
        format!(
            "never for what comes in by socks, which knows nothing of the interface: rule 1, `guests`\n\
             never for what comes in by socks, which knows nothing of the DSCP: rule 2, `voice`\n{rest}"
        )
    );
    assert_eq!(
        explain(&["--by", "tproxy", "--interface", "guest0", "--dscp", "0"]),
        "rejected: rule 1, `guests`, is the first that matches\n"
    );
    assert!(explain(&["--interface", "lan0", "--dscp", "ef"]).contains("rule 2, `voice`, is the first"));
}

/// Some user who is not root.
#[cfg(target_os = "linux")]
const STRANGER: u32 = 65_534;

#[cfg(target_os = "linux")]
#[test]
fn regression_without_root_interception_is_refused_before_anything_is_made() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    // Others may enter no folder of tests.
    let folder = std::env::temp_dir().join(format!("whimbrel-rights-{}", std::process::id()));
    let (program, file) = (folder.join("whimbrel"), folder.join("proxy.toml"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_whimbrel"), &program).unwrap();
    let peer = "[[peer]]\nurl = 'whimbrel://tNkGbgp5MpnkkZfWYv8XomhqpeHrAaWwQVidmNg8aRA@127.0.0.1:9'\n";
    let mut said = Vec::new();
    for way in ["[in.tproxy]\noutput = true\n", "[in.tun]\nroutes = ['10.99.0.0/16']\n"] {
        std::fs::write(&file, format!("{way}{peer}")).unwrap();
        let mut command = Command::new(&program);
        command.args(["proxy", "run", "--config"]).arg(&file).env("HOME", &folder).current_dir("/");
        command.env("XDG_CONFIG_HOME", &folder);
        if is_root() {
            command.uid(STRANGER).gid(STRANGER);
        }
        said.push(command.output().map(|output| String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let has_key = folder.join("whimbrel/key").exists();
    // The copy goes, whatever was said.
    std::fs::remove_dir_all(&folder).unwrap();
    for said in said {
        let said = said.unwrap();
        assert!(said.contains("needs root (CAP_NET_ADMIN): run this command as root"), "{said}");
    }
    assert!(!has_key, "a key was made for nothing");
}

#[cfg(target_os = "linux")]
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

#[test]
fn regression_a_mistake_of_the_whole_file_is_shown_where_it_is() {
    let home = Home::new("place");
    let path = file(&home, "[[rule]]\nname = 'all'\npeer = 'nobody'\n");
    let line =
        std::fs::read_to_string(&path).unwrap().lines().position(|line| line == "peer = 'nobody'").unwrap();
    for words in [&["check"][..], &["run", "--config"]] {
        let output = whimbrel(&home).arg("proxy").args(words).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let place = format!("proxy.toml:{}:8: the rule `all` names the peer `nobody`", line + 1);
        assert!(said.contains(&place), "{said}");
    }
    // What the command line says stands in no line of the file.
    let path = file(&home, "");
    let open = ["proxy", "run", "--socks", "0.0.0.0:0", "--config"];
    let output = whimbrel(&home).args(open).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("0.0.0.0:0 is open to other hosts") && !said.contains("proxy.toml:"), "{said}");
}
