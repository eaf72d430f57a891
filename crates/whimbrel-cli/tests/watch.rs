//! The views of a running broker: its status, metrics, activity log and dashboard.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use serde_json::{Value, json};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn status(home: &Home, control: &Path) -> Value {
    let output = whimbrel(home).args(["status", "--json"]).arg(control).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// A program that is killed with the test, and whose output nobody reads.
struct Unread(Child);

impl Drop for Unread {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn publish(home: &Home, url: &str, topic: &str, messages: usize, bytes: usize) {
    let mut command = whimbrel(home);
    command.args(["pub", topic, "--broker", url]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let line = format!("{}\n", "x".repeat(bytes));
    for _ in 0..messages {
        stdin.write_all(line.as_bytes()).unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_slow_subscriber_is_named_and_the_others_keep_up() {
    let home = Home::new("watch-slow");
    let (control, log) = (home.file("control"), home.file("log"));
    let mut command = whimbrel(&home);
    command.args(["broker", "run", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--control"]);
    command.arg(&control).arg("--activity").arg(&log);
    // Its metrics' address is on standard error, its URL on standard output.
    let (broker, _) = Running::saying(&mut command, "metrics on http://");
    let metrics = broker.listening.trim_end_matches("/metrics").to_owned();
    let mut url = String::new();
    until("the broker answers", || {
        let status = status(&home, &control);
        url = format!("whimbrel://{}@{}", text(&status["public_key"]), text(&status["address"]));
        status["service"] == "broker"
    });
    let mut quick = whimbrel(&home);
    quick.args(["sub", "prices/#", "--broker", &url]);
    let (quick, _) = Running::saying(&mut quick, "attached at broker ");
    let mut slow = whimbrel(&home);
    slow.args(["sub", "#", "--broker", &url, "--selector", "TRUE"]).stdout(Stdio::piped());
    let mut slow = Unread(slow.stderr(Stdio::null()).spawn().unwrap());
    until("both are attached", || status(&home, &control)["more"]["subscriptions"] == 2);
    // More than all pipes, windows and queues between the broker and the one that does not read.
    publish(&home, &url, "prices/cod", 3_000, 5_000);
    until("the slow one is told", || status(&home, &control)["more"]["subscribers"]["slow"] == 1);

    let shown = status(&home, &control);
    let more = &shown["more"];
    let [worst, best] = [0, 1].map(|at| &more["subscribers"]["list"][at]);
    assert_eq!((&worst["filter"], &worst["selector"]), (&"#".into(), &"TRUE".into()), "{more:#}");
    assert!(worst["lag"].as_u64().unwrap() > 0 && worst["slow"] == true, "{more:#}");
    assert_eq!(
        (&best["filter"], &best["lag"], &best["slow"]),
        (&"prices/#".into(), &0.into(), &false.into())
    );
    assert_eq!((&best["delivered"], &best["kind"]), (&3_000.into(), &"semi-durable".into()), "{more:#}");
    assert_eq!(text(&best["client"]), text(&shown["sessions"][0]["peer"]), "it is named by its key");
    let channel = &more["channels"][0];
    assert_eq!((&channel["arrived"], &channel["missing"]), (&3_000.into(), &0.into()), "{more:#}");
    assert!(channel["partitions"][0]["oldest_s"].as_f64().unwrap() > 0.0, "{more:#}");
    let delivered = channel["delivered"].as_u64().unwrap();
    assert!((3_000..6_000).contains(&delivered), "{delivered}");

    let table = whimbrel(&home).args(["broker", "status"]).arg(&control).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("SLOW for ") && table.contains("1 subscription slow"), "{table}");
    let answer = get(&metrics, "/metrics", "localhost");
    for line in [
        "whimbrel_broker_slow_subscriptions 1.0",
        "whimbrel_broker_subscriptions 2.0",
        "whimbrel_broker_published_total 3000",
        "whimbrel_broker_arrived_total{channel=\"all\"} 3000",
        "whimbrel_broker_held{channel=\"all\",partition=\"0\"} 3000.0",
        "whimbrel_broker_overwritten_total{channel=\"all\",partition=\"0\"} 0",
    ] {
        assert!(answer.lines().any(|other| other == line), "{line}: {answer}");
    }
    assert!(get(&metrics, "/healthz", "localhost").ends_with("ok\n"));

    // It reads on.
    let mut output = slow.0.stdout.take().unwrap();
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    until("it keeps up again", || status(&home, &control)["more"]["subscribers"]["slow"] == 0);
    let entries: Vec<Value> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|entry: &Value| text(&entry["what"]).starts_with("subscriber "))
        .collect();
    let what: Vec<_> = entries.iter().map(|entry| text(&entry["what"])).collect();
    assert_eq!(what, ["subscriber slow", "subscriber keeps up"], "{entries:?}");
    assert_eq!((&entries[0]["filter"], &entries[0]["client"]), (&"#".into(), &best["client"]));
    assert!(entries[1]["slow_s"].as_f64().unwrap() > 0.0, "{entries:?}");
    // The sums outlive those who left.
    quick.signal("-TERM");
    until("it has left", || status(&home, &control)["more"]["subscriptions"] == 1);
    let delivered = status(&home, &control)["more"]["channels"][0]["delivered"].as_u64().unwrap();
    assert_eq!(delivered, 6_000);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the whole answer to a request.
fn get(address: &str, path: &str, host: &str) -> String {
    let mut stream = request(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn request(address: &str, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Asks for events. Returns the status line, and what reads them.
fn viewer(address: &str) -> (String, BufReader<TcpStream>) {
    let mut events = BufReader::new(request(address, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let mut line = String::new();
    events.read_line(&mut line).unwrap();
    (line.trim().to_owned(), events)
}

fn next_event(events: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(events.read_line(&mut line).unwrap(), 0, "the events ended");
        if let Some(json) = line.strip_prefix("data: ") {
            return serde_json::from_str(json).unwrap();
        }
    }
}

/// Starts a command with a dashboard. Returns the dashboard's address.
fn with_dashboard(command: &mut Command) -> (Running, String) {
    let (running, _) = Running::saying(command.args(["--dashboard", "127.0.0.1:0"]), "dashboard on http://");
    let address = running.listening.trim_end_matches('/').to_owned();
    (running, address)
}

#[test]
fn the_dashboard_shows_a_broker_live_and_to_nobody_else() {
    let home = Home::new("watch-dashboard");
    let (broker, address) =
        with_dashboard(whimbrel(&home).args(["broker", "run", "--listen", "127.0.0.1:0"]));
    let page = get(&address, "/", &address);
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("<script src=\"script.js\">"), "{page}");
    let policy = page.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!page.to_lowercase().contains("access-control-allow"), "{page}");
    for (path, kind) in [("/script.js", "text/javascript"), ("/style.css", "text/css")] {
        let part = get(&address, path, "127.0.0.1");
        assert!(part.contains(&format!("content-type: {kind}")), "{part}");
        // Nothing comes from elsewhere. The one address is a name of XML.
        let outside = part.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http://") && !outside.contains("https://"), "{path}");
    }
    // The page of another site whose name points here.
    let rebound = get(&address, "/events", "evil.example");
    assert!(rebound.starts_with("HTTP/1.1 421 ") && rebound.contains("`hosts`"), "{rebound}");
    let mut other =
        request(&address, "GET /events HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n");
    let mut refused = String::new();
    other.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let mut post = request(&address, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let mut refused = String::new();
    post.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");

    let (said, mut events) = viewer(&address);
    assert_eq!(said, "HTTP/1.1 200 OK");
    let [first, second] = [0, 1].map(|_| next_event(&mut events));
    assert_eq!((&first["report"]["service"], &first["sessions"]), (&"broker".into(), &0.into()), "{first:#}");
    assert_eq!(first["report"]["more"]["channels"][0]["name"], "all", "{first:#}");
    assert!(second["time"].as_u64() > first["time"].as_u64(), "{second:#}");
    // Places for viewers are bounded, and come back.
    let viewers: Vec<_> = (0..15).map(|_| viewer(&address)).collect();
    assert!(viewers.iter().all(|(said, _)| said == "HTTP/1.1 200 OK"), "{viewers:?}");
    assert_eq!(viewer(&address).0, "HTTP/1.1 503 Service Unavailable");
    drop(viewers);
    until("a place is free", || viewer(&address).0 == "HTTP/1.1 200 OK");
    broker.signal("-TERM");
    let (code, _, stderr) = broker.end();
    assert_eq!(code, Some(0), "{stderr}");
}

/// A browser draws the page from the events. Where there is none, this is not tested.
#[test]
fn a_browser_draws_the_dashboard() {
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success()))
    else {
        eprintln!("not run: this host has no chromium");
        return;
    };
    let home = Home::new("watch-browser");
    let (_broker, address) =
        with_dashboard(whimbrel(&home).args(["broker", "run", "--listen", "127.0.0.1:0"]));
    let mut browser = Browser::open(browser, &home, &format!("http://{address}/"));
    until("the browser draws the page", || browser.text().contains("0 of 20,000"));
    let page = browser.text();
    for part in ["broker", "live", "Channels", "messages in", "Subscribers (0)", "Sessions (0)"] {
        assert!(page.lines().any(|line| line == part), "{part}: {page}");
    }
}

/// A browser without a window, which is told by lines that end with a zero what to do.
struct Browser {
    process: Unread,
    answers: BufReader<std::process::ChildStdout>,
    asked: u64,
    session: Value,
}

impl Browser {
    fn open(browser: &str, home: &Home, url: &str) -> Self {
        // It listens on descriptor 3 and answers on descriptor 4.
        let line = format!(
            "exec {browser} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe 3<&0 4>&1"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env("HOME", &home.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Unread(command.stderr(Stdio::null()).spawn().unwrap());
        let answers = BufReader::new(process.0.stdout.take().unwrap());
        let mut browser = Self { process, answers, asked: 0, session: Value::Null };
        let target = browser.ask("Target.createTarget", &json!({ "url": url }))["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].clone();
        browser
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut request = json!({ "id": self.asked, "method": method, "params": params });
        if !self.session.is_null() {
            request["sessionId"] = self.session.clone();
        }
        let stdin = self.process.0.stdin.as_mut().unwrap();
        stdin.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            assert_ne!(self.answers.read_until(0, &mut bytes).unwrap(), 0, "the browser has ended");
            let answer: Value = serde_json::from_slice(bytes.strip_suffix(&[0]).unwrap()).unwrap();
            if answer["id"] == self.asked {
                return answer["result"].clone();
            }
        }
    }

    /// Returns the text that the page shows.
    fn text(&mut self) -> String {
        let look = json!({ "expression": "document.body.innerText", "returnByValue": true });
        text(&self.ask("Runtime.evaluate", &look)["result"]["value"]).to_owned()
    }
}

#[test]
fn others_than_this_hosts_users_see_a_dashboard_only_by_a_file() {
    let home = Home::new("watch-elsewhere");
    for command in [["broker", "run"], ["perf", "serve"]] {
        let output = whimbrel(&home).args(command).args(["--dashboard", "0.0.0.0:9110"]).output().unwrap();
        assert_fails(&output, "`dashboard = \"0.0.0.0:9110\"` under [service] in a file");
        assert_eq!(output.status.code(), Some(2));
    }
    let file = home.file("perf.toml");
    std::fs::write(&file, "[service.dashboard]\naddress = '0.0.0.0:0'\nhosts = ['perf.example']\n").unwrap();
    let mut command = whimbrel(&home);
    command.args(["perf", "serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    let (running, _) = Running::saying(&mut command, "dashboard on http://0.0.0.0:");
    let address = format!("127.0.0.1:{}", running.listening.trim_end_matches('/'));
    let (said, mut events) = viewer(&address);
    assert_eq!(
        (said.as_str(), &next_event(&mut events)["report"]["service"]),
        ("HTTP/1.1 200 OK", &"perf serve".into())
    );
    assert!(get(&address, "/", "perf.example").starts_with("HTTP/1.1 200 "));
    assert!(get(&address, "/", "evil.example").starts_with("HTTP/1.1 421 "));
}
