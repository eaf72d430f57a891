//! Tests of the `--help` of every command.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Home, whimbrel};

const COMMANDS: [&[&str]; 21] = [
    &[],
    &["key"],
    &["key", "new"],
    &["key", "show"],
    &["key", "psk"],
    &["cat"],
    &["cat", "listen"],
    &["cat", "connect"],
    &["perf"],
    &["perf", "serve"],
    &["perf", "run"],
    &["link"],
    &["proxy", "train"],
    &["broker", "run"],
    &["top"],
    &["status"],
    &["reload"],
    &["stop"],
    &["check"],
    &["completions"],
    &["help", "cat"],
];

#[test]
fn help_is_plain_english() {
    let home = Home::new("help-english");
    for command in COMMANDS {
        let mut program = whimbrel(&home);
        program.args(command);
        if command.first() != Some(&"help") {
            program.arg("--help");
        }
        let output = program.output().unwrap();
        assert!(output.status.success(), "{command:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for phrase in [" is no ", "whoever", "Whom", " so often", " so long:", "as many at once as come"] {
            assert!(!words.contains(phrase), "{command:?}: {phrase}: {text}");
        }
    }
}

#[test]
fn help_of_cat_says_how_it_ends_and_what_is_waited_for() {
    let home = Home::new("help-cat");
    let output = whimbrel(&home).args(["cat", "connect", "--help"]).output().unwrap();
    let connect = String::from_utf8(output.stdout).unwrap();
    for said in ["the handshake", "does not limit what comes later"] {
        assert!(connect.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{said}: {connect}");
    }
    let output = whimbrel(&home).args(["cat", "--help"]).output().unwrap();
    let cat = String::from_utf8(output.stdout).unwrap();
    for code in ["Exit codes: 0 if", "1 after", "2 if", "130 after", "143 after"] {
        assert!(cat.split_whitespace().collect::<Vec<_>>().join(" ").contains(code), "{code}: {cat}");
    }
}
