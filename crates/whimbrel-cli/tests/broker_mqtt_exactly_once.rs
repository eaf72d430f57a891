//! Messages at QoS 2 to subscribers, over lost connections and kills of the broker.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod mqtt;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use mqtt::broker::{Broker, has, python_with_paho};
use mqtt::{Raw, text};

/// A session of MQTT 5 that is kept for a minute.
const MINUTE: [u8; 5] = [0x11, 0, 0, 0, 60];

/// Connects by MQTT 5, without a clean start. More properties may follow.
fn connect(broker: &Broker, client: &str, is_present: bool, more: &[u8]) -> Raw {
    let raw = Raw::connect(&broker.mqtt, 5, 0x00, 60, &[&MINUTE[..], more].concat(), client, &[]);
    assert_eq!(raw.session_present(), Some(is_present), "{client}");
    raw
}

/// Publishes numbers at QoS 2, and waits until they are taken.
fn publish(broker: &Broker, topic: &str, numbers: impl Iterator<Item = u32>) {
    let mut publisher = broker.v3("publisher");
    let ids: Vec<_> = numbers.zip(1..).map(|(number, id)| (number, u16::to_be_bytes(id).to_vec())).collect();
    for (number, id) in &ids {
        publisher.send(0x34, &[text(topic), id.clone(), number.to_string().into_bytes()].concat());
    }
    let mut complete = 0;
    while complete < ids.len() {
        match publisher.receive() {
            (0x50, id) => publisher.send(0x62, &id),
            answer => {
                assert_eq!(answer, (0x70, ids[complete].1.clone()));
                complete += 1;
            }
        }
    }
}

/// The next message: the first byte, the packet identifier and the number.
fn message(client: &Raw) -> (u8, u8, u32) {
    let (first, body) = client.receive();
    assert_eq!(first >> 4, 3, "no message: {first:x} {body:?}");
    let at = 2 + usize::from(body[1]);
    assert_eq!(body[at], 0, "a small identifier");
    (first, body[at + 1], String::from_utf8_lossy(&body[at + 3..]).parse().unwrap())
}

fn received(client: &mut Raw, id: u8) {
    client.send(0x50, &[0, id]);
    assert_eq!(client.receive(), (0x62, vec![0, id]));
}

#[test]
fn a_message_comes_in_four_steps_in_both_versions() {
    let broker = Broker::start("mqtt-once");
    let (mut new, mut old) = (broker.v5("new"), broker.v3("old"));
    for client in [&mut new, &mut old] {
        assert_eq!(client.subscribe(1, &[("t", 2), ("$share/g/s", 2)]), [2, 1], "a group may send twice");
    }
    publish(&broker, "t", 7..8);
    assert_eq!(message(&new), (0x34, 1, 7));
    assert_eq!(old.receive(), (0x34, [text("t"), vec![0, 1], b"7".to_vec()].concat()));
    for client in [&mut new, &mut old] {
        received(client, 1);
        received(client, 1);
        client.send(0x70, &[0, 1]);
        client.expect_nothing();
    }
}

#[test]
fn steps_that_are_left_are_taken_in_the_next_connection() {
    let broker = Broker::start("mqtt-once-again");
    let mut client = connect(&broker, "roamer", false, &[]);
    assert_eq!(client.subscribe(1, &[("t", 2)]), [2]);
    publish(&broker, "t", 1..5);
    (1..5_u8).for_each(|id| assert_eq!(message(&client), (0x34, id, u32::from(id))));
    received(&mut client, 1);
    client.send(0x70, &[0, 1]);
    received(&mut client, 2);
    drop(client);
    // With a receive maximum of 2. What was released counts.
    let mut client = connect(&broker, "roamer", true, &[0x21, 0, 2]);
    assert_eq!(client.receive(), (0x62, vec![0, 2]));
    assert_eq!(message(&client), (0x3c, 3, 3));
    client.expect_nothing();
    client.send(0x70, &[0, 2]);
    assert_eq!(message(&client), (0x3c, 4, 4));
    publish(&broker, "t", 5..6);
    client.expect_nothing();
    received(&mut client, 4);
    client.expect_nothing();
    client.send(0x70, &[0, 4]);
    assert_eq!(message(&client), (0x34, 5, 5));
    received(&mut client, 3);
}

