//! Tests of several paths between two processes on one machine, each through its own link.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Home, Running, assert_fails, whimbrel};
use serde_json::Value;

const BOTH: [&str; 4] = ["--path", "127.0.0.1,prefer", "--path", "127.0.0.2"];

fn serve(home: &Home) -> Running {
    Running::listening(whimbrel(home).args(["perf", "serve", "--listen", "127.0.0.1:0"]))
}

#[test]
fn named_paths_are_used_and_shown() {
    let home = Home::new("paths-shown");
    let server = serve(&home);
    let run = ["perf", "run", &server.listening, "--mode", "latency", "--rate", "500", "--time", "2.5"];
    let output = whimbrel(&home).args(run).args(BOTH).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    for shown in [
        "path 0 127.0.0.1 - 127.0.0.1:",
        "path 2 127.0.0.2 - 127.0.0.1:",
        "active, primary",
        "cwnd",
        "of traffic",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let output = whimbrel(&home).args(run).args(BOTH).arg("--json").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths = document["paths"].as_array().unwrap();
    let locals: Vec<&str> = paths.iter().map(|path| path["local"].as_str().unwrap()).collect();
    assert_eq!(locals, ["127.0.0.1", "127.0.0.2"]);
    let shares: f64 = paths.iter().map(|path| path["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-6 && paths.iter().all(|path| path["state"] == "active"), "{document}");
    assert_eq!((&document["lost"], &document["duplicated"]), (&0.into(), &0.into()));
}

/// The paths of a transfer, each with its share of what was sent.
fn shares(server: &Running, home: &Home, load: &[&str], arguments: &[&str]) -> Vec<(String, f64)> {
    let run = ["perf", "run", &server.listening, "--json"];
    let output = whimbrel(home).args(run).args(load).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths = document["paths"].as_array().unwrap().iter();
    paths
        .map(|path| (path["local"].as_str().unwrap_or("?").to_owned(), path["share"].as_f64().unwrap()))
        .collect()
}

#[test]
fn a_preferred_path_begins_and_a_single_one_stays_alone() {
    let home = Home::new("paths-single");
    let server = serve(&home);
    let paths = |arguments: &[&str]| shares(&server, &home, &["--bytes", "2000000"], arguments);
    let begun = paths(&["--path", "127.0.0.1", "--path", "127.0.0.2,prefer", "--scheduler", "primary"]);
    assert_eq!(begun[0].0, "127.0.0.2");
    assert_eq!(paths(&["--single-path"]).len(), 1);
    assert_eq!(paths(&[]).len(), 1, "within one host");
}

#[test]
fn what_a_second_path_carries_is_what_its_cost_says() {
    let home = Home::new("paths-shares");
    let server = serve(&home);
    // With redundant scheduling, a path that may carry anything carries everything, whichever is faster.
    let load = ["--scheduler", "redundant", "--rate", "500", "--size", "1000", "--time", "1.5"];
    let of_second = |second: &str, policy: &str| {
        let arguments = ["--path", "127.0.0.1,prefer", "--path", second, "--cost-policy", policy];
        let shares = shares(&server, &home, &load, &arguments);
        shares.iter().find(|(local, _)| local == "127.0.0.2").unwrap().1
    };
    let carries = of_second("127.0.0.2,cost=3", "ignore");
    assert!(carries > 0.25, "{carries}");
    let waits = [
        ("127.0.0.2,cost=3", "cheap-first"),
        ("127.0.0.2,cost=3", "never-above=2"),
        ("127.0.0.2,standby", "ignore"),
    ];
    for (second, policy) in waits {
        // On a slow host the first path may be suspected for a moment, and then the second is used. One run without
        // that is enough.
        let runs: Vec<f64> =
            (0..6).map(|_| of_second(second, policy)).take_while(|share| *share >= 0.1).collect();
        assert!(runs.len() < 6, "{second}, {policy}: {runs:?}");
    }
}

#[test]
fn an_address_that_is_not_there_yet_is_no_mistake_beside_one_that_is() {
    let home = Home::new("paths-absent");
    let server = serve(&home);
    let run = ["perf", "run", &server.listening, "--bytes", "100000", "--json"];
    let paths = ["--path", "203.0.113.77", "--path", "127.0.0.2"];
    let output = whimbrel(&home).args(run).args(paths).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("--path 203.0.113.77: not an address"), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["paths"][0]["local"], "127.0.0.2");
}

#[test]
fn mistakes_are_told() {
    let home = Home::new("paths-wrong");
    let server = serve(&home);
    let try_run = |arguments: &[&str]| {
        whimbrel(&home).args(["perf", "run", &server.listening]).args(arguments).output().unwrap()
    };
    assert_fails(&try_run(&["--path", "203.0.113.77"]), "not an address of this host");
    assert_fails(&try_run(&["--path", "127.0.0.1,fast"]), "standby");
    assert_fails(&try_run(&["--scheduler", "magic"]), "aggregate");
    assert_fails(&try_run(&["--cost-policy", "never-above"]), "never-above=N");
    assert_fails(&try_run(&["--primary-rule", "magic"]), "most-received");
    assert_fails(&try_run(&["--single-path", "--path", "127.0.0.1"]), "--single-path");
    assert_fails(&try_run(&["--bind", "127.0.0.1:0", "--path", "127.0.0.1"]), "leave one out");
    let listen = ["cat", "listen", "--listen", "127.0.0.1:0", "--path", "203.0.113.77"];
    assert_fails(&whimbrel(&home).args(listen).output().unwrap(), "not an address of this host");
    let resume = ["cat", "--resume-from", "nowhere", "--path", "203.0.113.77"];
    assert_fails(&whimbrel(&home).args(resume).output().unwrap(), "not an address of this host");
}
