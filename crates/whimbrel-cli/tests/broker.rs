//! Runs brokers, publishers and subscribers as processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod pubsub;

use std::io::Write;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use pubsub::{lines, numbers, subscriber};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn broker(home: &Home) -> Running {
    Running::listening(whimbrel(home).args(["broker", "run", "--listen", "127.0.0.1:0"]))
}

/// Publishes these lines.
fn publish(home: &Home, url: &str, topic: &str, lines: impl IntoIterator<Item = String>) {
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    let mut command = whimbrel(home);
    let mut child = command
        .args(["pub", topic, "--broker", url])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_missed_is_recovered_once_and_live_goes_on() {
    let home = Home::new("broker-missed");
    let broker = broker(&home);
    let url = &broker.listening;
    let state = home.file("state");
    let state = state.to_str().unwrap();
    // The first attachment begins live.
    publish(&home, url, "prices/cod", numbers(0..10));
    let (first, _) = Running::saying(
        &mut subscriber(&home, url, "prices/#", &["--state", state, "--count", "5"]),
        "attached at broker ",
    );
    publish(&home, url, "prices/cod", numbers(10..15));
    assert_eq!(lines(first), numbers(10..15));
    // While nobody listens.
    publish(&home, url, "prices/cod", numbers(15..1_000));
    publish(&home, url, "weather", numbers(0..10));
    let mut command = subscriber(&home, url, "prices/#", &["--state", state, "--count", "1000"]);
    let (second, _) = Running::saying(&mut command, "attached at broker ");
    publish(&home, url, "prices/cod", numbers(1_000..1_015));
    assert_eq!(lines(second), numbers(15..1_015));
    // Killed at any point, it gets the rest.
    publish(&home, url, "prices/cod", numbers(1_015..1_100));
    let third = Running::listening(&mut subscriber(&home, url, "prices/#", &["--state", state]));
    let busy = whimbrel(&home).args(["sub", "prices/#", "--broker", url, "--state", state]).output().unwrap();
    assert_fails(&busy, "another subscriber uses this state");
    third.signal("-TERM");
    let (code, stdout, _) = third.end();
    assert_eq!(code, Some(143));
    // The first line was taken as that of a listener.
    let had = 1 + String::from_utf8(stdout).unwrap().lines().count() as u32;
    publish(&home, url, "prices/cod", ["end".to_owned()]);
    let left = (1_100 - 1_015 - had + 1).to_string();
    let (fourth, _) = Running::saying(
        &mut subscriber(&home, url, "prices/#", &["--state", state, "--count", &left]),
        "attached at broker ",
    );
    let mut wanted = numbers(1_015 + had..1_100);
    wanted.push("end".to_owned());
    assert_eq!(lines(fourth), wanted);
}

#[test]
fn selectors_and_last_values_reach_subscribers() {
    let home = Home::new("broker-selectors");
    let broker = broker(&home);
    let url = &broker.listening;
    for (price, sector) in [(4, "fish"), (12, "fish"), (30, "birds"), (15, "fish")] {
        let (property, message) = (format!("price={price}"), price.to_string());
        let output = whimbrel(&home)
            .args(["pub", "prices", "--broker", url, "--property", &property])
            .args(["--property", &format!("sector={sector}"), "--message", &message, "--retain"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let selector = "price > 10 AND sector = 'fish'";
    let held = ["--from-held", "--count", "2", "--selector", selector];
    assert_eq!(lines(Running::started(&mut subscriber(&home, url, "prices", &held))), ["12", "15"]);
    // Who begins live gets the last value.
    let json = lines(Running::started(&mut subscriber(&home, url, "#", &["--count", "1", "--json"])));
    let value: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!((&value["payload"], &value["properties"]["price"]), (&"15".into(), &15.into()));
    assert_eq!(value["retained"], true);
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let home = Home::new("broker-mistakes");
    let broker = broker(&home);
    let url = &broker.listening;
    let fails = |arguments: &[&str], code: i32, hint: &str| {
        let output: Output = whimbrel(&home).args(arguments).output().unwrap();
        assert_fails(&output, hint);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    };
    fails(&["sub", "a/#/b", "--broker", url], 2, "is not the last level");
    fails(&["sub", "a", "--broker", url, "--selector", "price >"], 2, "column 8");
    fails(&["sub", "a", "--broker", url, "--recover", "last"], 2, "newest-per-key");
    fails(&["sub", "a", "--broker", "whimbrel://127.0.0.1:9"], 2, "names no key");
    fails(&["pub", "a/#", "--broker", url, "--message", "x"], 2, "published to one topic");
    fails(&["pub", "a", "--broker", url, "--property", "JMSx=1", "--message", "x"], 2, "reserved");
    fails(&["pub", "a", "--broker", url, "--index", "11", "--message", "x"], 2, "10");
    let nobody = format!("whimbrel://{}@127.0.0.1:9", whimbrel::new_identity().public());
    fails(&["pub", "a", "--broker", &nobody, "--message", "x", "--wait", "300ms"], 1, "no broker answers");
    fails(&["broker", "run", "--listen", "0.0.0.0:0"], 2, "name clients with --allow");
    let address = url.rsplit('@').next().unwrap();
    fails(&["broker", "run", "--listen", address], 1, "cannot bind");
    let damaged = home.file("damaged");
    std::fs::write(&damaged, "no state").unwrap();
    fails(&["sub", "a", "--broker", url, "--state", damaged.to_str().unwrap()], 1, "damaged");
}

#[test]
fn clients_may_do_what_the_file_says() {
    let home = Home::new("broker-access");
    let [reader, writer] = ["reader", "writer"].map(|name| {
        let file = home.file(name);
        let output = whimbrel(&home).args(["key", "new", "--out"]).arg(&file).output().unwrap();
        (file, String::from_utf8(output.stdout).unwrap().trim().to_owned())
    });
    let config = home.file("broker.toml");
    let text = |topics: &str| {
        format!(
            "[listen]\naddress = '127.0.0.1:0'\n[[client]]\nkey = '{}'\nsubscribe = '{topics}'\n[[client]]\nkey = '{}'\npublish = 'a/+'\n",
            reader.1, writer.1
        )
    };
    std::fs::write(&config, text("a/#")).unwrap();
    let broker = Running::listening(whimbrel(&home).args(["broker", "run", "--config"]).arg(&config));
    let url = &broker.listening;
    let run = |arguments: &[&str], key: &std::path::Path| {
        whimbrel(&home).args(arguments).args(["--broker", url, "--key"]).arg(key).output().unwrap()
    };
    assert_fails(&run(&["sub", "#"], &reader.0), "may not subscribe to `#`");
    assert_fails(&run(&["sub", "a/b"], &writer.0), "may not subscribe");
    assert_fails(&run(&["pub", "a/b", "--message", "x"], &reader.0), "may not publish to `a/b`");
    assert_fails(&run(&["pub", "a/b/c", "--message", "x"], &writer.0), "may not publish to `a/b/c`");
    assert!(run(&["pub", "a/b", "--message", "x"], &writer.0).status.success());
    let stranger = run(&["pub", "a/b", "--message", "x", "--wait", "500ms"], &home.file("none"));
    assert!(!stranger.status.success());
    std::fs::write(&config, text("#")).unwrap();
    broker.signal("-HUP");
    until("the file is read again", || {
        let output = whimbrel(&home)
            .args(["sub", "#", "--count", "1", "--from-held", "--broker", url, "--key"])
            .arg(&reader.0)
            .output()
            .unwrap();
        output.status.success() && output.stdout == b"x\n"
    });
}

/// Whoever reads no further, or names a filter that is refused, loses nothing of the state.
#[test]
fn regression_a_state_covers_only_what_was_printed_and_accepted() {
    let home = Home::new("broker-state");
    let config = home.file("broker.toml");
    let text = "[listen]\naddress = '127.0.0.1:0'\n[other_clients]\npublish = '#'\nsubscribe = 'a/#'\n";
    std::fs::write(&config, text).unwrap();
    let broker = Running::listening(whimbrel(&home).args(["broker", "run", "--config"]).arg(&config));
    let url = &broker.listening;
    let state = home.file("state");
    let state = state.to_str().unwrap();
    let with =
        |filter: &str, more: &[&str]| subscriber(&home, url, filter, &[&["--state", state], more].concat());
    let (first, _) = Running::saying(&mut with("a/b", &["--count", "5"]), "attached at broker ");
    publish(&home, url, "a/b", numbers(0..5));
    assert_eq!(lines(first), numbers(0..5));
    publish(&home, url, "a/b", numbers(5..105));
    assert_fails(&with("#", &[]).output().unwrap(), "may not subscribe to `#`");
    let mut unread = with("a/b", &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(unread.stdout.take());
    until("it ends", || unread.try_wait().unwrap().is_some());
    assert!(unread.wait().unwrap().success(), "a reader that is gone is no error");
    assert_eq!(lines(Running::started(&mut with("a/b", &["--count", "100"]))), numbers(5..105));
}

/// Three brokers that are linked with each other.
struct Cluster {
    home: Home,
    brokers: Vec<(Option<Running>, String, u16)>,
}

impl Cluster {
    fn new(name: &str) -> Self {
        let home = Home::new(name);
        let keys: Vec<String> = (0..3)
            .map(|at| {
                let output = whimbrel(&home)
                    .args(["key", "new", "--out"])
                    .arg(home.file(&format!("key{at}")))
                    .output();
                String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
            })
            .collect();
        // The ports are free now, and few others choose ports here.
        let ports: Vec<u16> = (0..3)
            .map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect::<Vec<_>>()
            .iter()
            .map(|socket| socket.local_addr().unwrap().port())
            .collect();
        let url = |at: usize| format!("whimbrel://{}@127.0.0.1:{}", keys[at], ports[at]);
        for (at, port) in ports.iter().enumerate() {
            let mut text = format!(
                "[broker]\nname = 'b{at}'\ncluster = 'test of {name}'\n[other_clients]\npublish = '#'\nsubscribe = '#'\n\
                 [listen]\naddress = '127.0.0.1:{}'\nkey = '{}'\n[service]\ncontrol = '{}'\n",
                port,
                home.file(&format!("key{at}")).display(),
                home.file(&format!("control{at}")).display(),
            );
            for other in (0..3).filter(|other| *other != at) {
                text += &format!("[[peer]]\nurl = '{}'\n", url(other));
            }
            std::fs::write(home.file(&format!("b{at}.toml")), text).unwrap();
        }
        let brokers = (0..3).map(|at| (None, url(at), ports[at])).collect();
        let mut cluster = Self { home, brokers };
        (0..3).for_each(|at| cluster.start(at));
        cluster
    }

    fn start(&mut self, at: usize) {
        let config = self.home.file(&format!("b{at}.toml"));
        let running =
            Running::listening(whimbrel(&self.home).args(["broker", "run", "--config"]).arg(config));
        assert!(!running.listening.is_empty());
        self.brokers[at].0 = Some(running);
    }

    fn kill(&mut self, at: usize) {
        let running = self.brokers[at].0.take().unwrap();
        running.signal("-KILL");
        running.end();
    }

    fn url(&self, at: usize) -> &str {
        &self.brokers[at].1
    }

    fn linked(&self, at: usize) -> u64 {
        let control = self.home.file(&format!("control{at}"));
        let output = whimbrel(&self.home).args(["status", "--json"]).arg(control).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["more"]["linked"].as_u64().unwrap_or(0)
    }

    fn wait_until_linked(&self) {
        until("all are linked", || (0..3).all(|at| self.linked(at) == 2));
    }
}

#[test]
fn a_subscriber_roams_between_three_brokers_and_one_is_killed() {
    let mut cluster = Cluster::new("broker-cluster");
    cluster.wait_until_linked();
    let state = cluster.home.file("state");
    let state = state.to_str().unwrap();
    let attached = |cluster: &Cluster, at: usize, count: &str| {
        let mut command =
            subscriber(&cluster.home, cluster.url(at), "#", &["--state", state, "--count", count]);
        Running::saying(&mut command, "attached at broker ").0
    };
    let first = attached(&cluster, 0, "20");
    publish(&cluster.home, cluster.url(1), "a", numbers(0..20));
    assert_eq!(lines(first), numbers(0..20));
    // Published at two brokers while it is away, and one of them is killed before it comes back.
    publish(&cluster.home, cluster.url(1), "a", numbers(20..2_000));
    publish(&cluster.home, cluster.url(2), "a", numbers(2_000..4_000));
    until("everything is at broker 0", || {
        let control = cluster.home.file("control0");
        let output = whimbrel(&cluster.home).args(["status", "--json"]).arg(control).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status["more"]["channels"][0]["arrived"] == 4_000
    });
    cluster.kill(1);
    let mut came = lines(attached(&cluster, 2, "3980"));
    came.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert_eq!(came, numbers(20..4_000));
    // A broker that comes back fills its buffer from the others.
    publish(&cluster.home, cluster.url(0), "a", numbers(4_000..5_000));
    cluster.start(1);
    cluster.wait_until_linked();
    let mut came = lines(attached(&cluster, 1, "1000"));
    came.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert_eq!(came, numbers(4_000..5_000));
}

#[test]
fn a_subscriber_goes_to_another_broker_by_itself() {
    let mut cluster = Cluster::new("broker-roams");
    cluster.wait_until_linked();
    let mut command = whimbrel(&cluster.home);
    command.args(["sub", "#", "--broker", cluster.url(0), "--broker", cluster.url(1), "--count", "200"]);
    let (running, _) = Running::saying(&mut command, "attached at broker b");
    publish(&cluster.home, cluster.url(2), "a", numbers(0..100));
    cluster.kill(0);
    publish(&cluster.home, cluster.url(2), "a", numbers(100..200));
    assert_eq!(lines(running), numbers(0..200));
}

/// Stops a subscriber as a person would. Returns what it printed.
fn interrupted(running: Running) -> String {
    running.signal("-INT");
    let (code, stdout, stderr) = running.end();
    assert_eq!(code, Some(130), "{stderr}");
    String::from_utf8(stdout).unwrap()
}

/// A subscriber that came to a broker before anything was published began live at its return, and what it had missed was lost.
#[test]
fn regression_what_was_published_after_a_first_visit_to_an_empty_broker_is_recovered() {
    let home = Home::new("broker-first-visit");
    let broker = broker(&home);
    let url = &broker.listening;
    let state = home.file("state");
    let state = ["--state", state.to_str().unwrap()];
    let (first, _) = Running::saying(&mut subscriber(&home, url, "prices/#", &state), "attached at broker ");
    assert_eq!(interrupted(first), "");
    publish(&home, url, "prices/cod", numbers(0..3));
    let again = [&state[..], &["--count", "3"]].concat();
    assert_eq!(lines(Running::started(&mut subscriber(&home, url, "prices/#", &again))), numbers(0..3));
    // Another filter begins live, whatever was known of the former.
    let (other, _) = Running::saying(&mut subscriber(&home, url, "#", &state), "attached at broker ");
    assert_eq!(interrupted(other), "");
}

/// A state that was copied to a second device: the later one has it, and the other is told why it ends.
#[test]
fn a_copied_state_is_used_by_one_device_at_a_time() {
    let home = Home::new("broker-copied");
    let broker = broker(&home);
    let url = &broker.listening;
    let files = ["one", "two"].map(|name| home.file(name));
    let [one, two] = files.each_ref().map(|file| file.to_str().unwrap());
    let with = |state: &str, more: &[&str]| {
        subscriber(&home, url, "prices/#", &[&["--state", state], more].concat())
    };
    let (first, _) = Running::saying(&mut with(one, &["--count", "1"]), "attached at broker ");
    publish(&home, url, "prices/cod", numbers(0..1));
    assert_eq!(lines(first), numbers(0..1));
    std::fs::copy(one, two).unwrap();

    let (former, _) = Running::saying(&mut with(one, &[]), "attached at broker ");
    let (later, _) = Running::saying(&mut with(two, &["--count", "1"]), "attached at broker ");
    let (code, _, stderr) = former.end();
    assert!(code == Some(1) && stderr.contains("attached elsewhere"), "{code:?} {stderr}");
    publish(&home, url, "prices/cod", numbers(1..2));
    assert_eq!(lines(later), numbers(1..2));
}

#[test]
fn a_refusal_is_told_once() {
    let home = Home::new("broker-refusal");
    let broker = broker(&home);
    let refused = "you may not publish to `$SYS/a`";
    let run = |arguments: &[&str], input: &[u8]| {
        let mut command = whimbrel(&home);
        command.args(["pub", "$SYS/a", "--broker", &broker.listening]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let one = run(&["--message", "x"], b"");
    assert_eq!(one.matches(refused).count(), 1, "{one}");
    // Of many, the first is told at once, since lines may come for hours.
    let many = run(&[], b"1\n2\n3\n");
    assert_eq!(many.matches(refused).count(), 1, "{many}");
    assert!(many.contains("error: 3 messages were refused"), "{many}");
}

#[test]
fn a_subscriber_says_that_it_waits_for_a_broker() {
    let home = Home::new("broker-nobody");
    let nobody = format!("whimbrel://{}@127.0.0.1:9", whimbrel::new_identity().public());
    let mut command = subscriber(&home, &nobody, "a", &["--wait", "200ms"]);
    let (waiting, _) = Running::saying(&mut command, "no broker has answered for ");
    interrupted(waiting);
}

#[test]
fn a_state_that_cannot_be_opened_is_named() {
    let home = Home::new("broker-no-folder");
    let broker = broker(&home);
    let state = home.file("nowhere").join("state");
    let output =
        subscriber(&home, &broker.listening, "a", &["--state", state.to_str().unwrap()]).output().unwrap();
    assert_fails(&output, "cannot use the state");
    assert_fails(&output, "nowhere/state");
}

#[test]
fn a_large_file_is_one_message_and_a_subscriber_with_enough_leaves_the_rest() {
    let home = Home::new("broker-file");
    let broker = broker(&home);
    let url = &broker.listening;
    let file = home.file("map");
    let bytes: Vec<u8> =
        (0..5_000_000_u32).map(|at| (at % 251) as u8).filter(|byte| *byte != b'\n').collect();
    std::fs::write(&file, &bytes).unwrap();
    for topic in ["maps/north", "maps/south"] {
        let output =
            whimbrel(&home).args(["pub", topic, "--broker", url, "--file"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = subscriber(&home, url, "maps/#", &["--from-held", "--count", "1"]).output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout.strip_suffix(b"\n") == Some(&bytes), "{} bytes came", output.stdout.len());
    std::fs::write(&file, vec![0; (16 << 20) + 1]).unwrap();
    let output =
        whimbrel(&home).args(["pub", "maps/north", "--broker", url, "--file"]).arg(&file).output().unwrap();
    assert_fails(&output, "at most 16 MiB");
}
