//! Groups whose members are native clients and those of MQTT.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;
mod mqtt;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use brokers::until;
use common::{Home, assert_fails, whimbrel};
use mqtt::Raw;
use mqtt::broker::Broker;

/// A native member, whose output is in a file.
struct Member {
    child: Child,
    output: PathBuf,
}

impl Member {
    /// One that was attached.
    fn attached(home: &Home, url: &str, name: &str, filter: &str, more: &[&str]) -> Self {
        let output = home.file(name);
        let mut command = whimbrel(home);
        command.args(["sub", filter, "--broker", url]).args(more).stdout(File::create(&output).unwrap());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(errors.any(|line| line.starts_with("attached at broker ")), "{name} ended");
        // It goes on to be read, so that nothing waits for it.
        std::thread::spawn(move || errors.count());
        Self { child, output }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.output).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Acknowledges what an MQTT client gets, and notes it.
fn listen(mut client: Raw) -> Arc<Mutex<Vec<String>>> {
    let noted: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&noted);
    std::thread::spawn(move || {
        while let Some((first, body)) = client.try_receive() {
            assert_eq!(first, 0x32, "{body:?}");
            let topic = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
            notes.lock().unwrap().push(String::from_utf8(body[topic + 2..].to_vec()).unwrap());
            client.send(0x40, &body[topic..topic + 2]);
        }
    });
    noted
}

fn publish(broker: &Broker, numbers: std::ops::Range<u32>) {
    let mut publisher = broker.v3("publisher");
    numbers.for_each(|number| publisher.confirmed(0x32, "work/a", number.to_string().as_bytes()));
}

fn numbers(range: std::ops::Range<u32>) -> BTreeSet<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn native_and_mqtt_members_get_each_message_once_and_those_of_one_that_is_killed() {
    let broker = Broker::start("groups-mixed");
    let member = |name| Member::attached(&broker.home, &broker.native, name, "$share/g/work/#", &[]);
    let (one, other) = (member("one"), member("other"));
    let mut third = broker.v3("third");
    assert_eq!(third.subscribe(1, &[("$share/g/work/#", 1)]), [1]);
    let third = listen(third);
    let all = Member::attached(&broker.home, &broker.native, "all", "work/#", &[]);
    publish(&broker, 0..60);
    let each = || [one.lines(), other.lines(), third.lock().unwrap().clone()];
    until("all came", || each().iter().map(Vec::len).sum::<usize>() >= 60 && all.lines().len() == 60);
    let got = each();
    assert_eq!(got.concat().len(), 60, "each came once: {got:?}");
    assert_eq!(got.concat().into_iter().collect::<BTreeSet<_>>(), numbers(0..60));
    assert!(got.iter().all(|lines| !lines.is_empty()), "each has some: {got:?}");
    // One that answers no more holds up what it was given, until it counts as gone.
    one.signal("-STOP");
    publish(&broker, 60..120);
    one.signal("-KILL");
    let of_others = || {
        let lines = [other.lines(), third.lock().unwrap().clone()].concat().into_iter();
        lines.filter(|line| line.parse::<u32>().unwrap() >= 60).collect::<Vec<_>>()
    };
    until("others got what it was given", || of_others().len() >= 60);
    assert_eq!(of_others().into_iter().collect::<BTreeSet<_>>(), numbers(60..120));
}

#[test]
fn a_member_that_ends_leaves_the_rest_to_others() {
    let broker = Broker::start("groups-leave");
    let member =
        |name, more: &[&str]| Member::attached(&broker.home, &broker.native, name, "$share/g/work/#", more);
    let (mut one, other) = (member("one", &[]), member("other", &[]));
    publish(&broker, 0..10);
    until("all came", || one.lines().len() + other.lines().len() == 10);
    one.signal("-INT");
    one.child.wait().unwrap();
    let had = one.lines().len();
    publish(&broker, 10..20);
    until("the rest came", || had + other.lines().len() == 20);
    let got = [one.lines(), other.lines()].concat().into_iter().collect::<BTreeSet<_>>();
    assert_eq!(got, numbers(0..20));
}

#[test]
fn selectors_are_the_group_s_and_what_a_member_cannot_have_is_said() {
    let broker = Broker::start("groups-refused");
    let (home, url) = (&broker.home, broker.native.as_str());
    let selector = ["--selector", "size > 3"];
    let one = Member::attached(home, url, "one", "$share/g/work/#", &selector);
    for size in ["1", "5"] {
        let property = format!("size={size}");
        let sent = whimbrel(home)
            .args(["pub", "work/a", "--broker", url, "--property", &property, "--message", size])
            .output()
            .unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
    until("it has come", || one.lines() == ["5"]);
    let fails = |filter: &str, more: &[&str], code: i32, hint: &str| {
        let output = whimbrel(home).args(["sub", filter, "--broker", url]).args(more).output().unwrap();
        assert_fails(&output, hint);
        assert_eq!(output.status.code(), Some(code), "{filter} {more:?}");
    };
    fails("$share/g/work/#", &[], 1, "another selector");
    let state = home.file("state").display().to_string();
    for kept in [&["--state", &*state][..], &["--semi-durable"], &["--durable", "d"], &["--from-held"]] {
        fails("$share/g/work/#", kept, 2, "which its members share");
    }
    fails("$share/g/work/#", &["--slow", "replace-by-key"], 2, "in order");
    fails("$share/g", &[], 2, "filter");
}
