//! Mistakes in a file, and what people are told.

use whimbrel_service::{parse_config, refuse_setting};

use super::{Settings, SettingsError};

const KEY: &str = "9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0";
const OTHER: &str = "-5vQjq2tYcsOYdTUo_WmTh4HCvnkIvkNR2TXxD1vr3Y";

fn check(settings: &Settings) -> Result<(), SettingsError> {
    settings.rules()?;
    settings.permissions()?;
    settings.mqtt()?;
    settings.nats()?;
    settings.bridges()?;
    settings.check_owner(&KEY.parse().unwrap())
}

/// Says what is wrong with a file, and where.
fn says(text: &str) -> String {
    let settings: Settings = match parse_config("b.toml", text) {
        Ok(settings) => settings,
        Err(error) => return error.to_string(),
    };
    match check(&settings) {
        Ok(()) => "nothing".to_owned(),
        Err(error) => refuse_setting("b.toml", text, &error.place(&settings), &error.to_string()).to_string(),
    }
}

/// Each file is refused in this place with these words.
fn refused(cases: &[(String, &str, &str)]) {
    let mut wrong = String::new();
    for (text, place, part) in cases {
        let said = says(text);
        if !said.starts_with(&format!("b.toml:{place}: ")) || !said.contains(part) {
            wrong += &format!("{text}\n----\n{said}\n----\n{place}: {part}\n====\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A file with a cluster and a channel, on five lines.
fn with(more: &str) -> String {
    format!("[broker]\ncluster = 'c'\n[[channel]]\nname = 'prices'\ntopics = 'prices/#'\n{more}")
}

/// A bridge, whose rest begins on the ninth line.
fn bridge(more: &str) -> String {
    with(&format!("[[bridge]]\nname = 'b'\nurl = 'mqtt://a'\n{more}"))
}

#[test]
fn regression_what_is_of_the_wrong_kind_is_told_with_what_fits() {
    refused(&[
        (bridge("version = 4"), "9:11", "`4` is not a version of MQTT: write \"5\" or \"3.1.1\""),
        (bridge("version = 'v5'"), "9:11", "write \"5\" or \"3.1.1\""),
        (bridge("version = 3.1.1"), "9:11", "write \"3.1.1\""),
        (
            with("[bridge]"),
            "6:1",
            "`[bridge]` is one section, and there may be several of them: write [[bridge]]",
        ),
        (with("[bridge]\nname = 'b'"), "6:1", "write [[bridge]]"),
        (with("[peer]\nkey = 'x'"), "6:1", "write [[peer]]"),
        (with("[mqtt.user]\nname = 'x'"), "6:1", "write [[mqtt.user]]"),
        ("[[broker]]\nname = 'b'".to_owned(), "1:1", "there is only one: write [broker]"),
        ("[[channel.partition]]\n".to_owned(), "1:3", "has no [[channel]] above it"),
        ("channel = 'prices'".to_owned(), "1:11", "write sections that begin with [[channel]]"),
        ("listen = '0.0.0.0:4433'".to_owned(), "1:10", "write a section with settings of its own, [listen]"),
        (
            with("[[channel.partition]]\npolicy = 'lru'"),
            "7:10",
            "`lru` is not a policy: write \"lrp\", \"ran\" or \"pwp\"",
        ),
        (with("[[channel.partition]]\npolicy = 1"), "7:10", "write \"lrp\", \"ran\" or \"pwp\""),
        (with("durable = 'yes'"), "6:11", "write true or false"),
        (with("unknown_after = 10"), "6:17", "write a number and a unit"),
        (with("durable = true\nmax_bytes = '10 GBs'"), "7:13", "10 GBs"),
        (with("retained = '100'"), "6:12", "write a whole number, 0 or more"),
        (
            with("[other_clients]\npublish = 5"),
            "7:11",
            "write a filter such as \"prices/#\", or a list of filters",
        ),
        (with("[other_clients]\npublish = ['a', 5]"), "7:17", "write text in quotation marks"),
        (with("[other_clients]\npublish = ['a', 'b/#/c']"), "7:17", "not the last level"),
        (with("[other_clients]\nquota = 5"), "7:9", "such as `messages`, `bytes`"),
        (with("[backbone.nats]\nservers = 5"), "7:11", "or a list of them"),
        (with("[mqtt]\naddress = 'localhost:1883'"), "7:11", "127.0.0.1:4433"),
    ]);
    assert_eq!(says(&bridge("version = 5\nout = [{ filter = 'prices/#' }]")), "nothing");
}

#[test]
fn regression_a_misspelt_name_is_told_with_the_right_one() {
    refused(&[
        (with("[brokers]"), "6:2", "write `broker`"),
        (with("[[chanel]]"), "6:3", "write `channel`"),
        (with("durabel = true"), "6:1", "write `durable`"),
        (with("max-bytes = '1 GiB'"), "6:1", "write `max_bytes`"),
        (bridge("keepalive = '15s'"), "9:1", "write `keep_alive`"),
        (bridge("out = [{ filer = 'a' }]"), "9:10", "write `filter`"),
        (with("[mqtt]\nadress = '127.0.0.1:1'"), "7:1", "write `address`"),
        (with("[store]\ndirectory = '/x'"), "7:1", "the settings here are `folder`"),
    ]);
}

#[test]
fn regression_what_no_single_line_says_is_shown_where_it_is() {
    let peer = format!("[[peer]]\nkey = '{OTHER}'\n");
    let user = "[[mqtt.user]]\nname = 'u'\n";
    let mqtt = "[mqtt]\naddress = '127.0.0.1:1'\n";
    refused(&[
        (with("[[channel]]\nname = 'prices'"), "7:8", "two channels"),
        (with("replicas = 2"), "6:12", "`replicas` is for durable channels"),
        (with("durable = true\nreplicas = 3"), "7:12", "more than there are brokers"),
        (with("[[channel.partition]]\n[[channel.partition]]\nmessages = 0"), "8:12", "holds nothing"),
        (with("[[channel.partition]]\nfrom = 1"), "7:8", "no `key`"),
        (with("[[peer]]\n"), "6:1", "has no key"),
        (with(&format!("{peer}{peer}")), "9:7", "remove one"),
        (with(&format!("[[peer]]\nkey = '{KEY}'\n")), "7:7", "this broker itself"),
        (with(&format!("{peer}channels = ['prices', 'fish']\n")), "8:23", "no [[channel]] has this name"),
        (peer.clone(), "1:1", "the cluster has no name"),
        (with(&format!("{peer}[backbone.nats]\nservers = 'nats://a'")), "8:1", "NATS needs no peers"),
        (with("[backbone.nats]\nservers = []"), "7:11", "names no server"),
        (with(&format!("[[client]]\nkey = '{OTHER}'\n[[client]]\nkey = '{OTHER}'\n")), "9:7", "two clients"),
        (with(mqtt), "6:1", "nobody may connect"),
        (with(&format!("{mqtt}{user}")), "8:1", "needs a `password` or a `certificate`"),
        (with(&format!("{mqtt}max_packet = '1 B'\nanonymous = true\n[other_clients]\n")), "8:14", "1 KiB"),
        (bridge(""), "6:1", "carries nothing"),
        (bridge("password = 'p'\nout = [{ filter = 'prices/#' }]"), "9:12", "no `user`"),
        (bridge("out = [{ filter = 'prices/#', qos = 2 }]"), "9:37", "0 or 1"),
        (bridge("ca = 'x.pem'\nout = [{ filter = 'prices/#' }]"), "8:7", "mqtts://"),
    ]);
}

#[test]
fn regression_a_bridge_that_no_channel_serves_is_refused() {
    refused(&[
        (
            bridge("out = [{ filter = 'sensors/#' }]"),
            "9:19",
            "no channel of this broker has topics that match `sensors/#`",
        ),
        (
            bridge("in = [{ filter = 'x/#' }, { filter = 'y/#', prefix = 'prices/' }]"),
            "9:18",
            "comes here as `x/#`",
        ),
    ]);
    assert_eq!(says(&bridge("in = [{ filter = 'x/#', prefix = 'prices/' }]")), "nothing");
}
