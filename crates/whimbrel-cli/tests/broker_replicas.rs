//! Durable messages and subscriptions that several brokers keep, with three brokers as processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod pubsub;

use std::io::Write;

use common::{Home, Running, assert_fails, whimbrel};
use pubsub::cluster::{Cluster, until};
use pubsub::{lines, numbers, subscriber};

/// A durable channel whose buffer holds little, so that logs have to answer.
const DURABLE: &str = "[[channel]]\nname = 'all'\ndurable = true\nsegment = '64 KiB'\n\
                       [[channel.partition]]\nmessages = 20\n";

fn publisher(cluster: &Cluster, brokers: &[usize], topic: &str) -> Running {
    let mut command = whimbrel(&cluster.home);
    command.args(["pub", topic, "--wait", "60s"]);
    for at in brokers {
        command.args(["--broker", cluster.url(*at)]);
    }
    Running::started(&mut command)
}

fn published(cluster: &Cluster, at: usize, topic: &str, lines: &[String]) {
    let mut publisher = publisher(cluster, &[at], topic);
    let text: String = lines.iter().map(|line| line.clone() + "\n").collect();
    publisher.stdin().write_all(text.as_bytes()).unwrap();
    let (code, _, stderr) = publisher.end();
    assert_eq!(code, Some(0), "{stderr}");
}

/// Creates the subscription, and leaves.
fn subscribed(cluster: &Cluster, at: usize, name: &str) {
    let mut command = subscriber(&cluster.home, cluster.url(at), "#", &["--durable", name]);
    let (running, _) = Running::saying(&mut command, "attached at broker ");
    running.signal("-INT");
    running.end();
}

fn is_attached(cluster: &Cluster, at: usize) -> bool {
    cluster.status(at)["durable"][0]["attached"] == true
}

#[test]
fn a_message_is_acknowledged_when_two_brokers_have_it_on_disk() {
    let channel = |name: &str, within: &str| {
        format!(
            "[[channel]]\nname = '{name}'\ntopics = '{name}/#'\ndurable = true\nreplicas = 2\nacknowledge_within = '{within}'\n"
        )
    };
    let mut cluster =
        Cluster::new("replicas-acknowledged", &(channel("hasty", "500ms") + &channel("patient", "80s")));
    cluster.start(0);
    let one = |cluster: &Cluster, topic: &str| {
        let mut command = whimbrel(&cluster.home);
        command.args(["pub", topic, "--message", "cod", "--broker", cluster.url(0), "--wait", "60s"]);
        command
    };
    let output = one(&cluster, "hasty/a").output().unwrap();
    assert_fails(&output, "has to be on 2 brokers' disks, and only this broker is within reach");
    assert_eq!(cluster.status(0)["channels"][0]["arrived"], 0, "what is refused was not taken");
    let waiting = Running::started(&mut one(&cluster, "patient/a"));
    cluster.start(1);
    let (code, _, stderr) = waiting.end();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(one(&cluster, "hasty/a").output().unwrap().status.success());
    cluster.kill(1);
    // The killed broker is not known to be gone yet, and confirms nothing.
    assert_fails(&one(&cluster, "hasty/a").output().unwrap(), "too few brokers confirmed within 500ms");
    until("the other is gone", || cluster.status(0)["linked"] == 0);
    assert_fails(&one(&cluster, "hasty/a").output().unwrap(), "only this broker is within reach");
}

#[test]
fn a_subscription_moves_from_broker_to_broker_while_each_is_killed() {
    let mut cluster = Cluster::new("replicas-moves", DURABLE);
    (0..3).for_each(|at| cluster.start(at));
    cluster.wait_until_linked(&[0, 1, 2]);
    let state = cluster.home.file("state");
    let mut command =
        subscriber(&cluster.home, cluster.url(0), "#", &["--durable", "board", "--count", "1200"]);
    command.args([
        "--broker",
        cluster.url(1),
        "--broker",
        cluster.url(2),
        "--state",
        state.to_str().unwrap(),
    ]);
    let (board, _) = Running::saying(&mut command, "attached at broker ");
    // The publisher has a broker that is killed, too.
    let mut publisher = publisher(&cluster, &[2, 1, 0], "numbers");
    let mut input = publisher.stdin();
    let mut next = 0;
    for at in 0..3 {
        // Then it has not got them all yet: once it has, it ends.
        until("the subscription came", || is_attached(&cluster, at));
        for _ in 0..400 {
            writeln!(input, "{next}").unwrap();
            next += 1;
        }
        cluster.kill(at);
        cluster.start(at);
    }
    drop(input);
    let (code, _, stderr) = publisher.end();
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stdout, stderr) = board.end();
    assert_eq!(code, Some(0), "{stderr}");
    let mut got: Vec<u32> =
        String::from_utf8(stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    got.sort_unstable();
    assert_eq!(got, (0..1_200).collect::<Vec<_>>(), "{stderr}");
}

