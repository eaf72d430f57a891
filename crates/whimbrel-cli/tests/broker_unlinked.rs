//! Runs brokers that cannot be linked, and reads why.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brokers;
mod common;

use brokers::{Broker, key, until};
use common::{Home, free_ports, whimbrel};
use serde_json::Value;

/// What the status says of the broker with this key.
fn standing(broker: &Broker<'_>, key: &str) -> Value {
    let status = broker.status();
    let mut brokers = status["brokers"].as_array().into_iter().flatten();
    brokers.find(|other| other["key"] == key).cloned().unwrap_or_default()
}

fn trouble(broker: &Broker<'_>, key: &str) -> String {
    standing(broker, key)["trouble"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn regression_a_status_says_why_a_broker_is_not_linked_and_what_comes_next() {
    let home = Home::new("unlinked");
    let ports = free_ports(4);
    let names = ["one", "silent", "nameless", "awaited", "stranger", "other"];
    let keys = names.map(|name| key(&home, name));
    let [_, silent, nameless, awaited, stranger, other] = &keys;
    // One that knows nobody, and one of another cluster.
    let strange = Broker::with_key(&home, "stranger", ports[1], "c", "").started();
    let elsewhere = format!("[[peer]]\nkey = '{}'\n", keys[0]);
    let elsewhere = Broker::with_key(&home, "other", ports[2], "another cluster", &elsewhere).started();
    let text = format!(
        "[transport]\nhandshake_timeout = '300ms'\n\
         [[peer]]\nurl = 'whimbrel://{silent}@127.0.0.1:{}'\n\
         [[peer]]\nurl = 'whimbrel://{nameless}@nowhere.invalid:4433'\n\
         [[peer]]\nkey = '{awaited}'\n[[peer]]\nurl = '{}'\n[[peer]]\nurl = '{}'\n",
        ports[3], strange.url, elsewhere.url
    );
    let one = Broker::with_key(&home, "one", ports[0], "c", &text).started();
    for (key, part) in [
        (silent, "no answer from 127.0.0.1:"),
        (nameless, "cannot find the address of nowhere.invalid"),
        (stranger, "has no [[peer]] with your key"),
        (other, "give all brokers the same `cluster`"),
    ] {
        until(part, || trouble(&one, key).contains(part));
        let standing = standing(&one, key);
        assert_eq!((&standing["linked"], &standing["linked_s"]), (&false.into(), &Value::Null));
        assert!(standing["away_s"].as_f64() > Some(0.0), "{standing:#}");
        until("the next attempt is told", || {
            let standing = self::standing(&one, key);
            standing["state"] == "waiting"
                && standing["next_attempt_s"].as_f64().is_some_and(|next| next <= 1.0)
        });
    }
    assert_eq!(standing(&one, awaited)["state"], "awaited");
    let status = whimbrel(&home).args(["broker", "status"]).arg(home.file("one.sock")).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    for part in [
        "not linked for ",
        "no answer from 127.0.0.1:",
        "it must dial, since its [[peer]] here has no `url`",
        "has no [[peer]] with your key",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    // Once linked, nothing is wrong.
    let text = format!("[[peer]]\nurl = '{}'\n", one.url);
    let mut late = Broker::with_key(&home, "awaited", ports[3], "c", &text).started();
    until("it is linked", || standing(&one, awaited)["state"] == "linked");
    let linked = standing(&one, awaited);
    assert_eq!((&linked["away_s"], &linked["trouble"]), (&Value::Null, &Value::Null));
    late.stop();
    until("its end is told", || trouble(&one, awaited).contains("the broker was stopped"));
}
