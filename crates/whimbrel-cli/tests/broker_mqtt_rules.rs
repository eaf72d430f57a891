//! Rules for clients of MQTT that change, and limits of one client.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod mqtt;

use std::time::{Duration, Instant};

use common::{Home, whimbrel};
use mqtt::broker::{Broker, hashed};
use mqtt::{Raw, packet, text};

/// A broker with this file, which may be read again.
fn start(name: &str, config: &str) -> Broker {
    let home = Home::new(name);
    write(&home, config);
    Broker::run(home, &["--mqtt", "127.0.0.1:0"], 1)
}

fn write(home: &Home, config: &str) {
    let control = format!("[service]\ncontrol = '{}'\n", home.file("broker.sock").display());
    std::fs::write(home.file("broker.toml"), format!("{config}{control}")).unwrap();
}

fn user(name: &str, hash: &str, rest: &str) -> String {
    format!("[[mqtt.user]]\nname = '{name}'\npassword = '{hash}'\n{rest}\n")
}

const ALL: &str = "publish = '#'\nsubscribe = '#'";

fn login(broker: &Broker, client: &str, user: &str) -> Raw {
    let rest = [text(user), text("cod")].concat();
    let raw = Raw::connect(&broker.mqtt, 5, 0xc2, 60, &[], client, &rest);
    raw.expect_accepted();
    raw
}

#[test]
fn clients_whose_right_was_taken_back_are_sent_away_and_others_stay() {
    let (hash, other) = (hashed("cod"), hashed("cod"));
    let anonymous = "[mqtt]\nanonymous = true\n[other_clients]\nsubscribe = '#'\n";
    let users = |names: &[&str]| names.iter().map(|name| user(name, &hash, ALL)).collect::<String>();
    let config = format!("{anonymous}{}", users(&["stays", "leaves", "changes", "narrows"]));
    let broker = start("mqtt-reload", &config);
    let mut stays = login(&broker, "a", "stays");
    let mut leaves = login(&broker, "a", "leaves");
    let mut changes = login(&broker, "a", "changes");
    let mut narrows = login(&broker, "a", "narrows");
    let mut publishes = login(&broker, "b", "narrows");
    let mut nobody = broker.v5("nobody");
    assert_eq!(stays.subscribe(1, &[("t/#", 0)]), [0]);
    assert_eq!(narrows.subscribe(1, &[("u/1", 0), ("t/#", 0)]), [0, 0]);
    let narrow = user("narrows", &hash, "publish = 't/1'\nsubscribe = 'u/#'");
    write(&broker.home, &format!("[mqtt]\n{}{}{narrow}", users(&["stays"]), user("changes", &other, ALL)));
    let said = broker.reload();
    assert!(said.contains("listed now"), "{said}");
    for (who, client) in [
        ("leaves", &mut leaves),
        ("changes", &mut changes),
        ("narrows", &mut narrows),
        ("nobody", &mut nobody),
    ] {
        assert_eq!(client.goodbye(), Some(0x87), "{who}");
    }
    publishes.publish(0x30, "t/1", &[], b"permitted");
    assert_eq!(stays.message().2, b"permitted");
    login(&broker, "a", "changes").expect_nothing();
    // A file with a mistake changes nothing.
    write(&broker.home, "[mqtt]\n[[mqtt.user]]\nname = 'stays'\n");
    let said = broker.reload();
    assert!(said.contains("a `password` or a `certificate`"), "{said}");
    stays.expect_nothing();
}

#[test]
fn a_client_beyond_its_quota_waits_and_loses_nothing() {
    let quota = "quota = { messages = 20, bytes = '10 KiB', subscriptions = 2 }";
    let hash = hashed("cod");
    let config =
        format!("[mqtt]\n{}{}", user("quick", &hash, &format!("{ALL}\n{quota}")), user("other", &hash, ALL));
    let broker = start("mqtt-quota", &config);
    let mut quick = login(&broker, "quick", "quick");
    assert_eq!(quick.subscribe(1, &[("a", 0), ("b", 0), ("c", 0)]), [0, 0, 0x97]);
    let mut other = login(&broker, "other", "other");
    assert_eq!(other.subscribe(1, &[("t", 0)]), [0]);
    let began = Instant::now();
    let messages: Vec<u8> =
        (0..40).flat_map(|number| packet(0x32, &[text("t"), vec![0, 1, 0, number]].concat())).collect();
    quick.write(&messages);
    for number in 0..40 {
        assert_eq!(other.message().2, [number]);
    }
    // 20 at once, and the others one after another: 1 s.
    assert!(began.elapsed() > Duration::from_millis(800), "{:?}", began.elapsed());
    for _ in 0..40 {
        assert_eq!(quick.receive(), (0x40, vec![0, 1]));
    }
    // A second connection of the user does not help.
    let mut again = login(&broker, "again", "quick");
    let began = Instant::now();
    again.publish(0x30, "t", &[], &[7; 10_000]);
    again.publish(0x30, "t", &[], &[8; 10_000]);
    again.publish(0x30, "t", &[], b"end");
    assert_eq!((other.message().2[0], other.message().2[0]), (7, 8));
    assert_eq!(other.message().2, b"end");
    assert!(began.elapsed() > Duration::from_millis(700), "{:?}", began.elapsed());
    again.publish(0x30, "t", &[], &vec![9; 400_000]);
    assert_eq!(again.goodbye(), Some(0x97));
}

#[test]
fn one_address_does_not_take_all_places() {
    let config = "[mqtt]\nanonymous = true\nmax_connections_per_address = 2\nmax_attempts_per_address = 5\n\
                  [other_clients]\nsubscribe = '#'\n";
    let broker = start("mqtt-address", config);
    let (mut first, second) = (broker.v5("first"), broker.v5("second"));
    assert_eq!(Raw::open(&broker.mqtt, &[]).try_receive(), None, "a third");
    drop(second);
    // The place is free once the broker has noticed, if it takes attempts at all: five a second, ten at once.
    let begin = Instant::now();
    let connect = |client: &str| Raw::connect(&broker.mqtt, 5, 2, 60, &[], client, &[]).try_receive();
    while connect("third").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = whimbrel(&broker.home).arg("status").arg(broker.home.file("broker.sock")).output().unwrap();
    let said = String::from_utf8(status.stdout).unwrap();
    assert!(said.contains("MQTT: ") && !said.contains(" 0 turned away"), "{said}");
    first.expect_nothing();
}
