//! Clients of MQTT and channels that are on disk, with brokers that are killed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod mqtt;
mod pubsub;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Home, Running, whimbrel};
use mqtt::broker::Broker;
use mqtt::{Raw, packet, text};
use pubsub::disk::Disk;
use pubsub::subscriber;

/// A broker whose one channel is always on disk.
const DURABLE: &str = "[[channel]]\nname = 'all'\ndurable = true\n[mqtt]\nanonymous = true\n\
                       [other_clients]\npublish = '#'\nsubscribe = '#'\n";

/// Creates a native durable subscription to everything, and leaves.
fn watched(broker: &Broker) {
    let mut command = subscriber(&broker.home, &broker.native, "#", &["--durable", "watcher"]);
    let (running, _) = Running::saying(&mut command, "attached at broker ");
    running.signal("-INT");
    running.end();
}

/// Publishes a last message, and returns all that the native subscription gets before it.
fn seen(broker: &Broker) -> Vec<String> {
    broker.v3("last").confirmed(0x32, "t", b"end");
    let mut command = subscriber(&broker.home, &broker.native, "#", &["--durable", "watcher"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let seen = lines.take_while(|line| line != "end").collect();
    child.kill().unwrap();
    child.wait().unwrap();
    seen
}

/// A message of MQTT 3.1.1 whose payload is its packet identifier.
fn message(qos: u8, topic: &str, id: u16) -> Vec<u8> {
    let body = [text(topic), id.to_be_bytes().to_vec(), id.to_string().into_bytes()].concat();
    packet(0x30 | qos << 1, &body)
}

/// The identifiers that are answered until the connection ends, or `most` are.
fn answered(client: &Raw, most: usize) -> Vec<(u8, u16)> {
    let answer = || client.try_receive().map(|(first, body)| (first, u16::from_be_bytes([body[0], body[1]])));
    std::iter::from_fn(answer).take(most).collect()
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let mut broker = Broker::with("mqtt-durable-kill", Some(DURABLE));
    watched(&broker);
    let client = broker.v3("publisher");
    let mut writer = client.writer();
    let stream = std::thread::spawn(move || {
        // Every second one at QoS 2. It ends with the broker.
        let mut ids = 1..=u16::MAX;
        ids.all(|id| writer.write_all(&message(1 + (id % 2) as u8, "t", id)).is_ok());
        drop(writer.shutdown(Shutdown::Write));
    });
    let mut acknowledged = answered(&client, 700);
    broker.kill_and_restart();
    // Answers that were on their way count.
    acknowledged.extend(answered(&client, usize::MAX));
    stream.join().unwrap();
    let (first, second): (Vec<_>, Vec<_>) = acknowledged.iter().partition(|(first, _)| *first == 0x40);
    assert!(first.len() > 100 && second.iter().all(|(first, _)| *first == 0x50), "both kinds, and no other");
    for answers in [first, second] {
        assert!(answers.is_sorted_by_key(|(_, id)| *id), "answers come in the order of messages");
    }
    let seen: Vec<u16> = seen(&broker).iter().map(|line| line.parse().unwrap()).collect();
    let once: BTreeSet<u16> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "each once");
    let lost: Vec<_> = acknowledged.iter().filter(|(_, id)| !once.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_client_that_outruns_the_disk_waits() {
    let broker = Broker::with("mqtt-durable-fast", Some(DURABLE));
    watched(&broker);
    let mut client = broker.v3("publisher");
    // At QoS 0, 32 MiB in one piece: four times what waits in a log.
    let number = 32;
    let whole: Vec<u8> = (0..number)
        .flat_map(|number| {
            let line = format!("{number}:{}", "x".repeat(1_000_000));
            packet(0x30, &[text("t"), line.into_bytes()].concat())
        })
        .collect();
    client.write(&whole);
    client.expect_nothing();
    let seen = seen(&broker);
    let numbers: Vec<usize> =
        seen.iter().map(|line| line.split_once(':').unwrap().0.parse().unwrap()).collect();
    assert_eq!(numbers, (0..number).collect::<Vec<_>>());
}

#[test]
fn a_message_that_is_not_stored_yet_is_answered_once() {
    let broker = Broker::with("mqtt-durable-twice", Some(DURABLE));
    watched(&broker);
    let mut client = broker.v3("publisher");
    // Ten times each, before the first is stored.
    let whole: Vec<u8> = (1..=20).flat_map(|id| message(2, "t", id).repeat(10)).collect();
    client.write(&whole);
    client.send(0xc0, &[]);
    let mut answers = BTreeMap::<_, usize>::new();
    while answers.len() < 21 {
        let (first, body) = client.receive();
        *answers.entry((first, body)).or_default() += 1;
    }
    assert!((1..=20).all(|id| answers.contains_key(&(0x50, vec![0, id]))), "{answers:?}");
    assert_eq!(seen(&broker), (1..=20).map(|id: u8| id.to_string()).collect::<Vec<_>>());
}

/// A message of MQTT 5 that is longer than what is left of a page.
fn long(qos: u8, id: u8) -> Vec<u8> {
    let name = if qos == 0 { vec![] } else { vec![0, id] };
    packet(0x30 | qos << 1, &[text("t"), name, vec![0], vec![b'x'; 5_000]].concat())
}

#[test]
fn a_full_disk_is_told_and_nothing_acknowledged_is_lost() {
    let home = Home::new("mqtt-durable-full");
    let Some(disk) = Disk::new(&home) else { return };
    let folder = disk.folder.join("store");
    let channel = "durable = true\nsegment = '256 KiB'";
    let config =
        DURABLE.replace("durable = true", channel) + &format!("[store]\nfolder = '{}'\n", folder.display());
    std::fs::write(home.file("broker.toml"), config).unwrap();
    let command = disk.whimbrel(&home);
    let broker = Broker::spawn(home, command, "127.0.0.1:0", &["--mqtt", "127.0.0.1:0"], 1);
    watched(&broker);
    let (mut new, mut old) = (broker.v5("new"), broker.v3("old"));
    let answer = |client: &Raw| {
        let (first, body) = client.receive();
        (first, body[1], body.get(2).copied().unwrap_or(0))
    };
    new.write(&[long(1, 1), long(2, 2)].concat());
    assert_eq!((answer(&new), answer(&new)), ((0x40, 1, 0), (0x50, 2, 0)));
    let mut ballast = std::fs::File::create(disk.file("ballast")).unwrap();
    while ballast.write_all(&[0; 4_096]).is_ok() {}
    new.write(&[long(1, 3), long(2, 4), long(0, 0)].concat());
    assert_eq!((answer(&new), answer(&new)), ((0x40, 3, 0x97), (0x50, 4, 0x97)));
    new.expect_nothing();
    old.write(&long(1, 5));
    assert_eq!(old.goodbye(), None, "MQTT 3.1.1 is closed without a word");
    std::fs::remove_file(disk.file("ballast")).unwrap();
    drop(ballast);
    // The identifier of what was refused is free.
    new.write(&long(2, 4));
    assert_eq!(answer(&new), (0x50, 4, 0));
    assert_eq!(seen(&broker).len(), 3);
}

/// What the status says of MQTT.
fn mqtt_of(broker: &Broker) -> serde_json::Value {
    let socket = broker.home.file("broker.sock");
    let output = whimbrel(&broker.home).args(["status", "--json"]).arg(socket).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    told["more"]["mqtt"].clone()
}

/// The channel wants a copy at a broker that is away.
#[test]
fn a_will_waits_for_its_channel_and_one_that_is_left_is_told() {
    let home = Home::new("mqtt-durable-will");
    let made = whimbrel(&home).args(["key", "new", "--out"]).arg(home.file("away.key")).output().unwrap();
    let key = String::from_utf8(made.stdout).unwrap();
    let file = format!(
        "[broker]\ncluster = 'c'\n[[channel]]\nname = 'd'\ntopics = 'd/#'\ndurable = true\nreplicas = 2\n[[channel]]\nname = 'rest'\n\
         [mqtt]\nanonymous = true\n[other_clients]\npublish = '#'\nsubscribe = '#'\n[[peer]]\nkey = '{}'\n",
        key.trim()
    );
    std::fs::write(home.file("broker.toml"), file).unwrap();
    let log = home.file("log");
    let own = whimbrel(&home);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>\"$LOG\""]).arg(own.get_program()).env("LOG", &log);
    command.envs(own.get_envs().map(|(name, value)| (name, value.unwrap())));
    let mut broker = Broker::spawn(home, command, "127.0.0.1:0", &["--mqtt", "127.0.0.1:0"], 1);
    let mut watcher = broker.v3("watcher");
    assert_eq!(watcher.subscribe(1, &[("other", 0)]), [0]);
    for (client, topic) in [("one", "d/1"), ("two", "other")] {
        let will = [vec![0], text(topic), text("gone")].concat();
        let lost = Raw::connect(&broker.mqtt, 5, 0x06, 60, &[], client, &will);
        lost.expect_accepted();
    }
    assert_eq!(watcher.message().1, "other", "a channel with room is not held up");
    let begin = Instant::now();
    while mqtt_of(&broker)["wills_waiting"] != 1 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", mqtt_of(&broker));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(mqtt_of(&broker)["wills_refused"], 0);
    broker.stop_and_restart();
    let told = std::fs::read_to_string(broker.home.file("log")).unwrap();
    assert!(told.contains("a Will of an MQTT client was not published: the broker stopped"), "{told}");
}
