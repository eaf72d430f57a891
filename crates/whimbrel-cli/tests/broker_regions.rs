//! Runs three brokers of which each has other channels.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;
mod pubsub;

use brokers::{Broker, key, until};
use common::{Home, assert_fails, free_ports, whimbrel};
use pubsub::{lines, numbers};

/// A channel's section.
fn channel(name: &str) -> String {
    format!("[[channel]]\nname = '{name}'\ntopics = '{name}/#'\n")
}

fn arrived(broker: &Broker<'_>, channel: &str) -> u64 {
    let status = broker.status();
    let channels = status["channels"].as_array().unwrap();
    channels
        .iter()
        .find(|known| known["name"] == channel)
        .map_or(0, |channel| channel["arrived"].as_u64().unwrap())
}

#[test]
fn links_carry_the_channels_that_both_brokers_have() {
    let home = Home::new("regions");
    let ports = free_ports(3);
    let names = ["north", "south", "centre"];
    let urls: Vec<_> = names
        .iter()
        .zip(&ports)
        .map(|(name, port)| format!("whimbrel://{}@127.0.0.1:{port}", key(&home, name)))
        .collect();
    let peers = |at: usize, more: [&str; 3]| -> String {
        let others = (0..3).filter(|other| *other != at);
        others.map(|other| format!("[[peer]]\nurl = '{}'\n{}", urls[other], more[other])).collect()
    };
    let start = |at: usize, channels: &[&str], more: [&str; 3]| {
        let channels: String = channels.iter().map(|name| channel(name)).collect();
        // The key is there already.
        Broker::with_key(&home, names[at], ports[at], "regions", &(channels + &peers(at, more))).started()
    };
    // The centre keeps its own archive from the south.
    let without_archive = "channels = ['fish', 'weather']\n";
    let north = start(0, &["fish", "archive"], [""; 3]);
    let south = start(1, &["weather", "archive"], [""; 3]);
    let centre = start(2, &["fish", "weather", "archive"], ["", without_archive, ""]);
    [&north, &south, &centre].into_iter().for_each(|broker| broker.wait_until_linked(2));
    let at_centre = centre.subscriber("#", &["--count", "200"]);
    let at_south = south.subscriber("weather/#", &["--count", "100"]);
    centre.publish("weather/today", numbers(0..100));
    north.publish("fish/cod", numbers(100..200));
    assert_eq!(lines(at_south), numbers(0..100));
    let mut all = lines(at_centre);
    all.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert_eq!(all, numbers(0..200));
    assert_eq!((north.arrived(), south.arrived()), (100, 100), "the others have no use for it");
    // A broker tells where a topic is that it does not have.
    let north_knows = || {
        let output = north.sub("weather/#", &[]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    until("it has heard of both", || north_knows().contains("the broker south, whimbrel://"));
    let refused = north.sub("weather/#", &[]).output().unwrap();
    assert_fails(&refused, "no channel of this broker has topics that match `weather/#`; ask the broker ");
    assert_fails(&refused, "(channel `weather`)");
    let mut publish = whimbrel(&home);
    publish.args(["pub", "weather/today", "--message", "x", "--broker", &north.url]);
    assert_fails(&publish.output().unwrap(), "; ask the broker ");
    let nobody = north.sub("news", &[]).output().unwrap();
    assert_fails(&nobody, "no channel of this broker has topics that match `news`");
    // What the file keeps from a link goes over none.
    centre.publish("archive/1", numbers(0..10));
    until("the north has it", || arrived(&north, "archive") == 10);
    south.publish("archive/1", numbers(10..20));
    until("the north has it", || arrived(&north, "archive") == 20);
    assert_eq!(arrived(&centre, "archive"), 10);
    assert_eq!(arrived(&south, "archive"), 10);
}

#[test]
fn channels_of_one_name_that_differ_end_the_link() {
    let home = Home::new("regions-differ");
    let ports = free_ports(2);
    let url = format!("whimbrel://{}@127.0.0.1:{}", key(&home, "one"), ports[0]);
    let other_key = key(&home, "other");
    let text = |topics: &str, peer: &str| {
        format!(
            "[[channel]]\nname = 'fish'\ntopics = '{topics}'\n[[channel]]\nname = 'rest'\n[[peer]]\n{peer}\n"
        )
    };
    let one = Broker::with_key(&home, "one", ports[0], "c", &text("fish/#", &format!("key = '{other_key}'")))
        .started();
    let differs = text("fish/cod/#", &format!("url = '{url}'"));
    let mut other = Broker::with_key(&home, "other", ports[1], "c", &differs).started();
    let trouble = |broker: &Broker<'_>| {
        broker.status()["brokers"][0]["trouble"].as_str().unwrap_or_default().to_owned()
    };
    let why = "its channel `fish` differs from ours";
    until("it says why", || trouble(&one).contains(why) || trouble(&other).contains(why));
    one.publish("rest", numbers(0..10));
    assert_eq!(other.arrived(), 0);
    other.stop();
}

#[test]
fn a_peer_gets_only_channels_that_are_there() {
    let home = Home::new("regions-check");
    let file = home.file("broker.toml");
    let key = key(&home, "x");
    let text =
        format!("[broker]\ncluster = 'c'\n{}[[peer]]\nkey = '{key}'\nchannels = ['fowl']\n", channel("fish"));
    std::fs::write(&file, text).unwrap();
    let output = whimbrel(&home).args(["broker", "check"]).arg(&file).output().unwrap();
    assert_fails(&output, "the channel `fowl`, but no [[channel]] has this name");
}
