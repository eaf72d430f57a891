//! Runs brokers that speak over real servers of NATS.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;
mod nats;
mod pubsub;

use brokers::{Broker, until};
use common::{Home, Running, assert_fails, free_ports, whimbrel};
use nats::{Servers, program};
use pubsub::{lines, numbers};

/// Brokers b0, b1 and so on of a cluster over these servers.
fn brokers<'a>(home: &'a Home, number: usize, servers: &Servers) -> Vec<Broker<'a>> {
    let section = format!("[backbone.nats]\n{}", servers.setting());
    let ports = free_ports(number);
    let one = |at: usize| Broker::new(home, &format!("b{at}"), ports[at], "test of nats", &section).started();
    let brokers: Vec<_> = (0..number).map(one).collect();
    brokers.iter().for_each(|broker| broker.wait_until_linked(number as u64 - 1));
    brokers
}

fn sorted(running: Running) -> Vec<u32> {
    let mut all: Vec<u32> = lines(running).iter().map(|line| line.parse().unwrap()).collect();
    all.sort_unstable();
    all
}

#[test]
fn three_brokers_lose_nothing_when_a_server_is_killed_while_they_exchange() {
    let Some(program) = program() else { return };
    let home = Home::new("nats-killed");
    let mut servers = Servers::start(program, &home, 3, "");
    let brokers = brokers(&home, 3, &servers);
    let each = 3_000;
    let count = (3 * each).to_string();
    let subscribers: Vec<_> =
        brokers.iter().map(|broker| broker.subscriber("#", &["--count", &count])).collect();
    let mut publishers: Vec<_> = brokers.iter().map(|broker| broker.publisher("a")).collect();
    // The server of the first broker goes in the middle of it.
    let victim = brokers[0].status()["nats"]["server"].as_str().unwrap()[1..].parse().unwrap();
    for step in 0..30 {
        for (at, publisher) in (0..).zip(&mut publishers) {
            publisher.lines(numbers(at * each + step * 100..at * each + (step + 1) * 100));
        }
        if step == 10 {
            until("some of it arrives", || brokers[0].arrived() > 0);
            servers.kill(victim);
        }
    }
    publishers.into_iter().for_each(brokers::Publisher::end);
    for subscriber in subscribers {
        assert_eq!(sorted(subscriber), (0..3 * each).collect::<Vec<_>>());
    }
    until("it finds another server", || brokers[0].status()["nats"]["connections"] == 2);
}

#[test]
fn a_broker_goes_on_alone_without_servers_and_gaps_are_filled_later() {
    let Some(program) = program() else { return };
    let home = Home::new("nats-away");
    let mut servers = Servers::start(program, &home, 1, "");
    let mut brokers = brokers(&home, 2, &servers);
    servers.kill(0);
    brokers.iter().for_each(|broker| broker.wait_until_linked(0));
    let local = brokers[0].subscriber("#", &["--count", "1000"]);
    brokers[0].publish("a", numbers(0..1_000));
    assert_eq!(lines(local), numbers(0..1_000));
    let trouble = || brokers[0].status()["nats"]["trouble"].as_str().unwrap_or_default().to_owned();
    until("it says why", || trouble().contains("no connection to NATS"));
    servers.start_again(0);
    until("all is at the other", || brokers[1].arrived() == 1_000);
    // One that comes anew has nothing, and fills its buffer.
    brokers[1].kill();
    brokers[1].start();
    until("all is there again", || brokers[1].arrived() == 1_000);
    // What is said before a broker stops gets through.
    brokers[1].publish("a", numbers(1_000..1_010));
    brokers[1].stop();
    until("the last words arrive", || brokers[0].arrived() == 1_010);
}

#[test]
fn a_message_that_is_longer_than_the_servers_take_goes_in_parts() {
    let Some(program) = program() else { return };
    let home = Home::new("nats-large");
    let servers = Servers::start(program, &home, 1, "max_payload: 65536\n");
    let brokers = brokers(&home, 2, &servers);
    let file = home.file("map");
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at % 251) as u8).filter(|byte| *byte != b'\n').collect();
    std::fs::write(&file, &bytes).unwrap();
    let subscriber = brokers[1].subscriber("#", &["--count", "1"]);
    let output = whimbrel(&home)
        .args(["pub", "maps", "--broker", &brokers[0].url, "--file"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, stdout, errors) = subscriber.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(stdout.strip_suffix(b"\n") == Some(&bytes), "{} bytes came", stdout.len());
}

#[test]
fn brokers_whose_channels_differ_say_so_and_exchange_nothing() {
    let Some(program) = program() else { return };
    let home = Home::new("nats-differ");
    let servers = Servers::start(program, &home, 1, "");
    let section = |topics: &str| {
        format!("[[channel]]\nname = 'prices'\ntopics = '{topics}'\n[backbone.nats]\n{}", servers.setting())
    };
    let ports = free_ports(3);
    let mut one = Broker::new(&home, "one", ports[0], "c", &section("prices/#")).started();
    let other = Broker::new(&home, "other", ports[1], "c", &section("prices/fish/#")).started();
    for broker in [&one, &other] {
        until("it is heard of", || {
            broker.status()["nats"]["refused_brokers"].as_array().is_some_and(|all| all.len() == 1)
        });
    }
    let third = Broker::new(&home, "third", ports[2], "c", &section("prices/fish/#")).started();
    third.wait_until_linked(1);
    one.publish("prices/fish/cod", numbers(0..1));
    other.publish("prices/fish/cod", numbers(0..10));
    until("those alike exchange", || third.arrived() == 10);
    assert_eq!((one.arrived(), other.arrived()), (1, 10));
    let said = one.stop();
    assert!(said.contains("its channel `prices` differs from ours"), "{said}");
}

#[test]
fn what_the_server_refuses_is_told() {
    let Some(program) = program() else { return };
    let home = Home::new("nats-password");
    let servers = Servers::start(program, &home, 1, "authorization { user: whimbrel, password: 'right' }\n");
    let with = |name: &str, password: &str, port| {
        let section =
            format!("[backbone.nats]\n{}user = 'whimbrel'\npassword = '{password}'\n", servers.setting());
        Broker::new(&home, name, port, "c", &section).started()
    };
    let ports = free_ports(2);
    let right = with("right", "right", ports[0]);
    until("it is connected", || right.status()["nats"]["connected"] == true);
    let mut wrong = with("wrong", "false", ports[1]);
    until("it says why", || {
        wrong.status()["nats"]["trouble"]
            .as_str()
            .is_some_and(|why| why.contains("refuses this broker's credentials"))
    });
    assert!(!wrong.stop().contains("false"));
}

#[test]
fn mistakes_in_the_file_are_shown_with_their_place() {
    let home = Home::new("nats-check");
    let file = home.file("broker.toml");
    let check = |text: &str, hint: &str| {
        std::fs::write(&file, format!("[broker]\ncluster = 'c'\n[backbone.nats]\n{text}")).unwrap();
        assert_fails(&whimbrel(&home).args(["broker", "check"]).arg(&file).output().unwrap(), hint);
    };
    check("servers = 'http://a'\n", "broker.toml:4:11: ");
    check("servers = 'nats://a'\ncredentials = 'missing.creds'\n", "broker.toml:5:15: cannot use ");
    check("servers = 'nats://a'\nuser = 'u'\n", "one of `user` and `password`");
    check("servers = 'nats://a'\nca = 'missing.pem'\n", "broker.toml:5:6: ");
    std::fs::write(home.file("seed"), "no seed\n").unwrap();
    check("servers = 'nats://a'\nnkey = 'seed'\n", "broker.toml:5:8: ");
}
