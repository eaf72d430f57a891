//! Last values over kills of brokers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;
mod mqtt;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use brokers::until;
use common::{Home, Running, free_ports, whimbrel};
use mqtt::broker::{Broker, has};

/// A channel whose last values are on disk, and whose messages are not.
const KEPT: &str = "[[channel]]\nname = 'all'\nkeep_retained = true\n[store]\ncursor_every = '100ms'\n\
    [mqtt]\nanonymous = true\n[other_clients]\npublish = '#'\nsubscribe = '#'\n";

/// The last values at a native broker, by topic. The value of `end` tells that all have come.
fn values(home: &Home, url: &str, end: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    // Values come in the order of their topics.
    let mut number = 1;
    while !values.contains_key(end) {
        let mut command = whimbrel(home);
        command.args(["sub", "#", "--broker", url, "--topics", "--count", &number.to_string()]);
        let (code, output, errors) = Running::started(&mut command).end();
        assert_eq!(code, Some(0), "{errors}");
        let lines = String::from_utf8(output).unwrap();
        let pair =
            |line: &str| line.split_once(' ').map(|(topic, value)| (topic.to_owned(), value.to_owned()));
        values = lines.lines().filter_map(pair).collect();
        number += 1;
    }
    values
}

fn retain(home: &Home, url: &str, topic: &str, message: &str) {
    let mut command = whimbrel(home);
    let output =
        command.args(["pub", topic, "--broker", url, "--message", message, "--retain"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether bytes are in a database.
fn is_written(folder: &std::path::Path, bytes: &str) -> bool {
    let whole = std::fs::read(folder.join("meta.redb")).unwrap_or_default();
    whole.windows(bytes.len()).any(|window| window == bytes.as_bytes())
}

/// Waits until a value is on disk, with the transaction that it was written in.
fn wait_until_written(home: &Home, url: &str, folder: &std::path::Path, mark: &str) {
    // What is written after it shows that it was committed.
    for (topic, message) in [("z/1", format!("{mark}-one")), ("z/2", format!("{mark}-two"))] {
        retain(home, url, topic, &message);
        until("it is written", || is_written(folder, &message));
    }
}

#[test]
fn a_retained_message_of_mosquitto_survives_a_kill_and_a_removed_one_does_not_come_back() {
    if !has("mosquitto_pub") {
        return;
    }
    let home = Home::new("values-mosquitto");
    let folder = home.file("store");
    let text = KEPT.replace("[store]\n", &format!("[store]\nfolder = '{}'\n", folder.display()));
    std::fs::write(home.file("broker.toml"), text).unwrap();
    let mut broker = Broker::run(home, &["--mqtt", "127.0.0.1:0"], 1);
    let publish = |broker: &Broker, topic: &str, more: &[&str]| {
        let mut command = Command::new("mosquitto_pub");
        command.args(["-h", "127.0.0.1", "-p", broker.port(), "-q", "1", "-r", "-t", topic]);
        let sent = command.args(more).output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    };
    // All last values up to the one that ends them.
    let subscribe = |broker: &Broker| {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", broker.port(), "-t", "m/#", "-v", "-W", "3"]);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        let mut lines: Vec<_> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    publish(&broker, "m/a", &["-m", "first"]);
    publish(&broker, "m/b", &["-m", "removed"]);
    publish(&broker, "m/a", &["-m", "second"]);
    publish(&broker, "m/b", &["-n"]);
    publish(&broker, "m/c", &["-m", "third"]);
    wait_until_written(&broker.home, &broker.native, &folder, "round1");
    broker.kill_and_restart();
    assert_eq!(subscribe(&broker), ["m/a second", "m/c third"]);
    // They can be changed as before.
    publish(&broker, "m/a", &["-n"]);
    publish(&broker, "m/c", &["-m", "fourth"]);
    wait_until_written(&broker.home, &broker.native, &folder, "round2");
    broker.kill_and_restart();
    assert_eq!(subscribe(&broker), ["m/c fourth"]);
    // An orderly end writes what waits.
    publish(&broker, "m/d", &["-m", "fifth"]);
    broker.stop_and_restart();
    assert_eq!(subscribe(&broker), ["m/c fourth", "m/d fifth"]);
}

#[test]
fn a_broker_without_a_file_keeps_last_values() {
    let mut broker = Broker::start("values-default");
    let mut client = broker.v3("client");
    client.confirmed(0x33, "t/a", b"kept");
    // The store is made for the first value. An orderly end writes what waits.
    let state = broker.home.file(".local/state/whimbrel");
    let store = || std::fs::read_dir(&state).into_iter().flatten().flatten().next().map(|entry| entry.path());
    until("there is a store", || store().is_some_and(|store| store.join("meta.redb").exists()));
    until("it is written", || is_written(&store().unwrap(), "kept"));
    broker.stop_and_restart();
    let mut client = broker.v3("client");
    assert_eq!(client.subscribe(1, &[("t/#", 0)]), [0]);
    assert_eq!(client.message(), (0x31, "t/a".to_owned(), b"kept".to_vec()));
}

#[test]
fn an_acknowledged_value_of_a_durable_channel_survives_a_kill_at_once() {
    let home = Home::new("values-durable");
    // Values are written once in an hour, and the buffer holds little: only the log has them.
    let text = "[[channel]]\nname = 'all'\ndurable = true\n[[channel.partition]]\nmessages = 20\n";
    let mut broker = brokers::Broker::new(&home, "b", free_ports(1)[0], "values", text);
    let file = home.file("b.toml");
    let whole =
        std::fs::read_to_string(&file).unwrap().replace("[store]\n", "[store]\ncursor_every = '1h'\n");
    std::fs::write(&file, whole).unwrap();
    broker.start();
    retain(&home, &broker.url, "t/a", "first");
    retain(&home, &broker.url, "t/b", "removed");
    retain(&home, &broker.url, "t/a", "second");
    retain(&home, &broker.url, "t/b", "");
    retain(&home, &broker.url, "t/end", "end");
    broker.publish("other", (0..200).map(|number| number.to_string()));
    broker.kill();
    broker.start();
    let found = values(&home, &broker.url, "t/end");
    assert_eq!(found.get("t/a").map(String::as_str), Some("second"));
    assert!(!found.contains_key("t/b"), "{found:?}");
}

#[test]
fn a_broker_that_was_away_gets_what_changed_though_the_messages_were_overwritten() {
    let home = Home::new("values-two");
    let keys = ["a", "b"].map(|name| brokers::key(&home, name));
    let ports = free_ports(2);
    let mut brokers = [0, 1].map(|at| {
        let (name, other) = (["a", "b"][at], 1 - at);
        let peer = format!("[[peer]]\nurl = 'whimbrel://{}@127.0.0.1:{}'\n", keys[other], ports[other]);
        let text = format!(
            "[[channel]]\nname = 'all'\nkeep_retained = true\n[[channel.partition]]\nmessages = 20\n{peer}"
        );
        brokers::Broker::with_key(&home, name, ports[at], "values of two", &text).started()
    });
    brokers[0].wait_until_linked(1);
    for topic in ["t/changed", "t/removed", "t/same"] {
        retain(&home, &brokers[0].url, topic, "former");
    }
    retain(&home, &brokers[1].url, "t/zz", "end");
    until("all came", || brokers[1].arrived() == 4 && brokers[0].arrived() == 4);
    // It writes all when it ends.
    brokers[1].stop();
    retain(&home, &brokers[0].url, "t/changed", "new");
    retain(&home, &brokers[0].url, "t/removed", "");
    retain(&home, &brokers[0].url, "t/other", "new");
    brokers[0].publish("other", (0..200).map(|number| number.to_string()));
    // What the first knows now, it knows from its own disk.
    brokers[0].stop();
    brokers[0].start();
    brokers[1].start();
    brokers[1].wait_until_linked(1);
    let wanted = |found: BTreeMap<String, String>| {
        let pairs: Vec<_> = found.iter().map(|(topic, value)| format!("{topic} {value}")).collect();
        pairs == ["t/changed new", "t/other new", "t/same former", "t/zz end"]
    };
    until("the second knows what changed", || wanted(values(&home, &brokers[1].url, "t/zz")));
    assert!(wanted(values(&home, &brokers[0].url, "t/zz")));
}
