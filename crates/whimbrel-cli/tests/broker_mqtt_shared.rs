//! Groups of MQTT clients that share their messages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod mqtt;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use mqtt::broker::{Broker, has};
use mqtt::{Raw, text};

/// The payloads of the next messages at QoS 1, of one byte each.
fn payloads(client: &Raw, number: usize) -> Vec<u8> {
    let take = |_| {
        let (first, body) = client.receive();
        assert_eq!(first & !0x08, 0x32, "{body:?}");
        *body.last().unwrap()
    };
    (0..number).map(take).collect()
}

#[test]
fn one_member_gets_each_message_and_those_of_who_leaves_go_to_others() {
    let broker = Broker::start("mqtt-shared");
    let mut publisher = broker.v3("publisher");
    publisher.confirmed(0x33, "work/a", b"0");
    let (mut new, mut old, mut all) = (broker.v5("new"), broker.v3("old"), broker.v5("all"));
    assert_eq!(all.subscribe(1, &[("work/#", 0)]), [0]);
    assert_eq!(all.message().2, b"0", "the last value");
    assert_eq!(new.subscribe(1, &[("$share/g/work/#", 1)]), [1]);
    assert_eq!(old.subscribe(1, &[("$share/g/work/#", 1)]), [1]);
    for number in 0..10 {
        publisher.confirmed(0x32, "work/a", &[number]);
        assert_eq!(all.message().2, [number], "who is in no group gets all");
    }
    let of_new = payloads(&new, 5);
    let of_old = payloads(&old, 5);
    assert_eq!([&of_new[..], &of_old].concat().into_iter().collect::<BTreeSet<_>>(), (0..10).collect());
    new.expect_nothing();
    // It leaves without having acknowledged any.
    drop(new);
    assert_eq!(payloads(&old, 5).into_iter().collect::<BTreeSet<_>>(), of_new.into_iter().collect());
    assert_eq!(old.subscribe(2, &[("$share/g", 0), ("$share/g+/t", 0)]), [0x80, 0x80]);
    // Another group has its own.
    let mut other = broker.v5("other");
    assert_eq!(other.subscribe(1, &[("$share/h/work/#", 0)]), [0]);
    publisher.confirmed(0x32, "work/a", b"x");
    assert_eq!((other.message().2, payloads(&old, 1)), (b"x".to_vec(), b"x".to_vec()));
    assert_eq!(other.unsubscribe(2, &["$share/h/work/#", "$share/g/work/#"]), [0, 0x11]);
}

#[test]
fn a_group_waits_for_a_member_that_is_away() {
    let broker = Broker::start("mqtt-shared-kept");
    let session = [0x11, 0, 0, 0, 60];
    let mut member = Raw::connect(&broker.mqtt, 5, 2, 60, &session, "member", &[]);
    member.expect_accepted();
    assert_eq!(member.subscribe(1, &[("$share/g/t", 1)]), [1]);
    let mut publisher = broker.v3("publisher");
    publisher.confirmed(0x32, "t", &[1]);
    publisher.confirmed(0x32, "t", &[2]);
    let first = payloads(&member, 2);
    assert_eq!(first, [1, 2]);
    drop(member);
    publisher.confirmed(0x32, "t", &[3]);
    let member = Raw::connect(&broker.mqtt, 5, 0, 60, &session, "member", &[]);
    assert_eq!(member.session_present(), Some(true));
    assert_eq!(payloads(&member, 3).into_iter().collect::<BTreeSet<_>>(), [1, 2, 3].into());
}

#[test]
fn what_a_group_cannot_do_is_said() {
    let broker = Broker::start("mqtt-shared-wrong");
    let mut client = broker.v5("one");
    let user = |name: &str, value: &str| [vec![0x26], text(name), text(value)].concat();
    let selector = |value: &str| user("whimbrel-selector", value);
    assert_eq!(client.subscribe_with(1, &selector("a = 1"), &[("$share/g/t", 0)]), [0]);
    assert_eq!(client.subscribe_with(2, &user("whimbrel-coverage", "live"), &[("$share/h/t", 0)]), [0x83]);
    let mut other = broker.v5("two");
    assert_eq!(other.subscribe_with(1, &selector("a = 2"), &[("$share/g/t", 0)]), [0x83]);
    assert_eq!(other.subscribe_with(2, &selector("a = 1"), &[("$share/g/t", 0)]), [0]);
    other.send(0x82, &[&[0, 3, 0][..], &text("$share/g/t"), &[0x05]].concat());
    assert_eq!(other.goodbye(), Some(0x82), "no local");
}

#[test]
fn in_a_cluster_one_broker_serves_a_group() {
    let peer = whimbrel::new_identity().public();
    let file = format!(
        "[broker]\ncluster = 'test'\n[[peer]]\nkey = '{peer}'\n[mqtt]\nanonymous = true\n\
         [other_clients]\npublish = '#'\nsubscribe = '#'\n"
    );
    let broker = Broker::with("mqtt-shared-cluster", Some(&file));
    let mut client = broker.v5("one");
    let answers: Vec<u8> =
        (0..32).map(|group| client.subscribe(1, &[(&format!("$share/{group}/t"), 0)])[0]).collect();
    let here = answers.iter().filter(|answer| **answer == 0).count();
    assert!((4..=28).contains(&here), "about half are the other's: {answers:?}");
    assert!(answers.iter().all(|answer| [0, 0x83].contains(answer)));
}

#[test]
fn mosquitto_clients_share() {
    if !has("mosquitto_sub") {
        return;
    }
    let broker = Broker::start("mqtt-shared-mosquitto");
    let (told, lines) = mpsc::channel();
    let members = ["mqttv311", "mqttv5"].map(|version| {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-p", broker.port(), "-V", version, "-q", "1", "-t", "$share/g/t", "-t", "ready"]);
        let mut member = command.args(["-W", "60"]).stdout(Stdio::piped()).spawn().unwrap();
        let (output, told) = (BufReader::new(member.stdout.take().unwrap()), told.clone());
        let reader = std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| told.send((version, line)).is_ok());
        });
        (member, reader)
    });
    let mut publisher = broker.v3("publisher");
    publisher.confirmed(0x33, "ready", b"ready");
    (0..2).for_each(|_| assert_eq!(lines.recv().unwrap().1, "ready"));
    for number in 0..20 {
        publisher.confirmed(0x32, "t", format!("{number}").as_bytes());
    }
    // While both stay, nothing comes twice.
    let got: BTreeSet<_> = (0..20).map(|_| lines.recv().unwrap()).collect();
    assert_eq!(got.iter().map(|(_, line)| line).collect::<BTreeSet<_>>().len(), 20, "{got:?}");
    assert!(got.iter().any(|(version, _)| *version == "mqttv5"), "{got:?}");
    assert!(got.iter().any(|(version, _)| *version == "mqttv311"), "{got:?}");
    for (mut member, reader) in members {
        drop(member.kill());
        drop(member.wait());
        reader.join().unwrap();
    }
}
