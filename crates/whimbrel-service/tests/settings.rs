//! The library's settings in files: what is written is read, quantities are text, and mistakes are refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Debug;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use whimbrel::{
    AcceptorConfig, Congestion, CostPolicy, CreditPolicy, ListenConfig, Paths, PrimaryRule, Quality, Repeats,
    Scheduling, SessionConfig, StreamOptions, SuspendMode, Threshold, TransportConfig, new_identity,
};
use whimbrel_service::parse_config;

/// Writes settings of which every field differs from its default, reads them, and compares.
fn comes_back<T: Serialize + DeserializeOwned + Default>(changed: &T) -> String {
    let json = serde_json::to_value(changed).unwrap();
    assert_differs("", &json, &serde_json::to_value(T::default()).unwrap());
    let text = toml::to_string(changed).unwrap();
    let read: T = parse_config("x.toml", &text).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), json, "{text}");
    assert_eq!(serde_json::to_value(serde_json::from_value::<T>(json.clone()).unwrap()).unwrap(), json);
    let empty: T = parse_config("x.toml", "").unwrap();
    assert_eq!(toml::to_string(&empty).unwrap(), toml::to_string(&T::default()).unwrap());
    assert!(parse_config::<T>("x.toml", "speed = 1").is_err(), "unknown");
    text
}

fn assert_differs(path: &str, changed: &Value, default: &Value) {
    if let (Value::Object(changed), Value::Object(default)) = (changed, default) {
        for (name, value) in changed {
            assert_differs(&format!("{path}.{name}"), value, default.get(name).unwrap_or(&Value::Null));
        }
        assert!(default.keys().all(|name| changed.contains_key(name)), "{path}");
    } else {
        assert_ne!(changed, default, "this test does not change {path}");
    }
}

fn session() -> SessionConfig {
    SessionConfig::default()
        .max_message(1 << 20)
        .session_window(3 << 20)
        .stream_window(1_000_000)
        .stream_share(70_001)
        .max_streams(200)
        .send_queue_messages(7)
        .send_queue_bytes(2 << 20)
        .stream_send_buffer(65_536)
        .gap_wait(Duration::from_micros(1_500))
        .ageing(Duration::ZERO)
        .cross_sequencing(true)
        .small_message(64)
        .urgent_priority(255)
        .max_unconfirmed(9)
        .max_tags(11)
}

