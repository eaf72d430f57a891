//! Runs brokers with bridges to a real mosquitto.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;
mod mosquitto;
mod pubsub;

use brokers::{Broker, key, until};
use common::{Home, assert_fails, free_ports, whimbrel};
use mosquitto::{Mosquitto, program};
use pubsub::{lines, numbers};
use serde_json::Value;

/// A bridge's section.
fn bridge(name: &str, port: u16, rest: &str) -> String {
    format!("[[bridge]]\nname = '{name}'\nurl = 'mqtt://127.0.0.1:{port}'\n{rest}\n")
}

/// What the status says of the first bridge.
fn state(broker: &Broker<'_>) -> Value {
    broker.status()["bridges"][0].clone()
}

fn wait_until_connected(broker: &Broker<'_>) {
    until("the bridge is connected", || state(broker)["connected"] == true);
}

fn with_topic(topic: &str, range: std::ops::Range<u32>) -> Vec<String> {
    numbers(range).iter().map(|number| format!("{topic} {number}")).collect()
}

#[test]
fn messages_go_both_ways_and_nothing_is_lost_while_the_other_side_restarts() {
    let Some(program) = program() else { return };
    for (version, name) in [("5", "5"), ("3.1.1", "3.1.1")] {
        let home = Home::new(&format!("bridge-both-{version}"));
        let mut other =
            Mosquitto::start(program.clone(), &home, "mosquitto", free_ports(1)[0], "allow_anonymous true");
        let rules = format!(
            "version = '{version}'\nout = [{{ filter = 'sensors/#', strip = 'sensors/', prefix = 'site/' }}]\n\
             in = [{{ filter = 'commands/#', prefix = 'factory/' }}]"
        );
        let section = bridge("b", other.port(), &rules);
        let broker = Broker::new(&home, "broker", free_ports(1)[0], "c", &section).started();
        wait_until_connected(&broker);
        assert_eq!(state(&broker)["version"], name);
        let there = other.subscriber("site/#", 500, &[]);
        broker.publish("sensors/a", numbers(0..500));
        assert_eq!(there.lines(), with_topic("site/a", 0..500));
        let here = broker.subscriber("factory/#", &["--count", "500"]);
        other.publish("commands/x", numbers(0..500), &[]);
        assert_eq!(lines(here), numbers(0..500));
        // What is published on either side while the other is away, or the bridge, comes later.
        other.stop();
        until("it is noticed", || state(&broker)["connected"] == false);
        broker.publish("sensors/a", numbers(500..1_500));
        let here = broker.subscriber("factory/#", &["--count", "10"]);
        other.start_again();
        other.publish("commands/x", numbers(500..510), &[]);
        assert_eq!(lines(here), numbers(500..510));
        until("all is there", || state(&broker)["sent"] == 1_500 && state(&broker)["in_flight"] == 0);
        assert_eq!(state(&broker)["lost"], 0);
    }
}

#[test]
fn what_waits_at_the_other_side_comes_once_after_an_outage_of_the_bridge() {
    let Some(program) = program() else { return };
    let home = Home::new("bridge-away");
    let other = Mosquitto::start(program, &home, "mosquitto", free_ports(1)[0], "allow_anonymous true");
    let section = bridge("b", other.port(), "in = [{ filter = 'a/#' }]\nout = [{ filter = 'b/#' }]");
    let mut broker = Broker::new(&home, "broker", free_ports(1)[0], "c", &section).started();
    wait_until_connected(&broker);
    broker.stop();
    other.publish("a/x", numbers(0..50), &[]);
    broker.start();
    until("all has come", || state(&broker)["received"] == 50);
    let held = broker.sub("#", &["--from-held", "--count", "50"]).output().unwrap();
    assert_eq!(String::from_utf8(held.stdout).unwrap().lines().collect::<Vec<_>>(), numbers(0..50));
}

/// The channel wants a copy at a broker that is down.
#[test]
fn a_message_that_cannot_be_stored_yet_waits_at_the_other_side_and_stops_nothing_that_goes_out() {
    let Some(program) = program() else { return };
    let home = Home::new("bridge-waits");
    let mut other = Mosquitto::start(program, &home, "mosquitto", free_ports(1)[0], "allow_anonymous true");
    let (ports, away) = (free_ports(2), key(&home, "away"));
    let channels =
        "[[channel]]\nname = 'd'\ntopics = 'd/#'\ndurable = true\nreplicas = 2\n[[channel]]\nname = 'rest'\n";
    let cluster = |peer: &str| format!("{channels}[[peer]]\n{peer}\n");
    let rules = "in = [{ filter = 'd/#' }]\nout = [{ filter = 'plain/#' }]";
    let text = cluster(&format!("key = '{away}'")) + &bridge("b", other.port(), rules);
    let broker = Broker::new(&home, "broker", ports[0], "c", &text).started();
    wait_until_connected(&broker);
    // What the bridge sends comes behind its subscription.
    let there = other.subscriber("plain/#", 1, &[]);
    broker.publish("plain/x", numbers(0..1));
    assert_eq!(there.lines(), with_topic("plain/x", 0..1));
    other.publish("d/x", numbers(0..5), &[]);
    until("it came", || state(&broker)["received"].as_u64() > Some(0));
    let there = other.subscriber("plain/#", 300, &[]);
    broker.publish("plain/x", numbers(0..300));
    assert_eq!(there.lines(), with_topic("plain/x", 0..300));
    // Nothing was acknowledged: all of it comes once the copy can be made.
    let here = broker.subscriber("d/#", &["--count", "5"]);
    let away = cluster(&format!("url = '{}'", broker.url));
    let away = Broker::with_key(&home, "away", ports[1], "c", &away).started();
    assert_eq!(lines(here), numbers(0..5));
    until("the copies are made", || away.status()["channels"][0]["arrived"] == 5);
    other.stop();
}