#[test]
fn a_subscription_that_was_ended_stays_ended_and_a_broker_that_was_away_gets_all() {
    let mut cluster = Cluster::new("replicas-away", DURABLE);
    (0..3).for_each(|at| cluster.start(at));
    cluster.wait_until_linked(&[0, 1, 2]);
    subscribed(&cluster, 0, "board");
    until("all know it", || (0..3).all(|at| cluster.status(at)["durable"][0]["name"] == "board"));
    cluster.kill(2);
    published(&cluster, 0, "a", &numbers(0..500));
    cluster.start(2);
    let mut command =
        subscriber(&cluster.home, cluster.url(2), "#", &["--durable", "board", "--count", "500"]);
    let mut got = lines(Running::started(&mut command));
    got.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert_eq!(got, numbers(0..500), "no buffer held so many");

    cluster.kill(1);
    let mut command = whimbrel(&cluster.home);
    let output = command.args(["sub", "--durable", "board", "--end", "--broker", cluster.url(0)]).output();
    assert!(output.unwrap().status.success());
    cluster.start(1);
    until("all forget it", || {
        (0..3).all(|at| cluster.status(at)["durable"].as_array().is_some_and(Vec::is_empty))
    });
    // It is another subscription now.
    let mut command = subscriber(&cluster.home, cluster.url(1), "a", &["--durable", "board", "--count", "1"]);
    let (board, _) = Running::saying(&mut command, "attached at broker ");
    published(&cluster, 0, "a", &["anew".to_owned()]);
    assert_eq!(lines(board), ["anew"]);
}

#[test]
fn a_subscription_is_made_with_most_brokers_and_says_who_has_not_confirmed() {
    let mut cluster = Cluster::new("replicas-made", DURABLE);
    cluster.start(0);
    let mut command = subscriber(&cluster.home, cluster.url(0), "#", &["--durable", "board"]);
    let (alone, _) =
        Running::saying(&mut command, "detached: this broker does not know the durable subscription");
    cluster.start(1);
    until("it is made", || is_attached(&cluster, 0));
    alone.signal("-INT");
    let (_, _, stderr) = alone.end();
    assert!(stderr.contains("not in force yet at the broker whose key begins with"), "{stderr}");
    cluster.start(2);
    until("the third hears of it", || cluster.status(2)["durable"][0]["name"] == "board");
    let mut command = subscriber(&cluster.home, cluster.url(2), "#", &["--durable", "board", "--count", "1"]);
    let (board, _) = Running::saying(&mut command, "attached at broker ");
    published(&cluster, 1, "a", &["cod".to_owned()]);
    let (code, stdout, stderr) = board.end();
    assert_eq!((code, &stdout[..]), (Some(0), &b"cod\n"[..]), "{stderr}");
    assert!(!stderr.contains("not in force"), "{stderr}");
}

/// One file that lists all brokers was copied to each of them. The broker would count its own disk twice.
#[test]
fn a_broker_that_is_among_its_own_peers_does_not_start() {
    let home = Home::new("replicas-own-peer");
    let own = home.file("own.key");
    let made = whimbrel(&home).args(["key", "new", "--out"]).arg(&own).output().unwrap();
    let key = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let file = home.file("broker.toml");
    let peer = format!("[[peer]]\nkey = '{key}'\n");
    std::fs::write(&file, format!("[broker]\ncluster = 'fish'\n{peer}")).unwrap();
    let checked = whimbrel(&home).args(["broker", "check", "--config"]).arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let run = || {
        let mut command = whimbrel(&home);
        command.args(["broker", "run", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
        command.arg("--key").arg(&own).output().unwrap()
    };
    assert_fails(&run(), "is this broker itself");
    std::fs::write(&file, format!("[broker]\ncluster = 'fish'\n{peer}{peer}")).unwrap();
    assert_fails(&run(), "remove one");
    std::fs::write(&file, "[listen]\naddress = '0.0.0.0:0'\n").unwrap();
    let checked = whimbrel(&home).args(["broker", "check"]).arg(&file).output().unwrap();
    assert_fails(&checked, "no client may do anything");
}