#[test]
fn wrong_answers_are_bounded_and_harm_nobody() {
    let broker = Broker::start("mqtt-once-hostile");
    // PUBREC of what was never sent, as fast as it goes.
    let mut flood = broker.v5("flood");
    for round in 0..200_u8 {
        let all: Vec<u8> = (1..=255).flat_map(|id| [0x50, 2, round, id]).collect();
        flood.write(&all);
        for id in 1..=255 {
            assert_eq!(flood.receive(), (0x62, vec![round, id, 0x92, 0]));
        }
    }
    // A client that never answers gets its receive maximum, and others everything.
    let mut silent = broker.v3("silent");
    assert_eq!(silent.subscribe(1, &[("t", 2)]), [2]);
    let mut witness = broker.v5("witness");
    assert_eq!(witness.subscribe(1, &[("t", 2)]), [2]);
    publish(&broker, "t", 0..600);
    let mut number = 0;
    while number < 600 {
        let (first, body) = witness.receive();
        if first == 0x62 {
            witness.send(0x70, &body);
            continue;
        }
        assert_eq!((first, &body[6..]), (0x34, number.to_string().as_bytes()));
        witness.send(0x50, &body[3..5]);
        number += 1;
    }
    for number in 0..256 {
        let (first, body) = silent.receive();
        assert_eq!((first, &body[5..]), (0x34, number.to_string().as_bytes()));
    }
    silent.expect_nothing();
    let out_of_turn = |answers: &[(u8, &[u8])]| {
        let mut client = broker.v5("wrong");
        assert_eq!(client.subscribe(1, &[("u", 2)]), [2]);
        publish(&broker, "u", 0..1);
        assert_eq!(message(&client), (0x34, 1, 0));
        answers.iter().for_each(|(first, body)| client.send(*first, body));
        client.goodbye()
    };
    assert_eq!(out_of_turn(&[(0x70, &[0, 1])]), Some(0x82), "PUBCOMP before PUBREC");
    assert_eq!(out_of_turn(&[(0x40, &[0, 1])]), Some(0x82), "PUBACK");
    assert_eq!(out_of_turn(&[(0x52, &[0, 1])]), Some(0x81), "flags of PUBREC");
    assert_eq!(out_of_turn(&[(0x50, &[0, 0])]), Some(0x82), "identifier 0");
    assert_eq!(out_of_turn(&[(0x72, &[0, 1])]), Some(0x81), "flags of PUBCOMP");
    // A message that is refused is done with.
    let limits = [0x21, 0, 1];
    let mut picky = connect(&broker, "picky", false, &limits);
    assert_eq!(picky.subscribe(1, &[("v", 2)]), [2]);
    publish(&broker, "v", 0..2);
    assert_eq!(message(&picky), (0x34, 1, 0));
    picky.send(0x50, &[0, 1, 0x97]);
    assert_eq!(message(&picky), (0x34, 2, 1));
    drop(picky);
    let picky = connect(&broker, "picky", true, &limits);
    assert_eq!(message(&picky), (0x3c, 2, 1));
}

#[test]
fn identifiers_are_known_after_a_kill_at_each_step() {
    let mut broker = Broker::start("mqtt-once-kill");
    let mut client = connect(&broker, "roamer", false, &[]);
    assert_eq!(client.subscribe(1, &[("t", 2)]), [2]);
    publish(&broker, "t", 1..6);
    (1..6_u8).for_each(|id| assert_eq!(message(&client), (0x34, id, u32::from(id))));
    // 1 is complete, 2 and 3 are released, and of 4 and 5 the broker has heard nothing.
    received(&mut client, 1);
    client.send(0x70, &[0, 1]);
    received(&mut client, 2);
    received(&mut client, 3);
    broker.kill_and_restart();
    for _ in 0..2 {
        let client = connect(&broker, "roamer", true, &[]);
        // That 1 is complete is written within a second. To release it twice does no harm.
        let mut released = Vec::new();
        let mut messages = Vec::new();
        while messages.len() < 2 {
            let (first, body) = client.receive();
            match first {
                0x62 => released.push(body[1]),
                _ => messages.push((first, body[4], body[body.len() - 1])),
            }
        }
        assert!(released == [2, 3] || released == [1, 2, 3], "{released:?}");
        assert_eq!(messages, [(0x3c, 4, b'4'), (0x3c, 5, b'5')]);
        broker.kill_and_restart();
    }
    publish(&broker, "t", 6..7);
    let mut client = connect(&broker, "roamer", true, &[]);
    let mut got = BTreeMap::new();
    while got.len() < 3 {
        let (first, body) = client.receive();
        match first {
            0x62 => client.send(0x70, &[0, body[1]]),
            _ => {
                client.send(0x50, &[0, body[4]]);
                got.insert(body[4], (first, body[body.len() - 1]));
            }
        }
    }
    let (new, last) = got.pop_last().unwrap();
    assert!(new > 5, "an identifier that nobody holds: {new}");
    assert_eq!(last, (0x34, b'6'));
    assert_eq!(got, BTreeMap::from([(4, (0x3c, b'4')), (5, (0x3c, b'5'))]));
}

