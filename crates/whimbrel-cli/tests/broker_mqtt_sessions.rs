//! Sessions of MQTT clients over kills of the broker.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod mqtt;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::whimbrel;
use mqtt::broker::{Broker, has, python_with_paho};
use mqtt::{Raw, packet, text};

/// A session of MQTT 5 that is kept for a minute.
const MINUTE: [u8; 5] = [0x11, 0, 0, 0, 60];

/// Connects by MQTT 5, without a clean start.
fn connect(broker: &Broker, client: &str, is_present: bool) -> Raw {
    let raw = Raw::connect(&broker.mqtt, 5, 0x00, 60, &MINUTE, client, &[]);
    assert_eq!(raw.session_present(), Some(is_present), "{client}");
    raw
}

/// Takes messages at QoS 1 until one has this payload. Returns their payloads, and acknowledges those that `acknowledges` says.
fn until(client: &mut Raw, last: &str, acknowledges: impl Fn(&str) -> bool) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        let (first, body) = client.receive();
        assert_eq!(first & 0xf6, 0x32, "{body:?}");
        let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
        let payload = String::from_utf8(body[topic + 5..].to_vec()).unwrap();
        if acknowledges(&payload) {
            client.send(0x40, &body[topic + 2..topic + 4]);
        }
        let is_last = payload == last;
        payloads.push(payload);
        if is_last {
            return payloads;
        }
    }
}