/// Two bridges to one mosquitto, which carry the same topics both ways.
#[test]
fn two_bridges_in_a_circle_carry_each_message_once() {
    let Some(program) = program() else { return };
    for version in ["5", "3.1.1"] {
        let home = Home::new(&format!("bridge-loop-{version}"));
        let other =
            Mosquitto::start(program.clone(), &home, "mosquitto", free_ports(1)[0], "allow_anonymous true");
        let rules =
            format!("version = '{version}'\nout = [{{ filter = 'a/#' }}]\nin = [{{ filter = 'a/#' }}]");
        let ports = free_ports(2);
        let one = |at: usize| {
            let section = bridge(&format!("b{at}"), other.port(), &rules);
            Broker::new(&home, &format!("broker{at}"), ports[at], &format!("cluster {at}"), &section)
                .started()
        };
        let brokers = [one(0), one(1)];
        brokers.iter().for_each(wait_until_connected);
        let there = other.subscriber("a/#", 300, &[]);
        let here: Vec<_> =
            brokers.iter().map(|broker| broker.subscriber("a/#", &["--count", "300"])).collect();
        brokers[0].publish("a/x", numbers(0..100));
        brokers[1].publish("a/x", numbers(100..200));
        other.publish("a/x", numbers(200..300), &[]);
        let sorted = |mut all: Vec<String>| {
            all.sort_by_key(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap());
            all
        };
        assert_eq!(sorted(there.lines()), with_topic("a/x", 0..300));
        for subscriber in here {
            assert_eq!(sorted(lines(subscriber)), numbers(0..300));
        }
        // Whatever went round would have come before this.
        let last = brokers.each_ref().map(|broker| broker.subscriber("a/end", &["--count", "1"]));
        other.publish("a/end", ["end".to_owned()], &[]);
        last.into_iter().for_each(|subscriber| assert_eq!(lines(subscriber), ["end"]));
        until("nothing is under way", || brokers.iter().all(|broker| state(broker)["in_flight"] == 0));
        assert_eq!(brokers.each_ref().map(Broker::arrived), [301, 301]);
    }
}

/// Two clusters of ours that are each other's other side.
#[test]
fn two_clusters_with_bridges_to_each_other_carry_each_message_once() {
    let home = Home::new("bridge-ours");
    let (ports, mqtt) = (free_ports(2), [free_ports(1)[0], free_ports(1)[0]]);
    let one = |at: usize| {
        let rules = "out = [{ filter = 'a/#' }]\nin = [{ filter = 'a/#' }]";
        let section = format!(
            "[mqtt]\naddress = '127.0.0.1:{}'\nanonymous = true\n{}",
            mqtt[at],
            bridge("b", mqtt[1 - at], rules)
        );
        Broker::new(&home, &format!("broker{at}"), ports[at], &format!("cluster {at}"), &section).started()
    };
    let brokers = [one(0), one(1)];
    brokers.iter().for_each(wait_until_connected);
    brokers[0].publish("a/x", numbers(0..100));
    brokers[1].publish("a/x", numbers(100..200));
    // Each side has a bridge, so what is new to the other comes by both, and nothing comes back.
    until("all is there", || brokers.iter().all(|broker| broker.arrived() == 300));
    until("nothing is under way", || {
        brokers.iter().all(|broker| state(broker)["in_flight"] == 0 && state(broker)["sent"] == 100)
    });
    let ends = brokers.each_ref().map(|broker| broker.subscriber("a/end", &["--count", "2"]));
    brokers[0].publish("a/end", numbers(0..1));
    brokers[1].publish("a/end", numbers(0..1));
    ends.into_iter().for_each(|subscriber| assert_eq!(lines(subscriber).len(), 2));
    for broker in &brokers {
        let held = broker.sub("a/x", &["--from-held", "--count", "300"]).output().unwrap();
        let mut all: Vec<u32> =
            String::from_utf8(held.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn mistakes_and_refusals_are_told() {
    let Some(program) = program() else { return };
    let home = Home::new("bridge-mistakes");
    let file = home.file("broker.toml");
    let check = |text: &str, hint: &str| {
        std::fs::write(&file, format!("[[bridge]]\nname = 'b'\n{text}")).unwrap();
        assert_fails(&whimbrel(&home).args(["broker", "check"]).arg(&file).output().unwrap(), hint);
    };
    check("url = 'tcp://a'\n", "broker.toml:3:7: ");
    check("url = 'mqtt://a'\n", "carries nothing");
    check(
        "url = 'mqtts://a'\nca = 'missing.pem'\nout = [{ filter = 'a' }]\n",
        "broker.toml:4:6: cannot read ",
    );
    let other = Mosquitto::start(program, &home, "mosquitto", free_ports(1)[0], "allow_anonymous true");
    other.publish("x", [], &[]);
    let away = free_ports(1)[0];
    let section = bridge("b", away, "out = [{ filter = 'a/#' }]");
    let mut broker = Broker::new(&home, "broker", free_ports(1)[0], "c", &section).started();
    until("it says why", || {
        state(&broker)["trouble"].as_str().is_some_and(|why| why.contains("cannot connect"))
    });
    assert!(broker.stop().contains("bridge b: cannot connect with 127.0.0.1"));
}
