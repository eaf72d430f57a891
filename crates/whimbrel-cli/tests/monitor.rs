//! Long-running commands as those who run them see them: status, metrics, activity, readiness, and the end in order.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{Home, Running, whimbrel};
use serde_json::Value;
use whimbrel::{CloseReason, Config, Endpoint, Reason};

fn serve(home: &Home, more: &[&str]) -> Running {
    let control = home.file("control");
    let mut command = whimbrel(home);
    command.args(["perf", "serve", "--listen", "127.0.0.1:0", "--control"]).arg(control).args(more);
    Running::listening(&mut command)
}

fn ask(home: &Home, line: &[&str]) -> Output {
    whimbrel(home).args(line).arg(home.file("control")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn measure(home: &Home, url: &str) {
    let run = ["perf", "run", url, "--bytes", "1M", "--json"];
    let output = whimbrel(home).args(run).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Returns the status and the body that a real HTTP client receives.
fn curl(url: &str) -> (u32, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "10", "--write-out", "\n%{http_code}", url])
        .output()
        .expect("curl is installed");
    let all = text(&output.stdout);
    let (body, code) = all.rsplit_once('\n').unwrap();
    (code.parse().unwrap(), body.to_owned())
}

#[test]
fn status_metrics_and_activity_tell_what_a_server_does() {
    let home = Home::new("monitor");
    let activity = home.file("activity");
    let server = serve(&home, &["--metrics", "127.0.0.1:0", "--activity", activity.to_str().unwrap()]);
    let mode = std::fs::metadata(home.file("control")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may use it");
    measure(&home, &server.listening.clone());

    let status = ask(&home, &["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&status["service"], &status["more"]["measurements"]), (&"perf serve".into(), &1.into()));
    assert!(server.listening.contains(status["public_key"].as_str().unwrap()));
    assert_eq!(status["pid"], server.id());
    let shown = text(&ask(&home, &["status"]).stdout);
    assert!(shown.starts_with("perf serve ") && shown.contains(&server.listening), "{shown}");
    assert!(shown.contains("measurements: 1"), "{shown}");

    let reload = ask(&home, &["reload"]);
    assert!(!reload.status.success() && text(&reload.stderr).contains("no configuration"), "{reload:?}");

    let stopped = ask(&home, &["stop"]);
    assert_eq!((stopped.status.code(), text(&stopped.stdout).trim()), (Some(0), "stopping"));
    let (code, _, errors) = server.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(!home.file("control").exists(), "it leaves nothing behind");
    let metrics = errors.lines().find_map(|line| line.strip_prefix("metrics on ")).unwrap();
    assert!(metrics.starts_with("http://127.0.0.1:") && metrics.ends_with("/metrics"));
    let log: Vec<Value> = std::fs::read_to_string(&activity)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let what: Vec<&str> = log.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["measurement begun", "measurement done", "configuration refused"]);
    for line in &log[..2] {
        let parses = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        assert!(parses("peer").parse::<whimbrel::PublicKey>().is_ok(), "{line}");
        assert!(parses("remote").parse::<std::net::SocketAddr>().is_ok(), "{line}");
    }
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let home = Home::new("monitor-metrics");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let server = serve(&home, &["--metrics", &address]);
    measure(&home, &server.listening.clone());
    assert_eq!(curl(&format!("http://{address}/healthz")), (200, "ok\n".to_owned()));
    assert_eq!(curl(&format!("http://{address}/other")).0, 404);
    let (code, metrics) = curl(&format!("http://{address}/metrics"));
    assert!(code == 200 && metrics.ends_with("# EOF\n"), "{metrics}");
    let value = |name: &str| {
        let line = metrics.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    assert!((value("whimbrel_accepted_total") - 1.0).abs() < 0.1 && value("whimbrel_sessions") < 2.0);
    let all_loops = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("whimbrel_received_total{loop=")?.split_once(' '));
    assert!(all_loops.map(|(_, count)| count.parse::<f64>().unwrap()).sum::<f64>() > 2.0, "{metrics}");
    assert!(metrics.contains("# HELP whimbrel_sessions Open sessions"));
    // Whoever says nothing keeps nobody else waiting.
    let silent: Vec<_> = (0..8).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    assert_eq!(curl(&format!("http://{address}/healthz")).0, 200);
    drop(silent);
}

#[test]
fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
    let home = Home::new("monitor-left");
    let first = serve(&home, &[]);
    let mut second = whimbrel(&home);
    second.args(["perf", "serve", "--listen", "127.0.0.1:0", "--control"]).arg(home.file("control"));
    let refused = second.output().unwrap();
    assert!(text(&refused.stderr).contains("another process has the control socket"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(1));
    first.signal("-KILL");
    first.end();
    assert!(home.file("control").exists(), "it was killed");
    let again = serve(&home, &[]);
    assert!(ask(&home, &["status"]).status.success());
    again.signal("-TERM");
    assert_eq!(again.end().0, Some(0));
    // What is no socket of ours is left alone.
    std::fs::write(home.file("control"), "a letter").unwrap();
    let refused = second.output().unwrap();
    assert!(text(&refused.stderr).contains("is not a socket and is left alone"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(home.file("control")).unwrap(), "a letter");
}

#[test]
fn nobody_there_is_said_in_a_sentence() {
    let home = Home::new("monitor-nobody");
    let asked = ask(&home, &["status"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(text(&asked.stderr).contains("no service answers on"), "{asked:?}");
    // Somebody is there who does not speak the protocol.
    let listener = UnixListener::bind(home.file("control")).unwrap();
    let deaf = std::thread::spawn(move || drop(listener.accept()));
    let asked = ask(&home, &["stop"]);
    assert!(text(&asked.stderr).contains("did not answer"), "{asked:?}");
    deaf.join().unwrap();
}

#[test]
fn what_is_no_request_is_answered_and_what_has_no_end_is_not_waited_for() {
    let home = Home::new("monitor-requests");
    let server = serve(&home, &[]);
    let mut client = UnixStream::connect(home.file("control")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(client.try_clone().unwrap());
    let mut say = |request: &str| {
        // The server may have closed before it was sent everything. Then nothing is read, either.
        client.write_all(request.as_bytes()).ok();
        let mut line = String::new();
        // Where bytes were not read, the end is a reset.
        lines.read_line(&mut line).unwrap_or_default();
        line
    };
    assert!(say("hello\n").contains("\"error\""));
    assert!(say("{\"request\":\"explode\"}\n").contains("explode"));
    assert!(say("{\"request\":\"status\"}\n").contains("\"ok\""), "it goes on");
    assert_eq!(say(&format!("{}\n", "x".repeat(100_000))), "", "a line without end is the end");
    // Many who say nothing do not keep others out for ever: there is room for sixteen, less one.
    let silent: Vec<_> = (0..15).map(|_| UnixStream::connect(home.file("control")).unwrap()).collect();
    assert!(ask(&home, &["status"]).status.success());
    drop(silent);
    server.signal("-INT");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn systemd_is_told() {
    let home = Home::new("monitor-systemd");
    let notified = UnixDatagram::bind(home.file("notify")).unwrap();
    notified.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = whimbrel(&home);
    command.args(["perf", "serve", "--listen", "127.0.0.1:0"]);
    command
        .env("NOTIFY_SOCKET", home.file("notify"))
        .env("WATCHDOG_USEC", "200000")
        .env_remove("WATCHDOG_PID");
    let server = Running::listening(&mut command);
    let hear = || {
        let mut buffer = [0; 512];
        let length = notified.recv(&mut buffer).unwrap();
        text(&buffer[..length])
    };
    assert_eq!(hear().trim(), "READY=1");
    let begin = Instant::now();
    for _ in 0..5 {
        assert_eq!(hear().trim(), "WATCHDOG=1");
    }
    assert!(begin.elapsed() < Duration::from_secs(25), "about every 100 ms, where the machine is not slow");
    server.signal("-TERM");
    let told: Vec<String> =
        std::iter::repeat_with(hear).take_while(|told| told.trim() != "STOPPING=1").collect();
    assert!(told.iter().all(|told| told.trim() == "WATCHDOG=1"), "{told:?}");
    assert_eq!(server.end().0, Some(0));
}

/// Starts a command with a control socket, and waits until it listens.
fn start(home: &Home, line: &[&str]) -> Running {
    let mut command = whimbrel(home);
    command.args(line).args(["--listen", "127.0.0.1:0", "--control"]).arg(home.file("control"));
    if line[0] == "perf" { Running::listening(&mut command) } else { Running::noting(&mut command) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_stopped_closes_its_sessions_gracefully() {
    let home = Home::new("monitor-graceful");
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let lines = [
        (&["perf", "serve"], Some(0), 0, "the server was stopped"),
        (&["cat", "listen"], Some(143), 4, "interrupted"),
    ];
    for (line, code, reason, why) in lines {
        for by_signal in [true, false] {
            let server = start(&home, line);
            let mocket = client.connect(&server.listening).await.unwrap();
            if by_signal {
                server.signal("-TERM");
            } else {
                assert!(ask(&home, &["stop"]).status.success());
            }
            assert_eq!(mocket.closed().await, CloseReason::Peer(Reason::new(reason, why)), "{line:?}");
            assert_eq!(server.end().0, code, "{line:?}");
        }
    }
}

#[test]
fn a_stop_waits_for_a_peer_and_a_second_signal_does_not() {
    let home = Home::new("monitor-twice");
    let notified = UnixDatagram::bind(home.file("notify")).unwrap();
    notified.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut command = whimbrel(&home);
    command.args(["perf", "serve", "--listen", "127.0.0.1:0", "--metrics", &address]);
    let server =
        Running::listening(command.env("NOTIFY_SOCKET", home.file("notify")).env_remove("WATCHDOG_USEC"));
    let mut command = whimbrel(&home);
    command.args(["perf", "run", &server.listening, "--time", "600"]);
    // Its first interval line stands in for `listening`. Then it no longer answers.
    let running = Running::listening(&mut command);
    running.signal("-STOP");
    let hear = || {
        let mut buffer = [0; 512];
        let length = notified.recv(&mut buffer).unwrap();
        text(&buffer[..length])
    };
    assert_eq!(hear().trim(), "READY=1");
    server.signal("-TERM");
    assert_eq!(hear().trim(), "STOPPING=1");
    assert_eq!(curl(&format!("http://{address}/healthz")), (503, "stopping\n".to_owned()));
    server.signal("-INT");
    assert_eq!(server.end().0, Some(130), "at once");
}

#[test]
fn cat_is_watched_and_stopped_as_well() {
    let home = Home::new("monitor-cat");
    let mut command = whimbrel(&home);
    command.args(["cat", "listen", "--listen", "127.0.0.1:0", "--control"]).arg(home.file("control"));
    let listener = Running::noting(&mut command);
    let shown = text(&ask(&home, &["status"]).stdout);
    assert!(shown.starts_with("cat listen ") && shown.contains("0 sessions"), "{shown}");
    assert!(ask(&home, &["stop"]).status.success());
    assert_eq!(listener.end().0, Some(143), "as by SIGTERM");
}
