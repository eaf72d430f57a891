//! Tests of `--log`, with two processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::Write;

use common::{Home, Running, whimbrel};

/// Sends a line from a client with these arguments and variables to a listener. Returns what the client wrote on
/// standard output and on standard error.
fn talk(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (Vec<u8>, String) {
    let home = Home::new(name);
    let mut listener = Running::noting(whimbrel(&home).args(["cat", "listen", "--listen", "127.0.0.1:0"]));
    let url = listener.listening.clone();
    let mut command = whimbrel(&home);
    command.args(["cat", "connect", &url]).args(arguments).envs(variables.iter().copied());
    let mut client = Running::started(&mut command);
    client.stdin().write_all(b"ping\n").unwrap();
    listener.stdin().write_all(b"pong\n").unwrap();
    let (code, out, said) = client.end();
    assert_eq!((code, listener.end().0), (Some(0), Some(0)), "{said}");
    (out, said)
}

#[test]
fn a_log_goes_to_standard_error_and_names_the_connection() {
    let (out, said) = talk("log-debug", &["--log", "debug"], &[]);
    assert_eq!(out, b"pong\n", "standard output is untouched");
    let line = said.lines().find(|line| line.contains(": connected ")).unwrap_or_else(|| panic!("{said}"));
    for part in
        ["INFO", "connection{id=", "side=Client}", "whimbrel::connection", "peer=", "remote=127.0.0.1:"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(said.contains("DEBUG") && !said.contains("TRACE") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn a_log_as_json_is_an_object_a_line() {
    let (out, said) =
        talk("log-json", &["--log-format", "json"], &[("WHIMBREL_LOG", "whimbrel::path=debug")]);
    assert_eq!(out, b"pong\n");
    let events: Vec<serde_json::Value> = said
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let path =
        events.iter().find(|event| event["message"] == "path changed").unwrap_or_else(|| panic!("{said}"));
    assert_eq!((path["path"].as_u64(), path["reason"].as_str()), (Some(0), Some("the handshake used it")));
    assert_eq!(path["span"]["id"].as_str().map(str::len), Some(16), "{path}");
    assert!(events.iter().all(|event| event["target"] == "whimbrel::path"), "{said}");
}

#[test]
fn without_the_option_nothing_is_logged_and_a_wrong_one_is_a_wrong_command_line() {
    let (_, said) = talk("log-off", &[], &[]);
    assert!(!said.contains("whimbrel::"), "{said}");
    let home = Home::new("log-wrong");
    for command in [&["--log", "debgu", "key", "show"][..], &["key", "show", "--log", "whimbrel=loud"]] {
        let output = whimbrel(&home).args(command).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("--log"), "{said}");
    }
    let output = whimbrel(&home).args(["key", "show"]).env("WHIMBREL_LOG", "debgu").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("WHIMBREL_LOG"), "{said}");
}
