//! Compares the annotated example of a configuration file with the settings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use whimbrel_testing::example::{names, with_optional};

use super::file::{OPTIONAL, Settings, collect};

const EXAMPLE: &str = include_str!("../../../../docs/whimbrel.toml");

fn leaves(settings: &Settings) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    collect("", serde_json::to_value(settings).unwrap(), &mut leaves);
    leaves
}

#[test]
fn the_example_has_the_defaults() {
    assert_eq!(leaves(&Settings::parse(EXAMPLE).unwrap()), leaves(&Settings::default()));
}

#[test]
fn the_example_has_every_setting() {
    let settings = Settings::parse(&with_optional(EXAMPLE)).unwrap();
    let named: BTreeSet<String> = leaves(&settings).into_keys().collect();
    let defaults: BTreeSet<String> = leaves(&Settings::default()).into_keys().collect();
    let wanted: BTreeSet<String> = OPTIONAL.map(str::to_owned).into();
    assert_eq!(&named - &defaults, wanted);
    // A default that is not written would be there all the same, so the text counts.
    for name in defaults.iter().chain(&wanted) {
        let (_, field) = name.rsplit_once('.').unwrap();
        assert!(names(EXAMPLE, field), "docs/whimbrel.toml does not name {name}");
    }
}

#[test]
fn the_example_explains_every_setting() {
    let is_prose = |line: &str| line.starts_with("# ");
    let lines: Vec<&str> = EXAMPLE.lines().collect();
    for pair in lines.windows(2) {
        let is_setting = pair[1].contains(" = ") && !is_prose(pair[1]);
        assert!(!is_setting || is_prose(pair[0]), "nothing above `{}` explains it", pair[1]);
    }
}