/// What is in memory does not come again. The client that has it completes it.
#[test]
fn what_does_not_come_again_after_a_kill_is_released() {
    let mut broker = Broker::with(
        "mqtt-once-memory",
        Some(
            "[[channel]]\nname = 'disk'\ntopics = 'd/#'\ndurable = true\n[[channel]]\nname = 'memory'\n\
             [mqtt]\nanonymous = true\n[other_clients]\npublish = '#'\nsubscribe = '#'\n",
        ),
    );
    let mut client = connect(&broker, "roamer", false, &[]);
    assert_eq!(client.subscribe(1, &[("m", 2)]), [2]);
    publish(&broker, "m", 1..2);
    assert_eq!(message(&client), (0x34, 1, 1), "before the session is on disk");
    assert_eq!(client.subscribe(2, &[("d/t", 2)]), [2]);
    publish(&broker, "m", 2..3);
    assert_eq!(message(&client), (0x34, 2, 2));
    broker.kill_and_restart();
    let mut client = connect(&broker, "roamer", true, &[]);
    publish(&broker, "m", 3..4);
    let mut released = Vec::new();
    let mut new = None;
    while released.len() < 2 || new.is_none() {
        let (first, body) = client.receive();
        match first {
            0x62 => {
                client.send(0x70, &body);
                released.push(body[1]);
            }
            _ => new = Some((first, body[4], body[body.len() - 1])),
        }
    }
    assert_eq!(released, [1, 2]);
    assert_eq!(new, Some((0x34, 3, b'3')));
}

#[test]
fn mosquitto_gets_each_message_once_over_kills() {
    if !has("mosquitto_sub") {
        return;
    }
    let mut broker = Broker::start("mqtt-once-mosquitto");
    let port = broker.port().to_owned();
    for version in ["mqttv311", "mqttv5"] {
        let topic = format!("m/{version}");
        let subscribe = |number: &str| {
            let mut command = Command::new("mosquitto_sub");
            command.args(["-h", "127.0.0.1", "-p", &port, "-V", version, "-c", "-i", version, "-q", "2"]);
            command.args(["-t", &topic, "-C", number, "-W", "60", "-F", "%q %p"]);
            if version == "mqttv5" {
                command.args(["-x", "60"]);
            }
            command
        };
        assert!(subscribe("1").arg("-E").status().unwrap().success());
        let mut got = Vec::new();
        for round in 0..3 {
            publish(&broker, &topic, round * 50..round * 50 + 50);
            // It leaves with messages on their way.
            let output = subscribe("20").output().unwrap();
            got.extend(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned));
            broker.kill_and_restart();
        }
        // What it had taken in and not printed when it left is lost in it; nothing comes twice.
        publish(&broker, &topic, 1_000..1_001);
        let mut last = subscribe("1000").stdout(Stdio::piped()).spawn().unwrap();
        for line in BufReader::new(last.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let is_last = line == "2 1000";
            got.push(line);
            if is_last {
                break;
            }
        }
        drop(last.kill());
        drop(last.wait());
        let mut times = BTreeMap::<_, usize>::new();
        got.iter().for_each(|line| *times.entry(line).or_default() += 1);
        assert!(times.values().all(|number| *number == 1), "{times:?}");
        assert!(times.len() >= 60, "{times:?}");
    }
}

/// Subscribes at QoS 2, whatever happens to the broker, and prints what comes.
const SUBSCRIBER: &str = r#"
import sys
import paho.mqtt.client as mqtt

def on_connect(client, userdata, flags, reason, properties):
    if not flags.session_present:
        client.subscribe("t", qos=2)

def on_subscribe(client, userdata, mid, reasons, properties):
    print("ready", flush=True)

def on_message(client, userdata, message):
    print(message.qos, message.payload.decode(), flush=True)

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="paho", clean_session=False)
client.reconnect_delay_set(1, 1)
client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_forever()
"#;

#[test]
fn paho_gets_each_message_once_while_the_broker_is_killed_again_and_again() {
    let Some(python) = python_with_paho() else { return };
    let mut broker = Broker::start("mqtt-once-paho");
    let mut command = Command::new(python);
    let mut subscriber =
        command.args(["-c", SUBSCRIBER, broker.port()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(subscriber.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    let mut got = Vec::new();
    let mut number = 0;
    for round in 0..6 {
        publish(&broker, "t", number..number + 300);
        number += 300;
        // It is killed while messages are on their way, a little later each time.
        got.extend(lines.by_ref().take(1 + 40 * round));
        broker.kill_and_restart();
    }
    while got.len() < number as usize {
        got.push(lines.next().unwrap());
    }
    publish(&broker, "t", number..number + 1);
    got.push(lines.next().unwrap());
    drop(subscriber.kill());
    drop(subscriber.wait());
    let wanted: Vec<_> = (0..=number).map(|number| format!("2 {number}")).collect();
    let mut sorted = got.clone();
    sorted.sort_by_key(|line| line[2..].parse::<u32>().unwrap());
    assert_eq!(sorted, wanted);
}
