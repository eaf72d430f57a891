//! Compares docs/proxy.toml with the settings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use serde_json::Value;
use whimbrel_proxy::Settings;
use whimbrel_service::parse_config;
use whimbrel_testing::example::{names as is_named, with_optional};

const EXAMPLE: &str = include_str!("../../../docs/proxy.toml");
const PAGE: &str = include_str!("../../../docs/proxy.md");
const SETUPS: &str = include_str!("../../../docs/proxy-setups.md");
/// The sections that docs/whimbrel.toml explains.
const ELSEWHERE: [&str; 2] = ["transport", "listen"];

fn parse(text: &str) -> Settings {
    parse_config("proxy.toml", text).unwrap()
}

#[test]
fn the_example_has_the_defaults_and_what_it_shows_is_right() {
    let value = |settings: &Settings| serde_json::to_value(settings).unwrap();
    assert_eq!(value(&parse(EXAMPLE)), value(&Settings::default()));
    // A proxy has one of the two.
    let (mut tproxy, mut tun) = (parse(&with_optional(EXAMPLE)), parse(&with_optional(EXAMPLE)));
    assert!(tproxy.ways_in.tun.take().is_some() && tun.ways_in.tproxy.take().is_some());
    tproxy.check().unwrap();
    tun.check().unwrap();
}

#[test]
fn the_example_names_every_setting() {
    let mut names = BTreeSet::new();
    let value = serde_json::to_value(parse(&with_optional(EXAMPLE))).unwrap();
    for (section, settings) in value.as_object().unwrap() {
        let settings = match settings {
            Value::Array(list) => &list[0],
            one => one,
        };
        if !ELSEWHERE.contains(&section.as_str()) {
            names.extend(settings.as_object().unwrap().keys().cloned());
        }
    }
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(is_named(EXAMPLE, &name), "docs/proxy.toml does not name {name}");
    }
}

#[test]
fn the_files_in_the_docs_are_right() {
    let mut checked = 0;
    for (name, page) in [("proxy.md", PAGE), ("proxy-setups.md", SETUPS)] {
        for block in page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            // Each `KEY_OF_` gets a key of its own.
            let mut text = block.to_owned();
            while let Some(begin) = text.find("KEY_OF_") {
                let end = text[begin..].find('@').unwrap() + begin;
                text.replace_range(begin..end, &whimbrel::new_identity().public().to_string());
            }
            let settings: Settings =
                parse_config("x.toml", &text).unwrap_or_else(|error| panic!("{name}: {error}"));
            if !settings.peers.is_empty() {
                settings.check().unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                checked += 1;
            }
        }
    }
    assert!(checked >= 2, "{checked}");
}
