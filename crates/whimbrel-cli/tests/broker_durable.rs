//! Durable subscriptions, with brokers, publishers and subscribers as processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod pubsub;

use std::io::Write;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use pubsub::disk::Disk;
use pubsub::{lines, numbers, subscriber};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a broker at this address.
fn broker(home: &Home, address: &str, more: &[&str]) -> Running {
    Running::listening(whimbrel(home).args(["broker", "run", "--listen", address]).args(more))
}

/// The address in a broker's URL, so that another run has the same.
fn address(url: &str) -> &str {
    url.rsplit('@').next().unwrap()
}

fn publish(home: &Home, url: &str, topic: &str, lines: &[String]) -> Output {
    let mut command = whimbrel(home);
    command.args(["pub", topic, "--broker", url, "--wait", "20s"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text: String = lines.iter().map(|line| line.clone() + "\n").collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn published(home: &Home, url: &str, topic: &str, lines: &[String]) {
    let output = publish(home, url, topic, lines);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Creates the subscription, and leaves.
fn subscribed(home: &Home, url: &str, filter: &str, name: &str) {
    let mut command = subscriber(home, url, filter, &["--durable", name]);
    let (running, _) = Running::saying(&mut command, "attached at broker ");
    running.signal("-INT");
    running.end();
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_comes_once() {
    let home = Home::new("durable-kill");
    let first = broker(&home, "127.0.0.1:0", &[]);
    let url = first.listening.clone();
    // What was published before is not the subscription's own.
    published(&home, &url, "prices/cod", &numbers(0..10));
    subscribed(&home, &url, "prices/#", "board");
    published(&home, &url, "prices/cod", &numbers(10..500));
    published(&home, &url, "weather", &numbers(0..100));
    first.signal("-KILL");
    first.end();

    let second = broker(&home, address(&url), &[]);
    assert_eq!(second.listening, url);
    published(&home, &url, "prices/cod", &numbers(500..600));
    let (some, _) = Running::saying(
        &mut subscriber(&home, &url, "prices/#", &["--durable", "board", "--count", "300"]),
        "attached at broker ",
    );
    assert_eq!(lines(some), numbers(10..310));
    second.signal("-KILL");
    second.end();

    // What it acknowledged within the last second may come again.
    let third = broker(&home, address(&url), &["--control", home.file("control").to_str().unwrap()]);
    let (rest, _) = Running::saying(
        &mut subscriber(&home, &url, "prices/#", &["--durable", "board"]),
        "attached at broker ",
    );
    published(&home, &url, "prices/cod", &["end".to_owned()]);
    let control = home.file("control");
    until("all is acknowledged", || {
        status(&home, &control).contains("attached, 0 messages not acknowledged")
    });
    rest.signal("-INT");
    let (_, stdout, _) = rest.end();
    let rest: Vec<String> = String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect();
    let begin: u32 = rest[0].parse().unwrap();
    assert!((10..=310).contains(&begin), "{begin}");
    let mut wanted = numbers(begin..600);
    wanted.push("end".to_owned());
    assert_eq!(rest, wanted);
    drop(third);
}

fn status(home: &Home, control: &std::path::Path) -> String {
    let output = whimbrel(home).args(["broker", "status"]).arg(control).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_subscription_is_away_comes_back_and_is_ended() {
    let home = Home::new("durable-away");
    let control = home.file("control");
    let broker = broker(&home, "127.0.0.1:0", &["--control", control.to_str().unwrap()]);
    let url = &broker.listening;
    subscribed(&home, url, "prices/#", "board");
    published(&home, url, "prices/cod", &numbers(0..100));
    let text = status(&home, &control);
    assert!(text.contains("log of all: 100 messages in 1 segment"), "{text}");
    assert!(text.contains("durable board of ") && text.contains("away for "), "{text}");
    assert!(text.contains("100 messages not acknowledged"), "{text}");

    let state = home.file("state");
    let with_state = ["--durable", "board", "--state", state.to_str().unwrap(), "--count", "40"];
    let some = Running::started(&mut subscriber(&home, url, "prices/#", &with_state));
    assert_eq!(lines(some), numbers(0..40));
    until("it is away", || status(&home, &control).contains("60 messages not acknowledged"));
    // Others neither have it nor its name.
    let other = Home::new("durable-away-other");
    let strange = ["--durable", "board", "--end"];
    let output = whimbrel(&other).args(["sub", "--broker", url]).args(strange).output().unwrap();
    assert_fails(&output, "the broker has no durable subscription `board` for our key");
    let output = subscriber(&home, url, "weather", &["--durable", "board"]).output().unwrap();
    assert_fails(&output, "has the filter `prices/#`: end it first, or use another name");

    // The later of two has it.
    let mut command = subscriber(&home, url, "prices/#", &["--durable", "board"]);
    let (former, _) = Running::saying(&mut command, "attached at broker ");
    let all = ["--durable", "board", "--count", "1"];
    published(&home, url, "prices/cod", &["last".to_owned()]);
    until("all is acknowledged", || status(&home, &control).contains("attached, 0 messages"));
    let (later, _) = Running::saying(&mut subscriber(&home, url, "prices/#", &all), "attached at broker ");
    let (code, stdout, stderr) = former.end();
    assert!(code == Some(1) && stderr.contains("attached elsewhere, or ended"), "{code:?} {stderr}");
    let mut wanted = numbers(40..100);
    wanted.push("last".to_owned());
    assert_eq!(String::from_utf8(stdout).unwrap().lines().collect::<Vec<_>>(), wanted);
    published(&home, url, "prices/cod", &["more".to_owned()]);
    assert_eq!(lines(later), ["more"]);

    let output = whimbrel(&home).args(["sub", "--broker", url]).args(strange).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!status(&home, &control).contains("durable board"));
    // Nothing is written for nobody.
    until("the log rests", || !status(&home, &control).contains("log of all"));
    published(&home, url, "prices/cod", &numbers(0..10));
}

/// A publisher goes on while the broker is killed again and again: what it sends again is recognised.
#[test]
fn a_broker_that_is_killed_again_and_again_loses_and_repeats_nothing() {
    let home = Home::new("durable-kills");
    let mut broker = broker(&home, "127.0.0.1:0", &[]);
    let url = broker.listening.clone();
    subscribed(&home, &url, "#", "all");
    let mut command = whimbrel(&home);
    command.args(["pub", "numbers", "--broker", &url, "--wait", "60s"]);
    let mut publisher = Running::started(&mut command);
    let mut input = publisher.stdin();
    let mut next = 0;
    for _ in 0..3 {
        for _ in 0..700 {
            writeln!(input, "{next}").unwrap();
            next += 1;
        }
        // It is killed somewhere among them.
        broker.signal("-KILL");
        broker.end();
        broker = self::broker(&home, address(&url), &[]);
    }
    drop(input);
    let (code, _, stderr) = publisher.end();
    assert_eq!(code, Some(0), "{stderr}");
    broker.signal("-KILL");
    broker.end();
    let broker = self::broker(&home, address(&url), &[]);
    let count = next.to_string();
    let mut command = subscriber(&home, &url, "#", &["--durable", "all", "--count", &count]);
    assert_eq!(lines(Running::started(&mut command)), numbers(0..next));
    drop(broker);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let home = Home::new("durable-full");
    let Some(disk) = Disk::new(&home) else { return };
    let config = home.file("broker.toml");
    let text = format!(
        "[[channel]]\nname = 'all'\ndurable = true\nsegment = '256 KiB'\n[other_clients]\npublish = '#'\nsubscribe = '#'\n\
         [store]\nfolder = '{}'\n",
        disk.folder.join("store").display()
    );
    std::fs::write(&config, text).unwrap();
    let run = |address: &str| {
        let mut command = disk.whimbrel(&home);
        command.args(["broker", "run", "--listen", address, "--config"]).arg(&config);
        Running::listening(&mut command)
    };
    let broker = run("127.0.0.1:0");
    let url = broker.listening.clone();
    subscribed(&home, &url, "#", "all");
    // Longer than what is left of a page.
    let line = |number: u32| format!("{number}:{}", "x".repeat(5_000));
    let mut taken = Vec::new();
    let mut one = |number: u32| {
        let output = publish(&home, &url, "t", &[line(number)]);
        if output.status.success() {
            taken.push(line(number));
        }
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    (0..3).for_each(|number| drop(one(number)));
    let mut ballast = std::fs::File::create(disk.file("ballast")).unwrap();
    while ballast.write_all(&[0; 4_096]).is_ok() {}
    let refused: Vec<String> = (3..6).map(&mut one).collect();
    for text in &refused {
        assert!(text.contains("the disk is full, and the message was not stored"), "{text}");
    }
    std::fs::remove_file(disk.file("ballast")).unwrap();
    drop(ballast);
    (6..9).for_each(|number| drop(one(number)));
    assert_eq!(taken, [0, 1, 2, 6, 7, 8].map(line));
    broker.signal("-KILL");
    broker.end();
    let broker = run(address(&url));
    let mut command = subscriber(&home, &url, "#", &["--durable", "all", "--count", "6"]);
    assert_eq!(lines(Running::started(&mut command)), taken);
    drop(broker);
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let home = Home::new("durable-mistakes");
    let config = home.file("broker.toml");
    let text = "[[channel]]\nname = 'orders'\ntopics = 'orders/#'\ndurable = true\n[[channel]]\nname = 'rest'\n\
                [other_clients]\npublish = '#'\nsubscribe = '#'\n";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    // Without a home, nobody knows where to keep anything.
    let mut command = whimbrel(&home);
    command.args(["broker", "run", "--listen", "127.0.0.1:0", "--config", config]).env_remove("HOME");
    assert_fails(&command.env_remove("XDG_STATE_HOME").output().unwrap(), "`folder = \"…\"` under [store]");

    let broker = broker(&home, "127.0.0.1:0", &["--config", config]);
    let url = &broker.listening;
    let fails = |arguments: &[&str], hint: &str| {
        let output = whimbrel(&home).args(arguments).args(["--broker", url]).output().unwrap();
        assert_fails(&output, hint);
    };
    fails(&["sub", "#", "--durable", "all"], "takes topics of the channel `rest`, which is not durable");
    fails(&["sub", "orders/#", "--durable", "a\nb"], "no control characters");
    fails(
        &["sub", "orders/#", "--durable", "all", "--slow", "drop-oldest=5"],
        "leave --recover and --slow out",
    );
    fails(&["sub", "--end"], "--durable <NAME>");
    // Another broker with the same key keeps nothing in the same folder.
    let mut command = whimbrel(&home);
    command.args(["broker", "run", "--listen", "127.0.0.1:0", "--config", config]);
    assert_fails(&command.output().unwrap(), "another broker uses this folder");
}