fn second(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn transport_settings_come_back() {
    let text = comes_back(
        &TransportConfig::default()
            .session(session())
            .credit_budget(1 << 20)
            .memory_budget(u64::from(u32::MAX))
            .send_budget(3_000)
            .congestion(Congestion::Fixed { bytes_per_s: 250_000 })
            .max_udp_payload(1_200)
            .idle_timeout(second(90))
            .reattach(None)
            .keep_alive(None)
            .max_ack_delay(Duration::from_nanos(1))
            .repeats(Repeats::Fixed(3))
            .max_paths(2)
            .scheduler(Scheduling::Redundant)
            .primary_rule(PrimaryRule::MostReceived)
            .coupled(false)
            .cost_policy(CostPolicy::NeverAbove(4))
            .deadline_budget(50)
            .repair_budget(7)
            .probe_interval(second(2))
            .wait_time(second(86_400))
            .max_waiting(1)
            .max_waiting_bytes(5_000)
            .handshake_timeout(second(3))
            .close_timeout(second(4))
            .key_update_packets(1_024)
            .ecn(false),
    );
    for line in [
        "max_udp_payload = \"1200 B\"",
        "idle_timeout = \"90s\"",
        "reattach = \"none\"",
        "congestion = \"fixed:2mbit\"",
        "cost_policy = \"never-above=4\"",
        "key_update_packets = 1024",
        "session_window = \"3 MiB\"",
        "gap_wait = \"1500us\"",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
}

/// A setting that the guide gives in bytes or as a duration is text in a file.
#[test]
fn quantities_are_text() {
    const GUIDE: &str = include_str!("../../../docs/guide.md");
    let [transport, listen] = [
        serde_json::to_value(TransportConfig::default()).unwrap(),
        serde_json::to_value(ListenConfig::default()).unwrap(),
    ];
    for (heading, settings) in [
        ("TransportConfig", &transport),
        ("SessionConfig", &transport["session"]),
        ("ListenConfig", &listen),
        ("AcceptorConfig", &listen["acceptor"]),
    ] {
        let below = GUIDE.split_once(&format!("\n### {heading}\n")).unwrap().1;
        let section = below.lines().take_while(|line| !line.starts_with('#'));
        let rows: Vec<(&str, &str)> = section
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .map(|(field, rest)| (field, rest.split(" | ").next().unwrap()))
            .collect();
        assert!(rows.len() > 5, "{heading}");
        for (field, unit) in rows {
            let is_quantity = unit == "bytes" || unit == "duration";
            assert!(!is_quantity || settings[field].is_string(), "{heading}::{field}: {}", settings[field]);
        }
    }
}

#[test]
fn stream_options_come_back() {
    let options = StreamOptions::default()
        .cross_sequencing(Some(true))
        .gap_wait(Some(Duration::from_millis(250)))
        .credit(CreditPolicy::Latest { unread: 3 })
        .priority(7)
        .window(Some(1 << 20));
    let text = comes_back(&options);
    assert_eq!(parse_config::<StreamOptions>("x.toml", &text).unwrap(), options);
    let none: StreamOptions = parse_config("x.toml", "gap_wait = 'none'\nwindow = 'none'").unwrap();
    assert_eq!(none, StreamOptions::default());
}

#[test]
fn listeners_settings_come_back_without_their_secret() {
    let acceptor = AcceptorConfig::default()
        .show_key(true)
        .aes_in_hardware(true)
        .cookies_remembered(1)
        .ticket_life(second(3_600))
        .tickets_remembered(2);
    comes_back(&acceptor);
    let [one, other] = [(), ()].map(|()| new_identity().public());
    let listen = ListenConfig::default()
        .acceptor(acceptor)
        .allow(Some([one].into()))
        .deny([other].into())
        .protocols(vec!["chat/1".into(), "chat/2".into()])
        .early_from_tickets(true)
        .max_connections(1)
        .max_per_key(2)
        .network_share(3)
        .pings_per_address(4)
        .handshakes_per_second(5)
        .syns_per_second(6);
    let text = comes_back(&listen);
    assert!(text.contains(&format!("allow = [\"{one}\"]")) && !text.contains("psk"), "{text}");
    assert!(
        parse_config::<ListenConfig>("x.toml", "[acceptor]\npsk = '00'").is_err(),
        "secrets have files of their own"
    );
    assert!(serde_json::to_value(ListenConfig::default().protocols(vec![(&[0xff][..]).into()])).is_err());
}

#[test]
fn settings_of_one_word_come_back() {
    fn word<T: Serialize + DeserializeOwned + PartialEq + Debug>(setting: T, text: &str) {
        assert_eq!(serde_json::to_value(&setting).unwrap(), text);
        assert_eq!(serde_json::from_value::<T>(text.into()).unwrap(), setting);
    }
    word(CreditPolicy::Wait, "wait");
    word(CreditPolicy::Latest { unread: 10 }, "latest:10");
    word(SuspendMode::Flush, "flush");
    word(SuspendMode::Snapshot, "snapshot");
    word(Threshold::new(Quality::Rtt(Duration::from_millis(250))), "rtt:250ms");
    word(Threshold { quality: Quality::Queue(1 << 20), hysteresis: 5 }, "queue:1 MiB,hysteresis=5%");
}

#[test]
fn a_setting_may_be_written_as_a_number() {
    let repeats = |text: &str| serde_json::from_str::<Repeats>(text).map_err(|error| error.to_string());
    assert_eq!((repeats("2"), repeats("\"2\"")), (Ok(Repeats::Fixed(2)), Ok(Repeats::Fixed(2))));
    for wrong in ["256", "-1", "1.5", "true", "null", "[2]", "{\"fixed\": 2}"] {
        let error = repeats(wrong).unwrap_err();
        assert!(error.contains("is not a number of repeats: write auto, or 0 to 255"), "{wrong}: {error}");
    }
}

#[test]
fn paths_are_text_or_a_list() {
    #[derive(serde::Deserialize)]
    struct Own {
        paths: Paths,
    }
    let read = |text: &str| parse_config::<Own>("x.toml", text).map(|own| own.paths);
    let list = read("paths = ['10.0.0.7,cost=2', '192.0.2.7']").unwrap();
    assert_eq!(list, read("paths = '10.0.0.7,cost=2 192.0.2.7'").unwrap());
    assert_eq!(list.to_string(), "10.0.0.7,cost=2 192.0.2.7");
    assert_eq!(read("paths = 'single'").unwrap(), Paths::Single);
    for (text, hint) in [
        (
            "paths = ['10.0.0.7', 'eth0']",
            "x.toml:1:22: `eth0` is not an IP address: write an address of this host",
        ),
        ("paths = []", "name an address of this host"),
        ("paths = 7", "\"auto\", \"single\", or a list of this host's addresses"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
}

#[test]
fn a_mistake_says_what_to_write() {
    let says = |text: &str| parse_config::<TransportConfig>("x.toml", text).unwrap_err().to_string();
    for (text, hint) in [
        (
            "idle_timeout = 5",
            "x.toml:1:16: `5` is not a duration: write a number and a unit, for example 50ms",
        ),
        ("idle_timeout = true", "a duration in quotation marks, for example \"250ms\""),
        ("idle_timeout = 'none'", "is not a duration"),
        (
            "reattach = 'never'",
            "`never` is not a duration: write a number and a unit, for example 50ms, 1.5s, 250us, 2min, or none",
        ),
        ("credit_budget = 'much'", "64Ki"),
        ("credit_budget = -1", "64Ki"),
        ("max_udp_payload = '64 KiB'", "x.toml:1:19: `64 KiB` is too large for this setting"),
        ("scheduler = 'fastest'", "primary, aggregate or redundant"),
        ("[session]\nmax_mesage = 7", "x.toml:2:1: unknown setting `max_mesage`: write `max_message`"),
    ] {
        assert!(says(text).contains(hint), "{text}: {}", says(text));
    }
    let sizes: TransportConfig =
        parse_config("x.toml", "credit_budget = 1472\nmemory_budget = '64k'").unwrap();
    assert_eq!((sizes.credit_budget, sizes.memory_budget), (1_472, 64_000));
}