fn publish(broker: &Broker, topic: &str, payloads: impl IntoIterator<Item = String>) {
    let mut publisher = broker.v3("publisher");
    payloads.into_iter().for_each(|payload| publisher.confirmed(0x32, topic, payload.as_bytes()));
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// The filters of durable subscriptions, as the broker reports them.
fn durable(broker: &Broker) -> Vec<String> {
    let output = whimbrel(&broker.home)
        .args(["status", "--json"])
        .arg(broker.home.file("broker.sock"))
        .output()
        .unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = told["more"]["durable"].as_array().unwrap();
    all.iter()
        .map(|one| format!("{} {}", one["client"].as_str().unwrap(), one["filter"].as_str().unwrap()))
        .collect()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_session_survives_a_kill_and_gets_what_it_missed() {
    let mut broker = Broker::start("mqtt-session-kill");
    let mut client = connect(&broker, "roamer", false);
    assert_eq!(client.subscribe(1, &[("t/#", 1)]), [1]);
    publish(&broker, "t/1", numbers(0..10));
    publish(&broker, "other", ["not wanted".to_owned()]);
    // The second half is not acknowledged.
    let is_first_half = |payload: &str| payload.parse::<u32>().unwrap() < 5;
    assert_eq!(until(&mut client, "9", is_first_half), numbers(0..10));
    client.expect_nothing();
    // One kill while it is there, and one while it is away.
    broker.kill_and_restart();
    publish(&broker, "t/1", numbers(10..20));
    broker.kill_and_restart();
    let mut client = connect(&broker, "roamer", true);
    let got = until(&mut client, "19", |_| true);
    let begin: u32 = got[0].parse().unwrap();
    assert!(begin <= 5, "what was acknowledged within a second may come again: {begin}");
    assert_eq!(got, numbers(begin..20));
    publish(&broker, "t/2", ["live".to_owned()]);
    assert_eq!(until(&mut client, "live", |_| true), ["live"]);
    // A clean stop writes what was acknowledged.
    client.expect_nothing();
    broker.stop_and_restart();
    publish(&broker, "t/1", ["after".to_owned()]);
    let mut client = connect(&broker, "roamer", true);
    assert_eq!(until(&mut client, "after", |_| true), ["after"]);
}

#[test]
fn what_is_kept_on_disk_of_a_session_ends_with_it() {
    let mut broker = Broker::with(
        "mqtt-session-ends",
        Some(
            "[[channel]]\nname = 'disk'\ntopics = 'd/#'\ndurable = true\n[[channel]]\nname = 'memory'\n\
             [mqtt]\nanonymous = true\n[other_clients]\npublish = '#'\nsubscribe = '#'\n",
        ),
    );
    let mut client = connect(&broker, "one", false);
    assert_eq!(
        client.subscribe(1, &[("d/1", 1), ("d/2", 1), ("d/0", 0), ("m", 1), ("#", 1)]),
        [1, 1, 0, 1, 1]
    );
    let mut sorted = durable(&broker);
    sorted.sort();
    assert_eq!(sorted, ["one #", "one d/1", "one d/2"], "QoS 0 and memory are not on disk");
    assert_eq!(client.unsubscribe(2, &["#", "d/2"]), [0, 0]);
    assert_eq!(durable(&broker), ["one d/1"]);
    assert_eq!(client.subscribe(3, &[("d/1", 0)]), [0], "it is not on disk any more");
    assert_eq!(durable(&broker), Vec::<String>::new());
    assert_eq!(client.subscribe(4, &[("d/1", 1)]), [1]);
    broker.kill_and_restart();
    assert_eq!(durable(&broker), ["one d/1"]);
    // All its subscriptions go on, those in memory with what is published from now on.
    let mut client = connect(&broker, "one", true);
    publish(&broker, "m", ["memory".to_owned()]);
    assert_eq!(until(&mut client, "memory", |_| true), ["memory"]);
    drop(client);
    // A clean start ends it.
    let clean = Raw::connect(&broker.mqtt, 5, 0x02, 60, &MINUTE, "one", &[]);
    assert_eq!(clean.session_present(), Some(false));
    assert_eq!(durable(&broker), Vec::<String>::new());
    drop(clean);
    // So does its time.
    let mut short = Raw::connect(&broker.mqtt, 5, 0x02, 60, &[0x11, 0, 0, 0, 1], "short", &[]);
    short.expect_accepted();
    assert_eq!(short.subscribe(1, &[("d/3", 1)]), [1]);
    assert_eq!(durable(&broker), ["short d/3"]);
    drop(short);
    eventually("the session ends", || durable(&broker).is_empty());
    // So does the client's word, and a session without a time is never there.
    let mut client = connect(&broker, "two", false);
    assert_eq!(client.subscribe(1, &[("d/4", 1)]), [1]);
    client.send(0xe0, &[0, 5, 0x11, 0, 0, 0, 0]);
    eventually("the session ends", || durable(&broker).is_empty());
    assert_eq!(broker.v5("three").subscribe(1, &[("d/5", 1)]), [1]);
    assert_eq!(durable(&broker), Vec::<String>::new());
    broker.kill_and_restart();
    connect(&broker, "one", false);
    connect(&broker, "two", false);
}

/// A message at QoS 2 of MQTT 5 whose payload is its number.
fn exactly_once(id: u16, number: u32, is_repeated: bool) -> Vec<u8> {
    let body = [text("t"), id.to_be_bytes().to_vec(), vec![0], number.to_string().into_bytes()].concat();
    packet(if is_repeated { 0x3c } else { 0x34 }, &body)
}

#[test]
fn an_identifier_at_qos_2_is_known_after_a_kill() {
    let mut broker = Broker::start("mqtt-session-twice");
    let mut subscriber = connect(&broker, "subscriber", false);
    assert_eq!(subscriber.subscribe(1, &[("t", 1)]), [1]);
    let mut client = connect(&broker, "publisher", false);
    for number in 0..20 {
        client.write(&exactly_once(number as u16 + 1, number, false));
    }
    for id in 1..=20 {
        assert_eq!(client.receive(), (0x50, vec![0, id]));
    }
    for id in 1..=5 {
        client.send(0x62, &[0, id]);
        assert_eq!(client.receive(), (0x70, vec![0, id]));
    }
    broker.kill_and_restart();
    let mut client = connect(&broker, "publisher", true);
    // Those that were released are free for other messages, and the others are known.
    for id in 1..=20 {
        client.write(&exactly_once(id, if id <= 5 { 100 + u32::from(id) } else { u32::from(id) - 1 }, true));
    }
    for id in 1..=20 {
        assert_eq!(client.receive(), (0x50, vec![0, id]));
    }
    for id in 1..=20 {
        client.send(0x62, &[0, id]);
        assert_eq!(client.receive(), (0x70, vec![0, id]));
    }
    publish(&broker, "t", ["end".to_owned()]);
    let mut subscriber = connect(&broker, "subscriber", true);
    let got = until(&mut subscriber, "end", |_| true);
    let wanted: Vec<_> =
        numbers(0..20).into_iter().chain(numbers(101..106)).chain(["end".to_owned()]).collect();
    assert_eq!(got, wanted);
}

#[test]
fn mosquitto_clients_get_what_they_missed_over_a_kill() {
    if !has("mosquitto_sub") {
        return;
    }
    let mut broker = Broker::start("mqtt-session-mosquitto");
    let port = broker.port().to_owned();
    let subscribe = |number: &str| {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", &port, "-c", "-i", "boat", "-q", "2", "-t", "m/#"]);
        command.args(["-C", number, "-W", "60"]).stdout(Stdio::piped());
        command
    };
    let publish = |message: &str| {
        let mut command = Command::new("mosquitto_pub");
        let sent =
            command.args(["-h", "127.0.0.1", "-p", &port, "-q", "2", "-t", "m/1", "-m", message]).output();
        assert!(sent.unwrap().status.success());
    };
    // A session that only exists: `-E` leaves once it has subscribed.
    assert!(subscribe("1").arg("-E").status().unwrap().success());
    assert_eq!(durable(&broker), ["boat m/#"]);
    ["one", "two"].into_iter().for_each(publish);
    broker.kill_and_restart();
    publish("three");
    let output = subscribe("3").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\ntwo\nthree\n");
}

/// Publishes numbers at QoS 2, whatever happens to the broker. It says when it is halfway, and when all are complete.
const PUBLISHER: &str = r#"
import sys, threading
import paho.mqtt.client as mqtt

port, number = int(sys.argv[1]), int(sys.argv[2])
done, lock, complete = threading.Event(), threading.Lock(), set()

def on_publish(client, userdata, mid, reason, properties):
    with lock:
        complete.add(mid)
        if len(complete) % 100 == 0:
            print(len(complete), flush=True)
        if len(complete) == number:
            done.set()

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="paho", clean_session=False)
client.max_inflight_messages_set(50)
client.reconnect_delay_set(1, 1)
client.on_publish = on_publish
client.connect("127.0.0.1", port)
client.loop_start()
for at in range(number):
    client.publish("t", str(at), qos=2)
done.wait()
client.disconnect()
"#;

#[test]
fn paho_publishes_exactly_once_while_the_broker_is_killed_again_and_again() {
    let Some(python) = python_with_paho() else { return };
    let mut broker = Broker::start("mqtt-session-paho");
    let mut subscriber = connect(&broker, "subscriber", false);
    assert_eq!(subscriber.subscribe(1, &[("t", 1)]), [1]);
    drop(subscriber);
    let number = 500;
    let mut command = Command::new(python);
    command.args(["-c", PUBLISHER, broker.port(), &number.to_string()]).stdout(Stdio::piped());
    let mut publisher = command.spawn().unwrap();
    let mut lines = BufReader::new(publisher.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        println!("{} are complete", lines.next().unwrap().unwrap());
        broker.kill_and_restart();
    }
    assert!(publisher.wait().unwrap().success());
    publish(&broker, "t", ["end".to_owned()]);
    let mut subscriber = connect(&broker, "subscriber", true);
    let got = until(&mut subscriber, "end", |_| true);
    let mut times = BTreeMap::<_, usize>::new();
    got.iter().for_each(|payload| *times.entry(payload.clone()).or_default() += 1);
    let wanted: BTreeMap<_, _> =
        numbers(0..number).into_iter().chain(["end".to_owned()]).map(|payload| (payload, 1)).collect();
    assert_eq!(times, wanted);
    drop(std::io::stdout().flush());
}
