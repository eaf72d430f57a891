//! Compares docs/broker.toml, and the files that docs/broker.md shows, with the settings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use serde_json::Value;
use whimbrel_broker::settings::{ChannelSection, PartitionSection, Settings};
use whimbrel_service::parse_config;
use whimbrel_testing::example::{names as is_named, with_optional};

const EXAMPLE: &str = include_str!("../../../docs/broker.toml");
const PAGE: &str = include_str!("../../../docs/broker.md");
/// The sections that docs/whimbrel.toml explains.
const ELSEWHERE: [&str; 2] = ["transport", "listen"];

fn parse(text: &str) -> Settings {
    parse_config("broker.toml", text).unwrap()
}

fn value(settings: &impl serde::Serialize) -> Value {
    serde_json::to_value(settings).unwrap()
}

/// The file with all that is behind a `#`. A peer has a URL or a key, not both, and there are peers or NATS.
fn whole() -> Settings {
    let mut settings = parse(&with_optional(EXAMPLE));
    assert!(settings.peers[0].key.take().is_some() && settings.peers[0].url.is_some());
    assert!(settings.backbone.nats.take().is_some());
    settings
}

#[test]
fn the_example_of_nats_and_of_a_bridge_have_the_defaults() {
    let mut settings = parse(&with_optional(EXAMPLE));
    settings.peers.clear();
    let nats = settings.backbone.nats.as_mut().unwrap();
    assert!(nats.token.take().is_some() && nats.nkey.take().is_some() && nats.credentials.take().is_some());
    let least = parse("[backbone.nats]\nservers = 'nats://a'\n").backbone.nats.unwrap();
    assert_eq!(nats.forget_after, least.forget_after);
    assert_eq!(settings.nats().unwrap().unwrap().servers.len(), 2);
    let bridge = &settings.bridges[0];
    let rules = "out = [{ filter = 'a' }]";
    let least =
        parse(&format!("[[bridge]]\nname = 'factory'\nurl = 'mqtt://a'\n{rules}\n")).bridges.remove(0);
    assert_eq!(
        (bridge.version, bridge.keep_alive, bridge.session, bridge.out[0].qos),
        (least.version, least.keep_alive, least.session, least.out[0].qos)
    );
    assert_eq!(settings.bridges().unwrap().len(), 1);
}

#[test]
fn the_example_has_the_defaults_and_what_it_shows_is_right() {
    assert_eq!(value(&parse(EXAMPLE)), value(&Settings::default()));
    let settings = whole();
    settings.rules().unwrap();
    settings.permissions().unwrap();
    assert_eq!(settings.mqtt().unwrap().unwrap().doors.len(), 4);
    assert_eq!(settings.peers().unwrap().len(), 1);
}

#[test]
fn the_defaults_of_channels_and_partitions_are_those_of_the_example() {
    let channel = &whole().channels[0];
    let least: ChannelSection = parse("[[channel]]\nname = 'prices'\n").channels.remove(0);
    // Those without a default are examples.
    let ChannelSection { durable, keep_retained, replicas, max_bytes, max_age, .. } = *channel;
    assert!(durable && keep_retained.is_some());
    assert!(replicas.is_some() && max_bytes.is_some() && max_age.is_some());
    let partitions = channel.partitions.clone();
    let with = ChannelSection { partitions, durable, keep_retained, replicas, max_bytes, max_age, ..least };
    assert_eq!(value(channel), value(&with));
    let least =
        parse("[[channel]]\nname = 'a'\n[[channel.partition]]\n").channels.remove(0).partitions.remove(0);
    // Those without a default are examples.
    let PartitionSection { key, from, to, age, follow, .. } = channel.partitions[0].clone();
    assert!(key.is_some() && from.is_some() && to.is_some() && age.is_some() && follow.is_some());
    assert_eq!(
        value(&channel.partitions[0]),
        value(&PartitionSection { key, from, to, age, follow, ..least })
    );
}

#[test]
fn the_example_names_every_setting() {
    let mut names = BTreeSet::new();
    let example = value(&parse(&with_optional(EXAMPLE)));
    for (section, settings) in example.as_object().unwrap() {
        let settings = match settings {
            Value::Array(list) => &list[0],
            one => one,
        };
        if !ELSEWHERE.contains(&section.as_str()) {
            names.extend(settings.as_object().unwrap().keys().cloned());
        }
    }
    let (mqtt, nats) = (&example["mqtt"], &example["backbone"]["nats"]);
    let partition = &example["channel"][0]["partition"][0];
    for section in [partition, &mqtt["tls"], &mqtt["websocket"], &mqtt["user"][0], nats] {
        names.extend(section.as_object().unwrap().keys().cloned());
    }
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let heads = [format!(".{name}]]"), format!(".{name}]")];
        let is_head = |line: &str| heads.iter().any(|head| line.ends_with(head));
        let is_there = is_named(EXAMPLE, &name) || EXAMPLE.lines().any(is_head);
        assert!(is_there, "docs/broker.toml does not name {name}");
    }
}

#[test]
fn the_files_in_the_guide_are_right() {
    let mut checked = 0;
    for block in PAGE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        // Each `KEY_OF_` gets a key of its own.
        let mut text = block.to_owned();
        while let Some(begin) = text.find("KEY_OF_") {
            let length = text[begin..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let key = whimbrel::new_identity().public().to_string();
            text.replace_range(begin..begin + length.unwrap(), &key);
        }
        // A block that shows a dependency is none of ours.
        if text.contains("[dependencies]") {
            continue;
        }
        let settings: Settings =
            parse_config("x.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        settings.rules().unwrap_or_else(|error| panic!("{error}\n{text}"));
        settings.bridges().unwrap_or_else(|error| panic!("{error}\n{text}"));
        settings.permissions().unwrap_or_else(|error| panic!("{error}\n{text}"));
        checked += 1;
    }
    assert!(checked >= 3, "{checked}");
}
